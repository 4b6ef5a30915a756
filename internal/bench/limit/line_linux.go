package limit

import (
	"sync/atomic"
	"unsafe"
)

// lines is how many cache lines take turns each way: the time depends on the line.
const lines = 64

// lineWords returns the first words of the lines from offset at of the shared memory.
func (c *child) lineWords(at int) (w [lines]*uint64) {
	for i := range w {
		w[i] = (*uint64)(unsafe.Pointer(&c.mem[at+64*i]))
	}
	return w
}

func linePing(c *child) error {
	there, back := c.lineWords(0), c.lineWords(64*lines)
	n := uint64(0)
	return c.time(16, func() error {
		n++
		atomic.StoreUint64(there[n%lines], n)
		for atomic.LoadUint64(back[n%lines]) != n {
		}
		return nil
	})
}

func linePong(c *child) error {
	there, back := c.lineWords(0), c.lineWords(64*lines)
	if err := c.ready(0); err != nil {
		return err
	}
	for n := uint64(1); ; n++ {
		for atomic.LoadUint64(there[n%lines]) != n {
		}
		atomic.StoreUint64(back[n%lines], n)
	}
}
