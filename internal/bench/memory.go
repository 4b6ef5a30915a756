package bench

import (
	"fmt"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/payload"
)

// memory is where long messages lie: n buffers of size bytes each in a region of p, which a daemon has mapped, too. So it reads and writes
// them where they lie, as it does for every program that wants bandwidth. What lies elsewhere goes through the process's pool, a copy
// more on each side.
//
// All of it is written here, before time runs: the first write to each page is the kernel's work, and what has not been written is one
// page of zeros over and over.
func memory(p *weft.Process, n, size int) (*weft.Region, [][]byte, error) {
	r, err := p.Alloc(n * size)
	if err != nil {
		return nil, nil, fmt.Errorf("bench: memory of messages: %w", err)
	}
	payload.Fill(r.Bytes(), 0)
	buffers := make([][]byte, n)
	for i := range buffers {
		buffers[i] = r.Bytes()[i*size:][:size:size]
	}
	return r, buffers, nil
}
