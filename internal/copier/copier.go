// Package copier copies payload into memory that another core reads, by the faster of two ways.
// The contents of a ring move from core to core:
//
//	         plain stores                           streaming stores (stream_amd64.s)
//	writer   wins each line back from the reader's  writes full lines past the caches; the
//	         cache, and has it in its own           reader's old copies are dropped; no core waits
//	reader   takes it from the writer's cache       takes it from memory
//
// If two cores share a cache, plain stores are about twice as fast for both ends together.
// If they share none, the writer waits for each line that the reader has, and streaming
// stores are several times as fast. A program cannot know which of the two holds, and on a
// virtual machine it changes. So from time to time the first bytes of a long copy go half by one
// way and half by the other, and both are timed.
package copier

// Copier copies into one ring. The zero value is ready to use.
type Copier struct {
	streams bool // the current way
	copies  int  // since the last trial
	doubts  int  // consecutive trials in favour of the other way
}

const (
	line = 64 // bytes of a cache line

	leastTried = 16 << 10 // shortest copy, in bytes, that is worth a trial
	trialBytes = 4 << 10  // by each way
	// trialEvery is the number of copies between two trials: where cores are far apart, the slow
	// half of a trial takes as long as two copies.
	trialEvery = 64
	mostDoubts = 2 // one alone could be an interrupt

	// leastStreamed is the shortest copy, in bytes, for which streaming is worth its fence.
	leastStreamed = 2 << 10
)

// Copy copies all of from to the beginning of to, which must be long enough.
func (c *Copier) Copy(to, from []byte) {
	if len(from) < leastStreamed || !canStream {
		copy(to, from)
		return
	}
	if len(from) >= leastTried {
		if c.copies++; c.copies >= trialEvery {
			c.copies = 0
			c.try(to, from)
			to, from = to[2*trialBytes:], from[2*trialBytes:]
		}
	}
	if c.streams {
		stream(to, from)
	} else {
		copy(to, from)
	}
}

// Plain reports whether plain stores into the ring, without Copy, are the faster way. If it
// returns true, this counts as a copy. Plain returns false when a trial is due, which Copy
// makes.
func (c *Copier) Plain() bool {
	if c.streams || canStream && c.copies+1 >= trialEvery {
		return false
	}
	c.copies++
	return true
}

// try copies the first bytes, half of them by each way. It changes the way if the current one
// was slower in several trials.
func (c *Copier) try(to, from []byte) {
	begin := ticks()
	copy(to, from[:trialBytes])
	middle := ticks()
	stream(to[trialBytes:], from[trialBytes:2*trialBytes])
	c.judge(middle-begin, ticks()-middle)
}

// judge takes the times of a trial. The writer does not see what streaming costs the reader. So
// streaming counts as faster only if it is more than twice as fast.
func (c *Copier) judge(plain, streamed uint64) {
	if c.streams == (plain > 2*streamed) {
		c.doubts = 0
		return
	}
	if c.doubts++; c.doubts >= mostDoubts {
		c.streams, c.doubts = !c.streams, 0
	}
}
