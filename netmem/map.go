package netmem

import (
	"context"
	"fmt"
	"os"

	"github.com/weftnet/weft/internal/userfault"
)

// MapVariable is the environment variable in which "weft mem map" gives the path of its socket to
// the program that it starts.
const MapVariable = "WEFT_MEM"

// Mapping is network memory as memory of this process. On the first access to a page, the page
// comes from a page server. Pages that were not used lately go back to the servers.
type Mapping struct {
	m *userfault.Mapping
}

// Map attaches this process to the memory that "weft mem map" offers at a socket. An empty path
// means the socket in [MapVariable]. One process may have the memory at a time. It is zeroed at
// first, and Close discards it. Map works on Linux only.
//
// The "weft mem map" process moves the pages, not this one: a process that moved its own could not
// stop for garbage collection while a goroutine waits for a page. If a page cannot be had, the
// access raises SIGBUS, which is fatal unless debug.SetPanicOnFault makes it a panic. If the "weft
// mem map" process ends, this one is killed by SIGKILL. Do not use the memory for deferred writes
// of the kernel or of a device, such as reads with O_DIRECT or buffers registered with io_uring.
func Map(ctx context.Context, socket string) (*Mapping, error) {
	if socket == "" {
		socket = os.Getenv(MapVariable)
	}
	if socket == "" {
		return nil, badArgument("netmem: map: no socket given, and %s is not set: expected to be started by weft mem map", MapVariable)
	}
	m, err := userfault.Attach(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("netmem: map: %w", err)
	}
	return &Mapping{m}, nil
}

// Bytes returns the memory. It lies outside Go's heap: store no Go pointers in it, and do not use
// it after Close.
func (m *Mapping) Bytes() []byte { return m.m.Bytes() }

// Close gives the memory back and discards its content.
func (m *Mapping) Close() error {
	if err := m.m.Close(); err != nil {
		return fmt.Errorf("netmem: unmap: %w", err)
	}
	return nil
}
