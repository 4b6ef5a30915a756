package copier

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Compares streaming with a plain copy, for all offsets of both ends within a cache line, and
// for all lengths that make a difference.
func TestStreamingCopiesWhatCopyDoes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	from, to, want, blank := make([]byte, 8192), make([]byte, 8192), make([]byte, 8192), bytes.Repeat([]byte{0xa5}, 8192)
	for i := range from {
		from[i] = byte(rng.Uint32())
	}
	check := func(at, source, n int) {
		low, high := max(at-line, 0), at+n+line
		copy(to[low:high], blank)
		copy(want[low:high], blank)
		copy(want[at:at+n], from[source:source+n])
		stream(to[at:], from[source:source+n])
		if !bytes.Equal(to[low:high], want[low:high]) {
			t.Fatalf("%d bytes from %d to %d came out otherwise", n, source, at)
		}
	}
	for at := range 2 * line {
		for source := range line {
			check(at, source, 3*line+rng.IntN(line))
		}
		for n := range 4 * line {
			check(at, rng.IntN(line), n)
		}
	}
	for range 1000 {
		n := rng.IntN(6000)
		check(rng.IntN(2000), rng.IntN(2000), n)
	}
}

// The bytes are the same by either way, also when the ways are tried and changed.
func TestACopierCopiesByEitherWay(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	from, to := make([]byte, 64<<10), make([]byte, 64<<10)
	var c Copier
	for i := range 20 * trialEvery {
		if i%trialEvery == 0 {
			c.streams = !c.streams
		}
		for range 20 {
			from[rng.IntN(len(from))]++
		}
		lengths := []int{0, 1, leastStreamed - 1, leastStreamed, leastTried - 1, leastTried, 32 << 10}
		n := lengths[i%len(lengths)]
		at, source := rng.IntN(1000), rng.IntN(1000)
		at++
		before, after := to[at-1], to[at+n]
		c.Copy(to[at:], from[source:source+n])
		if !bytes.Equal(to[at:at+n], from[source:source+n]) {
			t.Fatalf("copy %d of %d bytes from %d to %d came out otherwise", i, n, source, at)
		}
		if to[at-1] != before || to[at+n] != after {
			t.Fatalf("copy %d of %d bytes to %d wrote beyond them", i, n, at)
		}
	}
}

func TestACopierTakesTheFasterWayOnceItIsSure(t *testing.T) {
	var c Copier
	trial := func(plain, streamed uint64, streams bool) {
		t.Helper()
		if c.judge(plain, streamed); c.streams != streams {
			t.Errorf("after a trial of %d and %d it streams: %v; expected %v", plain, streamed, c.streams, streams)
		}
	}
	trial(100, 200, false)
	trial(2000, 200, false) // an interrupt
	trial(100, 200, false)
	trial(2000, 200, false)
	trial(2000, 200, true)
	trial(300, 200, true) // equally fast, or an interrupt
	trial(2000, 200, true)
	trial(300, 200, true)
	trial(300, 200, false) // faster by less than the reader loses
}

// The trials themselves: on a processor that can stream, long copies are timed, and short ones
// are not.
func TestACopierTriesLongCopiesOnly(t *testing.T) {
	from, to := make([]byte, leastTried), make([]byte, leastTried)
	var c Copier
	for range trialEvery - 1 {
		c.Copy(to, from)
	}
	c.Copy(to, from[:leastTried-1])
	if want := trialEvery - 1; canStream && c.copies != want {
		t.Errorf("%d copies since the last trial; expected %d", c.copies, want)
	}
	c.Copy(to, from)
	if c.copies != 0 {
		t.Errorf("%d copies since the last trial; expected one just now", c.copies)
	}
}

// A caller that writes by plain stores itself must use Copy for each trial, and always while
// streaming is faster.
func TestPlainStoresAreTheWayUntilATrialIsDue(t *testing.T) {
	if !canStream {
		t.Skip("there is no other way here")
	}
	from, to := make([]byte, leastTried), make([]byte, leastTried)
	var c Copier
	for range 3 {
		c.streams, c.doubts = false, 0
		for i := range trialEvery - 1 {
			if !c.Plain() {
				t.Fatalf("write %d after a trial is to be a copy; expected the next trial at %d", i, trialEvery-1)
			}
		}
		if c.Plain() {
			t.Fatalf("%d writes without a trial", trialEvery)
		}
		c.Copy(to, from)
	}
	if c.streams = true; c.Plain() {
		t.Error("plain stores are the way while streaming is faster")
	}
}
