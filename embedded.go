package weft

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/memory/hugepage"
	"github.com/weftnet/weft/internal/memory/touch"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/poller"
	"github.com/weftnet/weft/internal/proc"
)

// embeddedWaiter waits by polling the NIC.
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

// embeddedMemory makes regions in memory of this program, which the NIC can access directly.
type embeddedMemory struct {
	n    *NIC
	slot uint16
	gen  uint32

	mu     sync.Mutex
	mapped map[uint32][]byte // by region id: the whole pages that Free unmaps
}

func (m *embeddedMemory) Alloc(size int, huge bool) (id uint32, key uint64, mem []byte, err error) {
	switch {
	case huge:
		return m.allocPages(size, hugepage.Map)
	case size >= limits.MappedRegion:
		return m.allocPages(size, hugepage.MapOrdinary)
	}
	mem = words(size)[:size]
	id, key, err = m.add(nic.Memory{Bytes: mem})
	return id, key, mem, err
}

// allocPages makes a region of new pages. Free unmaps these pages.
func (m *embeddedMemory) allocPages(size int, pages func(int) ([]byte, error)) (id uint32, key uint64, mem []byte,
	err error) {
	whole, err := pages(size)
	if err != nil {
		return 0, 0, nil, fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	mem = whole[:size:size]
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, key, err = m.add(nic.Memory{Bytes: mem}); err != nil {
		return 0, 0, nil, errors.Join(err, hugepage.Unmap(whole))
	}
	if m.mapped == nil {
		m.mapped = make(map[uint32][]byte)
	}
	m.mapped[id] = whole
	return id, key, mem, nil
}

func (m *embeddedMemory) Register(mem []byte, _ *proc.File, sealed bool) (id uint32, key uint64, err error) {
	return m.add(nic.Memory{Bytes: mem, Sealed: sealed, Reach: touch.Reach})
}

func (m *embeddedMemory) add(of nic.Memory) (id uint32, key uint64, err error) {
	m.n.poller.Do(func(clock.Time) { id, key, err = m.n.engine.AddMemory(m.slot, of) })
	return id, key, shareRefusal(err)
}

func (m *embeddedMemory) Part(of uint32, offset, n int, sealed bool) (id uint32, key uint64, err error) {
	m.n.poller.Do(func(clock.Time) {
		id, key, err = m.n.engine.AddPart(m.slot, of, uint64(offset), uint64(n), sealed)
	})
	return id, key, shareRefusal(err)
}

func (m *embeddedMemory) Free(id uint32) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n.poller.Do(func(now clock.Time) { err = m.n.engine.RemoveRegion(now, m.slot, m.gen, id) })
	if err != nil && !errors.Is(err, nic.ErrNoProcess) && !errors.Is(err, nic.ErrNoRegion) {
		return shareRefusal(err)
	}
	// If the process has ended, the engine has removed the region already.
	whole := m.mapped[id]
	delete(m.mapped, id)
	if whole == nil {
		return nil
	}
	return hugepage.Unmap(whole)
}

// words returns n zero bytes, aligned to 64-bit words and rounded up to whole words.
func words(n int) []byte {
	w := make([]uint64, (n+7)/8+1)
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), (n+7)/8*8)
}

// linger waits for acknowledgements of messages whose sends have completed, because a program that
// sends and then closes its NIC expects the messages to arrive. A silent peer does not prolong the
// wait.
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
