package bench

import (
	"fmt"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// memory returns n buffers of size bytes each for long messages. They are in a region of p,
// which a daemon also maps. So the daemon reads and writes them in place, as for every program
// that wants bandwidth. Memory elsewhere goes through the process's pool, with one more copy on
// each side.
//
// memory writes all of it before the clock starts: the first write to each page is the kernel's
// work, and pages that were never written are all one page of zeros.
func memory(p *weft.Process, n, size int) (*weft.Region, [][]byte, error) {
	r, err := p.Alloc(n * size)
	if err != nil {
		return nil, nil, fmt.Errorf("bench: memory of messages: %w", err)
	}
	load.Fill(r.Bytes(), 0)
	buffers := make([][]byte, n)
	for i := range buffers {
		buffers[i] = r.Bytes()[i*size:][:size:size]
	}
	return r, buffers, nil
}
