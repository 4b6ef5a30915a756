package limit

import "github.com/weftnet/weft/internal/load"

// copyChunk is the length of the chunks of a long message, in bytes.
const copyChunk = 16 << 10

// copyPipes returns the pipes of a copied message in both directions. A long message goes in
// chunks, so one side writes while the other reads.
func (c *child) copyPipes() (there, back *pipe) {
	chunk := min(c.Size, copyChunk)
	slots := min(lines, len(c.mem)/2/pipeBytes(chunk, 1)) &^ 1
	half := len(c.mem) / 2
	return newPipe(c.mem[:half], chunk, slots), newPipe(c.mem[half:], chunk, slots)
}

func copyPing(c *child) error {
	there, back := c.copyPipes()
	out, in := load.Written(c.Size), make([]byte, c.Size)
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

// batchFor returns how many round trips through memory are timed together.
func batchFor(size int) int {
	if size <= 4<<10 {
		return 16
	}
	return 1
}
