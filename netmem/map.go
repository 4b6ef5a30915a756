package netmem

import (
	"context"
	"fmt"
	"os"

	"github.com/weftnet/weft/internal/userfault"
)

// MapVariable is the environment variable that tells a command of `weft mem map` where it has its memory from.
const MapVariable = "WEFT_MEM"

// Mapping is network memory as memory of this process. What is missing comes from page servers when it is touched, and what was not used
// lately goes back to them.
type Mapping struct {
	m *userfault.Mapping
}

// Map asks `weft mem map` for the memory that it has, at the socket whose path is given; empty: at that of MapVariable. The memory is
// zeros at first, and ends with the Mapping. One process can have it at a time.
//
// The pages are brought by that other process: one that brought its own could not be stopped for a garbage collection while a goroutine
// waits for a page. A page that cannot be had is a fatal SIGBUS when it is touched, unless debug.SetPanicOnFault makes it a panic.
// When the pager ends, this process is killed: SIGKILL. What the kernel or a device writes later than at once must not be
// written there: reads with O_DIRECT, buffers registered with io_uring.
func Map(ctx context.Context, socket string) (*Mapping, error) {
	if socket == "" {
		socket = os.Getenv(MapVariable)
	}
	if socket == "" {
		return nil, fmt.Errorf("netmem: map: no socket given, and %s is not set: expected to be started by weft mem map", MapVariable)
	}
	m, err := userfault.Attach(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("netmem: map: %w", err)
	}
	return &Mapping{m}, nil
}

// Bytes is the memory. It lies outside of Go's heap: nothing in it may point into that, and nothing may use it after Close.
func (m *Mapping) Bytes() []byte { return m.m.Bytes() }

// Close gives the memory back. What was in it is lost.
func (m *Mapping) Close() error {
	if err := m.m.Close(); err != nil {
		return fmt.Errorf("netmem: unmap: %w", err)
	}
	return nil
}
