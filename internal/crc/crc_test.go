package crc

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestTheChecksumIsThatOfTheStandardLibrary(t *testing.T) { eachWay(t, testChecksum) }

func testChecksum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 70_000)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	check := func(at, n int) {
		t.Helper()
		if got, want := Checksum(b[at:at+n]), crc32.Checksum(b[at:at+n], castagnoli()); got != want {
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

func TestACopyIsWhatWasCopiedAndItsChecksumGoesOn(t *testing.T) { eachWay(t, testCopy) }

func testCopy(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, 70_000)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	to, blank := make([]byte, len(b)), make([]byte, len(b))
	check := func(at, n, where, before int) {
		t.Helper()
		clear(to)
		sum := Copy(to[where:], b[at:at+n], Checksum(b[at-before:at]))
		if want := crc32.Checksum(b[at-before:at+n], castagnoli()); sum != want {
			t.Fatalf("%d bytes behind %d others: %08x, want %08x", n, before, sum, want)
		}
		if !bytes.Equal(to[where:where+n], b[at:at+n]) {
			t.Fatalf("%d bytes from %d on differ from their copy", n, at)
		}
		if !bytes.Equal(to[:where], blank[:where]) || !bytes.Equal(to[where+n:], blank[where+n:]) {
			t.Fatalf("a copy of %d bytes to %d changes others", n, where)
		}
	}
	for n := range 1000 {
		check(100+n%67, n, n%61, n%71)
	}
	for range 50 {
		check(100+r.IntN(64), r.IntN(65_536), r.IntN(64), r.IntN(100))
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
		if got, want := Checksum(b), crc32.Checksum(b, castagnoli()); got != want {
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
				crc32.Checksum(frame, castagnoli())
			}
		})
	}
}

// The sources follow one another in memory, as those of a long message do. The copies take turns
// in one buffer, as when frames are staged.
func BenchmarkCopy(b *testing.B) {
	from, to := make([]byte, 1<<20), make([]byte, 64<<10)
	for _, n := range []int{1408, 8896} {
		each := func(name string, f func(to, from []byte)) {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(n))
				i, j := 0, 0
				for range b.N {
					if i += n; i+n > len(from) {
						i = 0
					}
					if j += n + 64; j+n > len(to) {
						j = 0
					}
					f(to[j:j+n], from[i:i+n])
				}
			})
		}
		each("both", func(to, from []byte) { Copy(to, from, 0) })
		each("apart", func(to, from []byte) { copy(to, from); Checksum(to) })
		each("copy", func(to, from []byte) { copy(to, from) })
	}
}
