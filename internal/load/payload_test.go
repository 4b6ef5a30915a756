package load_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/load"
)

func TestWhatWasFilledIsKnownAgain(t *testing.T) {
	for n := range 100 {
		b := make([]byte, n)
		load.Fill(b, load.Seed(1, uint64(n)))
		if err := load.Check(b, load.Seed(1, uint64(n))); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestEveryWrongByteIsFound(t *testing.T) {
	for _, n := range []int{1, 7, 8, 9, 64, 71} {
		b := make([]byte, n)
		load.Fill(b, 5)
		for i := range b {
			b[i] ^= 1
			if err := load.Check(b, 5); err == nil || !strings.Contains(err.Error(), "byte ") {
				t.Errorf("byte %d of %d is wrong, but the error is %v", i, n, err)
			}
			b[i] ^= 1
		}
	}
}

func TestBytesThatMovedAreFound(t *testing.T) {
	b := make([]byte, 128)
	load.Fill(b, 5)
	if load.Check(b[8:], 5) == nil || load.Check(b, 6) == nil {
		t.Error("bytes from another place, or of another message, pass")
	}
}

func TestShorterPayloadsBeginLikeLongerOnes(t *testing.T) {
	long, short := make([]byte, 64), make([]byte, 13)
	load.Fill(long, 9)
	load.Fill(short, 9)
	if !bytes.Equal(short, long[:13]) {
		t.Errorf("%x does not begin with %x", long, short)
	}
}

func TestSeedsOfDifferentNumbersDiffer(t *testing.T) {
	seen := make(map[uint64][2]uint64)
	for a := range uint64(100) {
		for b := range uint64(100) {
			s := load.Seed(a, b)
			if other, ok := seen[s]; ok {
				t.Fatalf("%v and %v have one seed", other, [2]uint64{a, b})
			}
			seen[s] = [2]uint64{a, b}
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	m := make([]byte, 1<<20)
	load.Fill(m, 1)
	b.SetBytes(1 << 20)
	for b.Loop() {
		if err := load.Check(m, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAPayloadToMeasureWithIsNotOnePageOverAndOver(t *testing.T) {
	const page = 4096
	if b := load.Written(2 * page); bytes.Equal(b[:page], b[page:]) {
		t.Error("the second page is like the first")
	}
}
