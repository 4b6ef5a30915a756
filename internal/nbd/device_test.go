package nbd

import (
	"context"
	"errors"
	"sync"
)

// memory is a device in memory that knows which of its blocks were written.
type memory struct {
	mu      sync.Mutex
	b       []byte
	written map[int64]bool
	full    bool // writes fail
	stuck   bool // reads wait for their context
}

const memoryBlock = 4096

func newMemory(n int) *memory { return &memory{b: make([]byte, n), written: map[int64]bool{}} }

var errFull = errors.New("no room")

func (m *memory) Size() int64 { return int64(len(m.b)) }

func (m *memory) ReadAtContext(ctx context.Context, b []byte, offset int64) (int, error) {
	if m.stuck {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return copy(b, m.b[offset:]), nil
}

func (m *memory) WriteAtContext(_ context.Context, b []byte, offset int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return 0, errFull
	}
	for at := offset / memoryBlock; at*memoryBlock < offset+int64(len(b)); at++ {
		m.written[at] = true
	}
	return copy(m.b[offset:], b), nil
}

func (m *memory) Flush(context.Context) error { return nil }

func (m *memory) Discard(_ context.Context, offset, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.b[offset : offset+n])
	for at := (offset + memoryBlock - 1) / memoryBlock; (at+1)*memoryBlock <= offset+n; at++ {
		delete(m.written, at)
	}
	return nil
}

func (m *memory) Written(offset, n int64, yield func(offset, n int64, written bool) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := offset; at < offset+n; {
		next := min((at/memoryBlock+1)*memoryBlock, offset+n)
		if !yield(at, next-at, m.written[at/memoryBlock]) {
			break
		}
		at = next
	}
	return nil
}

// together is a device that reads several parts at once, the last first.
type together struct {
	*memory
	most int           // parts that it was asked for at once
	hold chan struct{} // if it is not nil, a read of block 1 waits for it
}

func (d *together) ReadMany(ctx context.Context, bufs [][]byte, offsets []int64, ended func(i int, err error), pause func()) {
	d.mu.Lock()
	d.most = max(d.most, len(bufs))
	d.mu.Unlock()
	for i := len(bufs) - 1; i >= 0; i-- {
		if d.hold != nil && offsets[i] == memoryBlock {
			pause()
			select {
			case <-d.hold:
			case <-ctx.Done():
			}
		}
		_, err := d.ReadAtContext(ctx, bufs[i], offsets[i])
		ended(i, err)
	}
}
