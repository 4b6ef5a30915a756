package limit

import (
	"bytes"
	"runtime"
	"testing"
)

func TestWhatIsPutIntoAPipeComesOut(t *testing.T) {
	messages := 300
	if runtime.GOMAXPROCS(0) == 1 {
		messages = 10 // both ends spin, so each goes on only when the other's time slice ends
	}
	for _, c := range []struct{ chunk, slots, size int }{{1, 4, 1}, {64, 8, 64}, {64, 4, 1000}, {4096, 2, 10000}, {16, 1, 5}} {
		mem := make([]byte, pipeBytes(c.chunk, c.slots))
		in, out := newPipe(mem, c.chunk, c.slots), newPipe(mem, c.chunk, c.slots)
		go func() {
			b := make([]byte, c.size)
			for i := range messages {
				for j := range b {
					b[j] = byte(i + j)
				}
				in.put(b)
			}
		}()
		want, got := make([]byte, c.size), make([]byte, c.size)
		for i := range messages {
			for j := range want {
				want[j] = byte(i + j)
			}
			if out.take(got); !bytes.Equal(got, want) {
				t.Fatalf("%+v: message %d is not what was put in", c, i)
			}
		}
	}
}

func TestMedianIsOfEachFigure(t *testing.T) {
	rs := []Result{{P50: 5, BytesPerSec: 1}, {P50: 1, BytesPerSec: 9}, {P50: 100, BytesPerSec: 2}}
	if got, want := Median(rs), (Result{P50: 5, BytesPerSec: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := Median(rs[:2]).P50; got != 3 {
		t.Errorf("the median of 5 and 1 is %d, want 3", got)
	}
}

func TestLimitsAreListedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range All() {
		if seen[l.Name] || l.What == "" || len(l.Sizes) == 0 {
			t.Errorf("%+v", l)
		}
		seen[l.Name] = true
		if p := find(l.Name); p.cpus != nil && len(p.cpus) != len(p.roles) {
			t.Errorf("%s has %d roles on %d processors", l.Name, len(p.roles), len(p.cpus))
		}
	}
}
