package userfault

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/memfd"
	"github.com/weftnet/weft/internal/paging"
)

// Actions are executed together only if they do the same and their pages follow each other.
func TestOnlyLikePagesThatFollowEachOtherAreHandledTogether(t *testing.T) {
	take := func(page int, buf int32, writable bool) paging.Action {
		return paging.Action{Kind: paging.Take, Page: page, Buf: buf, Writable: writable}
	}
	of := func(kind paging.Kind, page int, writable bool) paging.Action {
		return paging.Action{Kind: kind, Page: page, Buf: -1, Writable: writable}
	}
	wake := func(page int, here bool) paging.Action {
		return paging.Action{Kind: paging.Wake, Page: page, Here: here}
	}
	for name, c := range map[string]struct {
		l    []paging.Action
		want int
	}{
		"one page":                        {[]paging.Action{take(1, 1, true)}, 1},
		"pages with buffers":              {[]paging.Action{take(1, 7, true), take(2, 1, false), take(3, 3, true)}, 3},
		"zeros behind a page":             {[]paging.Action{take(1, 7, true), take(2, -1, false)}, 1},
		"a page behind zeros":             {[]paging.Action{take(1, -1, false), take(2, -1, false), take(3, 1, true)}, 2},
		"a gap":                           {[]paging.Action{take(1, 1, true), take(3, 2, true)}, 1},
		"backwards":                       {[]paging.Action{take(2, 1, true), take(1, 2, true)}, 1},
		"zeros":                           {[]paging.Action{of(paging.Zero, 1, true), of(paging.Zero, 2, true)}, 2},
		"zeros of which some are guarded": {[]paging.Action{of(paging.Zero, 1, true), of(paging.Zero, 2, false)}, 1},
		"another action":                  {[]paging.Action{of(paging.Allow, 1, false), of(paging.Zero, 2, false)}, 1},
		"pages from buffers":              {[]paging.Action{of(paging.Fill, 1, true), of(paging.Fill, 2, true)}, 1},
		"lost pages":                      {[]paging.Action{of(paging.Poison, 1, false), of(paging.Poison, 2, false)}, 1},
		"pages that are there and not":    {[]paging.Action{wake(1, true), wake(2, false)}, 1},
	} {
		if got := neighbours(c.l); got != c.want {
			t.Errorf("%s: %d together; expected %d", name, got, c.want)
		}
	}
}

// A writable page is protected before it is copied. Otherwise a write in between would be lost.
// If the page cannot be protected, it stays, and its program ends.
func TestAPageThatCannotBeProtectedIsNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		writable []bool
		taken    bool
	}{
		"none is writable":      {[]bool{false, false, false}, true},
		"all are writable":      {[]bool{true, true, true}, false},
		"the first is writable": {[]bool{true, false, false}, false},
		"one between":           {[]bool{false, true, false}, false},
		"the last is writable":  {[]bool{false, false, true}, false},
	} {
		r := without(t, &device{b: make([]byte, 1<<20)})
		var log lines
		r.p.cfg.Log = log.add
		file, err := memfd.Create("weft-mem")
		if err != nil {
			t.Fatal(err)
		}
		r.memfd = file.FD
		if err := file.Grow(1 << 20); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Pwrite(r.memfd, bytes.Repeat([]byte("weft"), 3<<10), 4096); err != nil {
			t.Fatal(err)
		}
		var l []paging.Action
		for i, writable := range c.writable {
			l = append(l, paging.Action{Kind: paging.Take, Page: 1 + i, Buf: int32(2 - i), Writable: writable})
		}
		r.remove(l) // the region has no userfaultfd to protect a page
		var left [4]byte
		if _, err := unix.Pread(r.memfd, left[:], 3*4096); err != nil {
			t.Fatal(err)
		}
		ended := r.ctx.Err() != nil && strings.Contains(log.String(), "a program is ended: taking 12288 bytes at 4096")
		if taken := left == [4]byte{}; taken != c.taken || ended == c.taken {
			t.Errorf("%s: the pages are taken: %v, the program ends: %v (%q)", name, taken, ended, log.String())
		}
		if c.taken && string(r.buffer(0)[:4])+string(r.buffer(2)[4092:]) != "weftweft" {
			t.Errorf("%s: the buffers do not have the pages", name)
		}
		r.abort()
		unix.Close(r.memfd)
	}
}

// After the end of a program the device has its room back.
func TestAProgramThatEndsLeavesNothingOnTheDevice(t *testing.T) {
	const size = 1 << 20
	d := &device{b: bytes.Repeat([]byte("x"), size)}
	_, socket := serve(t, Config{Device: d, Page: 4096, Resident: 256 << 10})
	conn, err := joined(t, socket)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		empty := bytes.Equal(d.b, make([]byte, size))
		d.mu.Unlock()
		if empty {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the device keeps what the program had")
		}
	}
}

// heeding is a device whose Discard heeds its context, as that of a device on servers does.
type heeding struct {
	*device
	discards []error // the state of the context at each Discard
}

func (h *heeding) Discard(ctx context.Context, offset, n int64) error {
	h.discards = append(h.discards, ctx.Err())
	if err := ctx.Err(); err != nil {
		return err
	}
	return h.device.Discard(ctx, offset, n)
}

// The work for a program ends with the program, but the device has its room back after that.
func TestTheRoomOfAProgramIsDiscardedAfterItsEnd(t *testing.T) {
	const size = 1 << 20
	d := &heeding{device: &device{b: make([]byte, size)}}
	var log lines
	p := &Pager{cfg: Config{Device: d, Page: 4096, Resident: 256 << 10, Timeout: patience, Log: log.add}, page: 4096}
	program, pager := packets(t)
	program.Close()
	if err := p.attend(t.Context(), pager); err == nil {
		t.Error("a program that has gone gets its memory")
	}
	if len(d.discards) != 1 || d.discards[0] != nil || log.String() != "" {
		t.Errorf("discards with %v, and the log has %q; expected one under a live context", d.discards, log.String())
	}
}

// Pages of zeros are put into the memory of a program in rows. A row has at most as many pages as
// the pager has zeros for.
func TestZerosArePutInRowsOfBoundedLength(t *testing.T) {
	r := without(t, &device{b: make([]byte, 1<<20)})
	defer r.abort()
	var err error
	if r.table, err = paging.New(paging.Config{Pages: 5000, Limit: 4096, Ahead: 2*zeroPages + 3}); err != nil {
		t.Fatal(err)
	}
	var log lines
	r.p.cfg.Log = log.add
	for n := range 3 { // sequential, so other pages are loaded ahead
		r.table.Fault(r.now(), n, true)
	}
	if loads := r.perform(); len(loads) != 0 {
		t.Errorf("%d loads of pages that are zeros", len(loads))
	}
	var at []string
	// There is no userfaultfd, so each row is logged.
	for line := range strings.Lines(log.String()) {
		if rest, ok := strings.CutPrefix(line, "a program gets SIGBUS at "); ok {
			offset, _, _ := strings.Cut(rest, " ")
			at = append(at, offset)
		}
	}
	// Three faults, two of them sequential: 3 + 19 pages in all.
	if got, want := strings.Join(at, " "), "0 32768 65536"; got != want {
		t.Errorf("rows begin at %s; expected %s", got, want)
	}
}
