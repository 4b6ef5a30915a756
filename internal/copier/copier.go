// Package copier copies payload into memory that another core reads, by the faster of two ways. What lies in a ring goes from core to core:
//
//	           plain stores                               streaming stores (stream_amd64.s)
//	writer     wins each line back from the reader's      writes full lines past the caches; the reader's old copies
//	           cache, and has it in its own               are dropped, and no core waits for them
//	reader     takes it from the writer's cache           takes it from memory
//
// Where two cores share a cache, plain stores are about twice as fast for both ends together. Where they share none, the writer waits for each line
// that the reader has, and streaming stores are several times as fast. A program cannot know which it is, and on a virtual machine it changes.
// So now and then the first bytes of a long copy go half by one way, half by the other, and both are timed.
package copier

// Copier copies into one ring. The zero value is good.
type Copier struct {
	streams bool // the way that is taken now
	copies  int  // since the last trial
	doubts  int  // trials in a row that were for the other way
}

const (
	line = 64 // bytes of a cache line

	leastTried = 16 << 10 // bytes of a copy that is worth a trial
	trialBytes = 4 << 10  // by each way
	trialEvery = 64       // copies: where cores are far apart, the slow half of a trial takes as long as two of them
	mostDoubts = 2        // one could be an interrupt

	// leastStreamed is for how many bytes streaming is worth its fence.
	leastStreamed = 2 << 10
)

// Copy copies all of from, for which there is room.
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

// Plain reports whether to write into the ring by plain stores, without Copy, is the faster way. A true counts as a copy. Plain is false when it
// is time for a trial, which Copy makes.
func (c *Copier) Plain() bool {
	if c.streams || canStream && c.copies+1 >= trialEvery {
		return false
	}
	c.copies++
	return true
}

// try copies the first bytes, half of them by each way, and changes the way if that is slower time after time.
func (c *Copier) try(to, from []byte) {
	begin := ticks()
	copy(to, from[:trialBytes])
	middle := ticks()
	stream(to[trialBytes:], from[trialBytes:2*trialBytes])
	c.judge(middle-begin, ticks()-middle)
}

// judge takes the times of a trial. What streaming costs the reader the writer does not see, so it must be twice as fast.
func (c *Copier) judge(plain, streamed uint64) {
	if c.streams == (plain > 2*streamed) {
		c.doubts = 0
		return
	}
	if c.doubts++; c.doubts >= mostDoubts {
		c.streams, c.doubts = !c.streams, 0
	}
}
