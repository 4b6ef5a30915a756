package netmem

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// partly returns a volume with some written pages, without servers that hold them.
func partly(pages int64, written func(page int64) bool) *Volume {
	v := &Volume{c: &Client{port: &port{}, pages: map[uint64]*page{}}, page: 4096, bytes: pages * 4096}
	for i := range pages {
		if written(i) {
			v.c.pages[uint64(i)] = &page{version: 1}
		}
	}
	return v
}

// writtenPiece is a part of a volume.
type writtenPiece struct {
	offset, n int64
	written   bool
}

func TestWhatOfAVolumeWasWrittenIsSaidInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		pages := 1 + rng.Int64N(1000)
		share := []float64{0, 0.001, 0.1, 0.5, 0.99, 1}[rng.IntN(6)]
		v := partly(pages, func(int64) bool { return rng.Float64() < share })
		offset := rng.Int64N(v.bytes)
		end := offset + rng.Int64N(v.bytes-offset+1)
		var want, got []writtenPiece
		for at := offset; at < end; {
			written := v.c.pages[uint64(at/4096)] != nil
			n := min((at/4096+1)*4096, end) - at
			if last := len(want) - 1; !written && last >= 0 && !want[last].written {
				want[last].n += n
			} else {
				want = append(want, writtenPiece{at, n, written})
			}
			at += n
		}
		most := 1 + rng.IntN(len(want)+1)
		err := v.Written(offset, end-offset, func(offset, n int64, written bool) bool {
			got = append(got, writtenPiece{offset, n, written})
			return len(got) < most
		})
		if want = want[:min(most, len(want))]; err != nil || !slices.Equal(got, want) {
			t.Fatalf("of %d pages, %v of them written, from %d to %d: %v, %v; want %v", pages, share, offset, end, got, err, want)
		}
	}
}

// A client may ask for one part per call, as qemu does. If each call examined all the rest of the
// volume, the cost would be the square of the number of pages.
func TestOnlyAsMuchOfAVolumeIsLookedAtAsIsAskedFor(t *testing.T) {
	const pages, calls = 1 << 16, 20
	v := partly(pages, func(page int64) bool { return page%2 == 0 })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		if err := v.Written(0, v.bytes, func(int64, int64, bool) bool { return false }); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / calls; took > pages {
		t.Errorf("to look at one page of %d takes %d bytes; expected %d at most, since all together take %d", pages, took, pages, pages/2*8)
	}
}
