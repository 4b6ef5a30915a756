package ctl

import (
	"sync/atomic"
	"testing"
)

// As soon as the daemon has agreed to a Free, the next Alloc of another goroutine may get the
// same id and enter its own memory under it. If Free looked up the old memory only then, it would
// unmap the new one.
func TestFreeLooksItsMemoryUpBeforeTheIdCanBeAnothers(t *testing.T) {
	const id = 3
	a := &Attachment{regions: make(map[uint32][]byte)}
	a.conn = dial(t, serve(t, func(c *Client, r *Request) error {
		switch r.Op {
		case OpAlloc:
			return c.Reply(&Reply{Region: &Region{ID: id, Bytes: r.Alloc.Bytes}}, memfd(t, int(r.Alloc.Bytes)))
		case OpFree:
			a.mu.Lock()
			if a.regions[id] != nil {
				t.Error("the daemon is asked while the region's memory is still in the table")
			}
			a.mu.Unlock()
		}
		return c.Reply(&Reply{})
	}))
	got, _, mem, err := a.Alloc(t.Context(), 4096, false)
	if err != nil || got != id {
		t.Fatalf("Alloc = %d, %v", got, err)
	}
	mem[0] = 1
	if err := a.Free(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func TestARegionThatIsBusyKeepsItsMemory(t *testing.T) {
	var idle atomic.Bool
	a := &Attachment{regions: make(map[uint32][]byte)}
	a.conn = dial(t, serve(t, func(c *Client, r *Request) error {
		switch {
		case r.Op == OpAlloc:
			return c.Reply(&Reply{Region: &Region{ID: 1, Bytes: r.Alloc.Bytes}}, memfd(t, int(r.Alloc.Bytes)))
		case !idle.Load():
			return c.Refuse(ErrRegionBusy)
		}
		return c.Reply(&Reply{})
	}))
	_, _, mem, err := a.Alloc(t.Context(), 4096, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Free(t.Context(), 1); err == nil {
		t.Error("Free of a busy region succeeded")
	}
	mem[0] = 1 // still mapped
	if len(a.regions) != 1 {
		t.Errorf("after the refusal the table has %d regions; expected 1, for a later Free", len(a.regions))
	}
	idle.Store(true)
	if err := a.Free(t.Context(), 1); err != nil || len(a.regions) != 0 {
		t.Errorf("Free of an idle region: %v, %d left", err, len(a.regions))
	}
}

func TestARegionThatCannotBeMappedIsGivenBack(t *testing.T) {
	var freed atomic.Uint32
	a := &Attachment{regions: make(map[uint32][]byte)}
	a.conn = dial(t, serve(t, func(c *Client, r *Request) error {
		if r.Op == OpAlloc {
			// empty memory cannot be mapped
			return c.Reply(&Reply{Region: &Region{ID: 7, Bytes: r.Alloc.Bytes}}, memfd(t, 0))
		}
		freed.Store(r.Free.Region)
		return c.Reply(&Reply{})
	}))
	if _, _, _, err := a.Alloc(t.Context(), 4096, false); err == nil || len(a.regions) != 0 {
		t.Errorf("Alloc of memory that cannot be mapped: %v, %d regions", err, len(a.regions))
	}
	if id := freed.Load(); id != 7 {
		t.Errorf("region %d was given back; expected 7", id)
	}
}
