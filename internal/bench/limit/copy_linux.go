package limit

import "github.com/weftnet/weft/internal/payload"

// copyChunk is how much of a long message is copied at a time.
const copyChunk = 16 << 10

// copyPipes are the ways there and back of a message that is copied. A long one goes in chunks, so that one side writes while
// the other reads.
func (c *child) copyPipes() (there, back *pipe) {
	chunk := min(c.Size, copyChunk)
	slots := min(lines, len(c.mem)/2/pipeBytes(chunk, 1)) &^ 1
	half := len(c.mem) / 2
	return newPipe(c.mem[:half], chunk, slots), newPipe(c.mem[half:], chunk, slots)
}

func copyPing(c *child) error {
	there, back := c.copyPipes()
	out, in := payload.Written(c.Size), make([]byte, c.Size)
	return c.time(batchFor(c.Size), func() error {
		there.put(out)
		back.take(in)
		return nil
	})
}

func copyPong(c *child) error {
	there, back := c.copyPipes()
	b := make([]byte, c.Size)
	if err := c.ready(0); err != nil {
		return err
	}
	for {
		there.take(b)
		back.put(b)
	}
}

// batchFor is how many round trips of a message through memory are timed at once.
func batchFor(size int) int {
	if size <= 4<<10 {
		return 16
	}
	return 1
}
