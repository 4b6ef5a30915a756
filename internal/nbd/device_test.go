package nbd

import (
	"context"
	"errors"
	"sync"
)

// memory is a device in memory that records which of its blocks were written.
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

// together is a device that reads several ranges with one call, the last range first.
type together struct {
	*memory
	most int           // maximum number of ranges in flight
	in   int           // maximum number of ranges in one call
	hold chan struct{} // if it is not nil, a read of block 1 waits for it
}

func (d *together) ReadEach(ctx context.Context, next func() ([]byte, int64, bool), ended func(i int, err error), pause func()) {
	type part struct {
		i      int
		b      []byte
		offset int64
	}
	var parts []part
	for n := 0; ; {
		for b, offset, ok := next(); ok; b, offset, ok = next() {
			parts = append(parts, part{n, b, offset})
			n++
		}
		last := len(parts) - 1
		if last < 0 {
			return
		}
		d.mu.Lock()
		d.most, d.in = max(d.most, len(parts)), max(d.in, n)
		d.mu.Unlock()
		p := parts[last]
		parts = parts[:last]
		if d.hold != nil && p.offset == memoryBlock {
			pause()
			select {
			case <-d.hold:
			case <-ctx.Done():
			}
		}
		_, err := d.ReadAtContext(ctx, p.b, p.offset)
		ended(p.i, err)
	}
}

// byOneCall returns the maximum number of ranges that one call has read.
func (d *together) byOneCall() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.in
}
