package limit

import "github.com/weftnet/weft/internal/load"

// Rings of chunks. Deeper ones are faster as long as they fit into the caches: the reader is
// then further behind, so its reading does not hold up the writer. This matters most for short
// messages. Through a ring of 65,536 they pass four times as fast as through one of 2,048, since
// both sides hardly ever touch the same cache line at once. But the price is megabytes for each
// pair. So `ring` is as deep as Weft's own rings, and `ring-deep` shows the rest.
const (
	streamChunk = 64 << 10
	streamSlots = 112
	ringSlots   = 2048
	deepSlots   = 65536
)

func (c *child) ring(slots int) *pipe {
	return newPipe(c.mem, c.Size, min(slots, (len(c.mem)-pipeHead)/(c.Size+128)))
}

func ringPut(slots int) func(*child) error {
	return func(c *child) error {
		if c.Size > streamChunk { // chunks are better
			return streamPut(c)
		}
		return c.pour(c.ring(slots))
	}
}

func ringTake(slots int) func(*child) error {
	return func(c *child) error {
		if c.Size > streamChunk {
			return streamTake(c)
		}
		return c.drain(c.ring(slots))
	}
}

func streamPut(c *child) error  { return c.pour(newPipe(c.mem, streamChunk, streamSlots)) }
func streamTake(c *child) error { return c.drain(newPipe(c.mem, streamChunk, streamSlots)) }

// pour puts messages into a pipe for ever.
func (c *child) pour(p *pipe) error {
	b := load.Written(c.Size)
	if err := c.ready(0); err != nil {
		return err
	}
	for {
		p.put(b)
	}
}

// drain counts the bytes that come out.
func (c *child) drain(p *pipe) error {
	b := make([]byte, c.Size)
	messages := 1 + 4096/len(b)
	return c.count(func() (int, error) {
		for range messages {
			p.take(b)
		}
		return messages * c.Size, nil
	})
}

// memcpy copies within one process, between the same two buffers: the caches are as warm as they
// get.
func memcpy(c *child) error {
	from, to := load.Written(c.Size), make([]byte, c.Size)
	times := max(1, (1<<20)/c.Size)
	return c.count(func() (int, error) {
		for range times {
			copy(to, from)
		}
		return times * c.Size, nil
	})
}
