package userfault

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/paging"
)

// packets returns the two ends of a connection that preserves packet boundaries.
func packets(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		ends[i] = c.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

// A hostile program leaves the pager no descriptor, whatever it sends. The other end of a pipe
// shows whether a descriptor is left.
func TestADescriptorOfAPacketThatIsRefusedIsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		packet string
		copies int
	}{
		"too short":                  {"short", 1},
		"too long":                   {"longer than it should be", 1},
		"with two descriptors":       {"8 bytes.", 2},
		"too short, and two of them": {"x", 2},
	} {
		program, pager := packets(t)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fds := make([]int, c.copies)
		for i := range fds {
			fds[i] = int(w.Fd())
		}
		if _, _, err := program.WriteMsgUnix([]byte(c.packet), unix.UnixRights(fds...), nil); err != nil {
			t.Fatal(err)
		}
		w.Close()
		var packet [8]byte
		if fd, err := receive(pager, packet[:]); err == nil {
			t.Errorf("a packet %s is taken, with descriptor %d", name, fd)
			unix.Close(fd)
		}
		if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("behind a packet %s the pipe says %v; expected its end: a descriptor is left", name, err)
		}
		r.Close()
	}
}

// hanging is a device whose first operations wait until their timeout.
type hanging struct {
	*device
	hangs int
}

func (h *hanging) hang(ctx context.Context) error {
	h.mu.Lock()
	h.hangs--
	hangs := h.hangs >= 0
	h.mu.Unlock()
	if !hangs {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (h *hanging) ReadMany(ctx context.Context, bufs [][]byte, offsets []int64, done func(i int, err error), beforeWait func()) {
	if err := h.hang(ctx); err != nil {
		for i := range bufs {
			done(i, err)
		}
		return
	}
	h.device.ReadMany(ctx, bufs, offsets, done, beforeWait)
}

func (h *hanging) WriteAtContext(ctx context.Context, b []byte, offset int64) (int, error) {
	if err := h.hang(ctx); err != nil {
		return 0, err
	}
	return h.device.WriteAtContext(ctx, b, offset)
}

// without returns a region that has a table, buffers and a device, but no memory of a program.
func without(t *testing.T, d Device) *region {
	t.Helper()
	const page, pages, limit = 4096, 256, paging.MinLimit
	table, err := paging.New(paging.Config{Pages: pages, Limit: limit, Ahead: -1})
	if err != nil {
		t.Fatal(err)
	}
	p := &Pager{cfg: Config{Device: d, Timeout: 30 * time.Second, Log: func(string) {}}, page: page}
	r := &region{p: p, page: page, begun: time.Now(), table: table, memfd: -1, mem: memory{fd: -1}}
	r.bufs, r.zeros = make([]byte, paging.Buffers(limit)*page), make([]byte, zeroPages*page)
	r.ctx, r.abort = context.WithCancel(t.Context())
	return r
}

// A store that the device does not answer ends at its timeout. The pager then retries, so the
// buffer becomes free when the device has recovered.
func TestADeviceThatHangsOnceIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &hanging{&device{b: make([]byte, 1<<20)}, 3}
		r := without(t, d)
		defer r.abort()
		var stores []paging.Action
		for n := 0; len(stores) == 0; n++ { // until a page leaves
			r.table.Fault(r.now(), n, true)
			for _, a := range r.table.Actions(nil) {
				if a.Kind == paging.Store {
					stores = append(stores, a)
				}
			}
		}
		a := stores[0]
		copy(r.buffer(a.Buf), "what the page has")
		begun := time.Now()
		r.store(a)
		r.wg.Wait() // for the stores that follow
		if took := time.Since(begun); took < 3*r.p.cfg.Timeout {
			t.Errorf("the device was asked again after %v; expected %v for each time that it hung", took, r.p.cfg.Timeout)
		}
		if got := string(d.b[a.Page*4096:][:17]); got != "what the page has" {
			t.Errorf("the device has %q", got)
		}
		if s := r.table.Stats(); s.Failed != 3 {
			t.Errorf("%+v; expected 3 stores that failed", s)
		}
	})
}

// A page that the device does not deliver in time is lost. The region keeps the reason for the
// log.
func TestALoadOfADeviceThatHangsEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &hanging{&device{b: make([]byte, 1<<20)}, 1}
		r := without(t, d)
		defer r.abort()
		var loads []paging.Action
		for n := 0; len(loads) == 0; n = (n + 1) % 256 { // until a page that left is wanted again
			r.table.Fault(r.now(), n, true)
			for l := r.table.Actions(nil); len(l) > 0 && len(loads) == 0; l = r.table.Actions(nil) {
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
		r.load(loads)
		if s := r.table.Stats(); s.Lost != 1 || !errors.Is(r.reason, context.DeadlineExceeded) {
			t.Errorf("%+v, for %v; expected one page that is lost, for %v", s, r.reason, context.DeadlineExceeded)
		}
	})
}

// memories returns the number of descriptors of program memory that this process has.
func memories(t *testing.T) (n int) {
	t.Helper()
	const dir = "/proc/self/fd"
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if to, err := os.Readlink(dir + "/" + e.Name()); err == nil && strings.Contains(to, "weft-mem") {
			n++
		}
	}
	return n
}

// A program that asks while another program has the memory is refused, and leaves nothing in the
// pager.
func TestAProgramThatIsRefusedLeavesNoMemory(t *testing.T) {
	const size = 1 << 20
	p := &Pager{cfg: Config{Device: &device{b: make([]byte, size)}, Page: 4096, Resident: 256 << 10, Timeout: time.Minute}, page: 4096}
	before := memories(t)
	synctest.Test(t, func(t *testing.T) {
		first, err := p.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := memories(t); n != before+1 {
			t.Skipf("the memory of a program shows as %d descriptors", n-before)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for what, ctx := range map[string]context.Context{"as another has the memory": t.Context(), "as the pager ends": ended} {
			if _, err := p.begin(ctx); err == nil {
				t.Errorf("%s, a second program gets it", what)
			}
			if n := memories(t); n != before+1 {
				t.Errorf("%s, %d descriptors of memory are open; expected one: that of the program that has it", what, n-before)
			}
		}
		if err := first.close(); err != nil {
			t.Error(err)
		}
	})
	if n := memories(t); n != before {
		t.Errorf("%d descriptors of memory are open behind the last program", n-before)
	}
}
