package netmem

import (
	"context"
	"fmt"
	"os"

	"github.com/weftnet/weft/internal/userfault"
)

// MapVariable names the environment variable that holds the socket path of "weft mem map". The
// command "weft mem map" sets this variable for the program that it starts.
const MapVariable = "WEFT_MEM"

// Mapping is network memory that the process uses like ordinary memory. On the first access to a
// page, the kernel stops the access until the page has arrived from a page server. Pages that the
// process has not used recently go back to the page servers.
type Mapping struct {
	m *userfault.Mapping
}

// Map attaches this process to the memory of the "weft mem map" process that listens on a Unix
// socket. The argument socket is the path of that socket. If socket is empty, Map uses the path in
// [MapVariable]. Only one process can use the memory at a time. At first, the memory holds zeros.
// [Mapping.Close] discards the content. Map works on Linux only.
//
// The "weft mem map" process moves the pages between this process and the page servers. A Go
// process cannot move its own pages, because the garbage collector could not stop a goroutine that
// waits for a page. If a page cannot be fetched, the access to the page raises SIGBUS. SIGBUS ends
// the process, unless debug.SetPanicOnFault turns this signal into a panic. If the "weft mem map"
// process ends, the kernel kills this process with SIGKILL.
//
// Do not use the memory as a buffer that the kernel or a device writes to later. Examples are the
// buffers of reads with O_DIRECT and buffers that are registered with io_uring.
func Map(ctx context.Context, socket string) (*Mapping, error) {
	if socket == "" {
		socket = os.Getenv(MapVariable)
	}
	if socket == "" {
		return nil, badArgument(
			"netmem: map: no socket given, and %s is not set: expected to be started by weft mem map",
			MapVariable)
	}
	m, err := userfault.Attach(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("netmem: map: %w", err)
	}
	return &Mapping{m}, nil
}

// Bytes returns the memory. The memory lies outside Go's heap, so do not store Go pointers in it.
// Do not use the memory after Close.
func (m *Mapping) Bytes() []byte { return m.m.Bytes() }

// Close detaches the memory from this process and discards its content.
func (m *Mapping) Close() error {
	if err := m.m.Close(); err != nil {
		return fmt.Errorf("netmem: unmap: %w", err)
	}
	return nil
}
