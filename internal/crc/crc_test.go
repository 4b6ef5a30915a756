package crc

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestTheChecksumIsThatOfTheStandardLibrary(t *testing.T) {
	if !folds {
		t.Log("this processor does not fold")
	}
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 70_000)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	check := func(at, n int) {
		t.Helper()
		if got, want := Checksum(b[at:at+n]), crc32.Checksum(b[at:at+n], castagnoli); got != want {
			t.Fatalf("%d bytes from %d on: %08x, want %08x", n, at, got, want)
		}
	}
	for n := range 2000 { // each remainder of 256, 64 and 8, several times
		check(n%67, n)
	}
	for range 200 {
		check(r.IntN(64), r.IntN(65_536))
	}
}

func TestASingleBitChangesTheChecksum(t *testing.T) {
	b := make([]byte, 1456)
	sum := Checksum(b)
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		if Checksum(b) == sum {
			t.Fatalf("bit %d does not count", i)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

func FuzzChecksum(f *testing.F) {
	f.Add([]byte("123456789"))
	f.Add(make([]byte, 777))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := Checksum(b), crc32.Checksum(b, castagnoli); got != want {
			t.Fatalf("%08x, want %08x", got, want)
		}
	})
}

func BenchmarkChecksum(b *testing.B) {
	for _, n := range []int{112, 256, 1456, 8956} {
		frame := make([]byte, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for range b.N {
				Checksum(frame)
			}
		})
		b.Run(fmt.Sprintf("%d/standard", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for range b.N {
				crc32.Checksum(frame, castagnoli)
			}
		})
	}
}
