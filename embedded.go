package weft

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/poller"
	"github.com/weftnet/weft/internal/proc"
)

// embeddedWaiter lets a process half wait by polling the NIC beside it.
type embeddedWaiter struct{ n *NIC }

func (w *embeddedWaiter) Wait(ctx context.Context, ready func() bool) error {
	err := w.n.poller.Wait(ctx, ready)
	if errors.Is(err, poller.ErrClosed) {
		return proc.ErrNICGone
	}
	return err
}

func (w *embeddedWaiter) Kick() { w.n.poller.Kick() }
func (w *embeddedWaiter) Wake() { w.n.poller.Wake() }

// embeddedMemory makes regions in ordinary memory: the NIC is in the same address space.
type embeddedMemory struct {
	n    *NIC
	slot uint16
}

func (m *embeddedMemory) Alloc(size int) (id uint32, key uint64, mem []byte, err error) {
	mem = words(size)[:size]
	m.n.poller.Do(func(clock.Time) { id, key, err = m.n.engine.AddRegion(m.slot, mem) })
	return id, key, mem, err
}

func (m *embeddedMemory) Part(of uint32, offset, n int, sealed bool) (id uint32, key uint64, err error) {
	m.n.poller.Do(func(clock.Time) { id, key, err = m.n.engine.AddPart(m.slot, of, uint64(offset), uint64(n), sealed) })
	return id, key, err
}

func (m *embeddedMemory) Free(id uint32) (err error) {
	m.n.poller.Do(func(clock.Time) { err = m.n.engine.RemoveRegion(m.slot, id) })
	if errors.Is(err, nic.ErrNoProcess) || errors.Is(err, nic.ErrNoRegion) {
		return nil // it went with its process
	}
	return err
}

// words makes n bytes of zeroed memory, aligned for 64-bit words.
func words(n int) []byte {
	w := make([]uint64, (n+7)/8+1)
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), (n+7)/8*8)
}

// linger gives messages that are on their way, though their sends have completed, the time to arrive: a program that
// sends and then closes its NIC expects them to. A silent peer ends it.
func (n *NIC) linger() {
	ctx, cancel := context.WithTimeout(context.Background(), limits.LingerAtClose)
	defer cancel()
	for ctx.Err() == nil {
		quiet := false
		n.poller.Do(func(clock.Time) { quiet = n.engine.Quiet() })
		if quiet {
			return
		}
		time.Sleep(limits.LingerStep)
	}
}
