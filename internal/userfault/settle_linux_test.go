package userfault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/memfd"
	"github.com/weftnet/weft/internal/paging"
)

// backed gives a region memory of some pages. The pages in written have content.
func backed(t *testing.T, r *region, pages int, written ...int64) {
	t.Helper()
	file, err := memfd.Create("weft-mem")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(file.FD) })
	if err := file.Grow(int64(pages) * r.page); err != nil {
		t.Fatal(err)
	}
	for _, n := range written {
		if _, err := unix.Pwrite(file.FD, bytes.Repeat([]byte{byte(n + 1)}, int(r.page)), n*r.page); err != nil {
			t.Fatal(err)
		}
	}
	r.memfd = file.FD
}

// Only a page that is a hole was removed by its program.
func TestAPageThatIsAHoleWasRemoved(t *testing.T) {
	r := without(t, &device{b: make([]byte, 1<<20)})
	defer r.abort()
	backed(t, r, 8, 1, 2, 4)
	for _, c := range []struct {
		page, pages uint64
		want        error
	}{
		{1, 1, nil}, {2, 1, nil}, {1, 2, nil}, {4, 1, nil},
		{0, 1, errRemoved}, {3, 1, errRemoved}, {0, 2, errRemoved}, {2, 2, errRemoved}, {5, 1, errRemoved}, {7, 1, errRemoved}, {1, 4, errRemoved},
	} {
		if err := r.removed(c.page*4096, c.pages*4096); err != c.want {
			t.Errorf("%d pages from page %d: %v; expected %v", c.pages, c.page, err, c.want)
		}
	}
	r.memfd = -1
	if err := r.removed(0, 4096); err != nil {
		t.Errorf("memory that cannot be looked at: %v; expected that nothing is said of the program", err)
	}
}

// An action that fails ends the wait of its program by SIGBUS. The log says why and where.
func TestAnActionThatFailsIsLoggedWithItsPlace(t *testing.T) {
	lost := errors.New("the device is gone")
	for name, c := range map[string]struct {
		a    paging.Action
		n    int
		want []string
	}{
		"a page":                     {paging.Action{Kind: paging.Fill, Page: 2, Buf: 1}, 1, []string{"SIGBUS at 8192 of its memory: bad file"}},
		"zeros":                      {paging.Action{Kind: paging.Zero, Page: 2, Buf: -1}, 2, []string{"SIGBUS at 8192 of its memory: bad file"}},
		"a permission":               {paging.Action{Kind: paging.Allow, Page: 2, Buf: -1}, 1, []string{"SIGBUS at 8192 of its memory: bad file"}},
		"a wake":                     {paging.Action{Kind: paging.Wake, Page: 0, Buf: -1}, 1, []string{"SIGBUS at 0 of its memory: bad file"}},
		"a wake of a page":           {paging.Action{Kind: paging.Wake, Page: 1, Buf: -1, Here: true}, 1, []string{"SIGBUS at 4096 of its memory: bad file"}},
		"a wake of a page that left": {paging.Action{Kind: paging.Wake, Page: 0, Buf: -1, Here: true}, 1, []string{"SIGBUS at 0 of its memory: the program has removed it"}},
		"a page that is lost":        {paging.Action{Kind: paging.Poison, Page: 3, Buf: -1}, 1, []string{"SIGBUS for want of 4096 bytes at 12288 of its memory: the device is gone", "SIGBUS at 12288"}},
	} {
		r := without(t, &device{b: make([]byte, 1<<20)})
		backed(t, r, 8, 1)
		var log lines
		r.p.cfg.Log, r.reason = log.add, lost
		r.settle(c.a, c.n) // there is no userfaultfd
		for _, want := range append(c.want, "and it does not: bad file descriptor") {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: the log has %q; expected %q", name, log.String(), want)
			}
		}
		if n := strings.Count(log.String(), "\n"); n != len(c.want)+1 || r.ctx.Err() != nil {
			t.Errorf("%s: the log has %q, and the program is ended: %v", name, log.String(), r.ctx.Err() != nil)
		}
		r.abort()
	}
}

// If a page cannot be copied whole or cannot be cut out, its program is ended, because its data
// could be lost.
func TestAPageThatCannotBeCopiedEndsItsProgram(t *testing.T) {
	for name, c := range map[string]struct {
		pages int // of the memory
		fd    bool
		want  string // "": the program continues
	}{
		"whole":             {3, true, ""},
		"beyond the memory": {2, true, "taking 8192 bytes at 4096 of its memory: 4096 bytes could be read; expected 8192"},
		"nothing":           {1, true, "0 bytes could be read; expected 8192"},
		"no memory":         {1, false, "bad file descriptor"},
	} {
		r := without(t, &device{b: make([]byte, 1<<20)})
		var log lines
		r.p.cfg.Log = log.add
		backed(t, r, c.pages)
		if _, err := unix.Pwrite(r.memfd, bytes.Repeat([]byte{7}, min(c.pages, 3)*4096), 0); err != nil {
			t.Fatal(err)
		}
		if !c.fd {
			r.memfd = -1
		}
		r.remove([]paging.Action{{Kind: paging.Take, Page: 1, Buf: 0}, {Kind: paging.Take, Page: 2, Buf: 3}})
		if ended := r.ctx.Err() != nil; ended != (c.want != "") || !strings.Contains(log.String(), c.want) || !ended && log.String() != "" {
			t.Errorf("%s: the program is ended: %v, and the log has %q; expected %q", name, ended, log.String(), c.want)
		}
		if c.want == "" && (r.buffer(0)[0] != 7 || r.buffer(3)[4095] != 7 || r.buffer(1)[0] != 0 || r.removed(4096, 4096) == nil || r.removed(0, 4096) != nil) {
			t.Error("the buffers do not have the pages, or the memory still has them")
		}
		r.abort()
	}
	r := without(t, &device{b: make([]byte, 1<<20)})
	var log lines
	r.p.cfg.Log = log.add
	r.remove([]paging.Action{{Kind: paging.Take, Page: 1, Buf: -1}}) // zeros, which need no copy
	if r.ctx.Err() == nil || !strings.Contains(log.String(), "a program is ended: taking 4096 bytes at 4096") {
		t.Errorf("zeros that cannot be cut out: %q", log.String())
	}
}

// After a program has ended, nothing more is done for it.
func TestNothingIsDoneForAProgramThatHasEnded(t *testing.T) {
	for name, ended := range map[string]bool{"one that goes on": false, "one that has ended": true} {
		r := without(t, &device{b: make([]byte, 1<<20)})
		var log lines
		r.p.cfg.Log = log.add
		r.table.Fault(r.now(), 3, true)
		if ended {
			r.abort()
		}
		if loads := r.perform(); len(loads) != 0 || (log.String() == "") != ended {
			t.Errorf("%s: %d loads, and the log has %q", name, len(loads), log.String())
		}
		if l := r.table.Actions(nil); len(l) != 0 {
			t.Errorf("%s: %d actions are left", name, len(l))
		}
		r.abort()
	}
}

// leaving writes pages until some leave, and returns their stores.
func leaving(r *region, want int) (stores []paging.Action) {
	for n := 0; len(stores) < want; n++ {
		r.table.Fault(r.now(), n, true)
		for _, a := range r.table.Actions(nil) {
			if a.Kind == paging.Store {
				stores = append(stores, a)
			}
		}
	}
	return stores
}

// A lost page is logged with the last reason. A success does not replace this reason.
func TestTheReasonOfALostPageIsTheLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &device{b: make([]byte, 1<<20)}
		r := without(t, d)
		defer r.abort()
		r.reason = errSlow
		stores := leaving(r, 4)
		r.store(stores[0])
		r.wg.Wait()
		if r.reason != errSlow || d.writes < 1 {
			t.Errorf("behind a store the reason is %v, and the device has %d; expected %v", r.reason, d.writes, errSlow)
		}
		lost := errors.New("all is lost")
		d.fails(lost)
		begun := time.Now()
		go func() {
			time.Sleep(retryPause / 2)
			d.fails(nil)
		}()
		r.store(stores[1])
		r.wg.Wait()
		if r.reason != lost || time.Since(begun) != retryPause {
			t.Errorf("behind a store that failed the reason is %v, and it is tried again after %v; expected %v, %v", r.reason, time.Since(begun), lost, retryPause)
		}
		d.fails(lost)
		r.abort()
		begun = time.Now()
		if r.store(stores[2]); time.Since(begun) != 0 {
			t.Errorf("a store of a program that has ended takes %v", time.Since(begun))
		}
		if s := r.table.Stats(); s.Failed != 2 {
			t.Errorf("%+v; expected 2 stores that failed", s)
		}
	})
}

// partly is a device that reads one page, has it handed over, and then fails.
type partly struct {
	*device
	err    error
	before func()
	limit  time.Time
}

func (p *partly) ReadMany(ctx context.Context, bufs [][]byte, offsets []int64, done func(i int, err error), beforeWait func()) {
	p.limit, _ = ctx.Deadline()
	copy(bufs[1], fmt.Sprint("page at ", offsets[1]))
	done(1, nil)
	beforeWait()
	p.before()
	done(0, p.err)
}

// Pages that have arrived do not wait for other pages. A page that fails is lost alone.
func TestAPageThatHasComeIsNotHeldUpByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &partly{device: &device{b: make([]byte, 1<<20)}, err: errors.New("all is lost")}
		r := without(t, d)
		defer r.abort()
		var loads []paging.Action
		for n := 0; len(loads) < 2; n = (n + 1) % 256 {
			r.table.Fault(r.now(), n, true)
			for l := r.table.Actions(nil); len(l) > 0; l = r.table.Actions(nil) {
				for _, a := range l {
					switch a.Kind {
					case paging.Store:
						r.table.Stored(a.Page, a.Buf, true)
					case paging.Load:
						loads = append(loads, a)
					}
				}
			}
		}
		loads = loads[:2]
		buffered := r.stats().Buffered
		d.before = func() {
			if got := r.stats().Buffered; got >= buffered || r.reason != nil {
				t.Errorf("as the device waits, %d buffers are used of %d before; expected fewer, and no failure (%v)", got, buffered, r.reason)
			}
		}
		begun := time.Now()
		r.load(loads)
		if s := r.stats(); s.Lost != 1 || r.reason != d.err || d.limit.Sub(begun) != r.p.cfg.Timeout {
			t.Errorf("%+v, for %v, with %v for the device; expected one page that is lost, for %v", s, r.reason, d.limit.Sub(begun), d.err)
		}
		if got := string(r.buffer(loads[1].Buf)[:8]); got != "page at " {
			t.Errorf("the buffer of the page that came has %q", got)
		}
	})
}

// A fault that waits too long for room loses its page. The checks for such faults end with the
// program.
func TestAFaultThatWaitsTooLongIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := without(t, &device{b: make([]byte, 1<<20)})
		var err error
		if r.table, err = paging.New(paging.Config{Pages: 256, Limit: paging.MinLimit, Ahead: -1, Timeout: r.p.cfg.Timeout}); err != nil {
			t.Fatal(err)
		}
		for n := 0; r.table.Stats().Waiting == 0; n++ {
			r.table.Fault(r.now(), n, true)
		}
		r.table.Actions(nil) // no store is answered
		ended := make(chan struct{})
		go func() { r.expire(); close(ended) }()
		time.Sleep(r.p.cfg.Timeout - time.Millisecond)
		if s := r.stats(); s.Lost != 0 || s.Waiting != 1 {
			t.Errorf("before the timeout: %+v", s)
		}
		time.Sleep(r.p.cfg.Timeout / 4)
		if s := r.stats(); s.Lost != 1 || s.Waiting != 0 {
			t.Errorf("behind the timeout: %+v", s)
		}
		r.abort()
		<-ended
	})
}
