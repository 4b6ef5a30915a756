package limit

// streamChunk is how much is copied at a time; the ring of chunks then fits the caches of both sides.
const (
	streamChunk = 16 << 10
	streamSlots = 64
	ringSlots   = 2048
)

func (c *child) ring() *pipe {
	slots := min(ringSlots, (len(c.mem)-pipeHead)/(c.Size+128)) &^ 3
	return newPipe(c.mem, c.Size, slots)
}

func ringPut(c *child) error {
	if c.Size > streamChunk { // chunks are better
		return streamPut(c)
	}
	return c.pour(c.ring())
}

func ringTake(c *child) error {
	if c.Size > streamChunk {
		return streamTake(c)
	}
	return c.drain(c.ring())
}

func streamPut(c *child) error  { return c.pour(newPipe(c.mem, streamChunk, streamSlots)) }
func streamTake(c *child) error { return c.drain(newPipe(c.mem, streamChunk, streamSlots)) }

// pour puts messages into a pipe for ever.
func (c *child) pour(p *pipe) error {
	b := make([]byte, c.Size)
	if err := c.ready(0); err != nil {
		return err
	}
	for {
		p.put(b)
	}
}

// drain counts what comes out.
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

// memcpy copies within one process, between two places that take turns with none: caches are as warm as they get.
func memcpy(c *child) error {
	from, to := make([]byte, c.Size), make([]byte, c.Size)
	for i := range from {
		from[i] = byte(i) // or all of it would be one page of zeros
	}
	times := max(1, (1<<20)/c.Size)
	return c.count(func() (int, error) {
		for range times {
			copy(to, from)
		}
		return times * c.Size, nil
	})
}
