package userfault

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/paging"
)

// perform executes the actions of the table, except loads, which it returns. Each store gets a
// goroutine. The lock is held.
func (r *region) perform() (loads []paging.Action) {
	r.do = r.table.Actions(r.do[:0])
	if r.ctx.Err() != nil {
		return nil
	}
	for l := r.do; len(l) > 0; {
		a, n := l[0], 1
		switch a.Kind {
		case paging.Load:
			loads = append(loads, a)
		case paging.Store:
			r.wg.Go(func() { r.store(a) })
		case paging.Take:
			n = neighbours(l)
			r.remove(l[:n])
		default:
			n = min(neighbours(l), len(r.zeros)/int(r.page))
			r.settle(a, n)
		}
		l = l[n:]
	}
	return loads
}

// performAside is like perform, but executes the loads in a goroutine. The lock is held.
func (r *region) performAside() {
	if loads := r.perform(); len(loads) > 0 {
		r.wg.Go(func() { r.load(loads) })
	}
}

// neighbours returns the number of actions at the beginning of l that can be executed together.
// They do the same with consecutive pages. For that, a page that is taken may be protected once
// more than needed. Filled pages come from scattered buffers, and each lost page is logged
// separately.
func neighbours(l []paging.Action) int {
	a, n := l[0], 1
	if a.Kind == paging.Fill || a.Kind == paging.Poison {
		return n
	}
	for n < len(l) && l[n].Kind == a.Kind && l[n].Page == a.Page+n && (l[n].Buf < 0) == (a.Buf < 0) &&
		(a.Kind == paging.Take || l[n].Writable == a.Writable) && l[n].Here == a.Here {
		n++
	}
	return n
}

// settle executes an action that ends faults, on consecutive pages.
func (r *region) settle(a paging.Action, pages int) {
	offset, n := uint64(a.Page)*uint64(r.page), uint64(pages)*uint64(r.page)
	var err error
	switch a.Kind {
	case paging.Fill:
		err = r.mem.put(offset, r.buffer(a.Buf), a.Writable)
	case paging.Zero:
		err = r.mem.put(offset, r.zeros[:n], a.Writable)
	case paging.Allow:
		err = r.mem.protect(offset, n, 0)
	case paging.Wake:
		if a.Here {
			err = r.removed(offset, n)
		}
		if err == nil {
			err = r.mem.wake(offset, n)
		}
	case paging.Poison:
		r.p.cfg.Log(fmt.Sprintf("a program gets SIGBUS for want of %d bytes at %d of its memory: %v",
			n, offset, r.reason))
		err = r.mem.fail(offset, n)
	}
	if err == nil {
		return
	}
	// The program must not wait for a page that does not arrive. Its memory holds nothing wrong
	// there.
	r.p.cfg.Log(fmt.Sprintf("a program gets SIGBUS at %d of its memory: %v", offset, err))
	if err := r.mem.fail(offset, n); err != nil {
		r.p.cfg.Log(fmt.Sprintf("and it does not: %v", err))
	}
}

// removed returns errRemoved if a page is not in the memory although the table has put it there:
// the program has removed it by itself. Otherwise threads that touch the page would be woken for
// ever. The content of the page is lost.
func (r *region) removed(offset, n uint64) error {
	for end := offset + n; offset < end; offset += uint64(r.page) {
		if at, err := unix.Seek(r.memfd, int64(offset), unix.SEEK_DATA); errors.Is(err, unix.ENXIO) ||
			err == nil && at != int64(offset) {
			return errRemoved
		}
	}
	return nil
}

var errRemoved = errors.New(
	"the program has removed it, as by madvise with MADV_REMOVE: expected to be left to the pager")

// remove takes consecutive pages out of the memory. It first protects writable pages, so that
// nothing is written between the copy and the cut. A thread that writes meanwhile waits, and
// finds the page missing.
func (r *region) remove(l []paging.Action) {
	offset, n := uint64(l[0].Page)*uint64(r.page), uint64(len(l))*uint64(r.page)
	parts := make([][]byte, 0, len(l))
	writable := false
	for _, a := range l {
		writable = writable || a.Writable
		if a.Buf >= 0 {
			parts = append(parts, r.buffer(a.Buf))
		}
	}
	var err error
	if writable {
		err = r.mem.protect(offset, n, protectOn)
	}
	if err == nil && len(parts) > 0 {
		err = r.copyOut(offset, parts)
	}
	if err == nil {
		err = r.cut(offset, n)
	}
	if err != nil { // the copies may differ from what the program wrote
		r.p.cfg.Log(fmt.Sprintf("a program is ended: taking %d bytes at %d of its memory: %v", n, offset, err))
		r.abort()
	}
}

// copyOut copies consecutive pages out of the memory.
func (r *region) copyOut(offset uint64, parts [][]byte) error {
	got, err := unix.Preadv(r.memfd, parts, int64(offset))
	if want := len(parts) * int(r.page); err == nil && got != want {
		err = fmt.Errorf("%d bytes could be read; expected %d", got, want)
	}
	return err
}
