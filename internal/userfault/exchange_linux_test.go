package userfault

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/paging"
)

// sized is a device with a size that no memory has.
type sized struct {
	*device
	n int64
}

func (s sized) Size() int64 { return s.n }

// Each number of a pager's configuration has bounds. The test uses the bounds themselves and one
// page beyond.
func TestTheNumbersOfAPagerHaveTheirBounds(t *testing.T) {
	const page, least = 4096, paging.MinLimit * 4096
	for name, c := range map[string]struct {
		size, resident int64
		want           string // "": it is valid
	}{
		"the least memory":                  {least, least, ""},
		"the most memory":                   {page * paging.MaxPages, least, ""},
		"a page more":                       {page * (paging.MaxPages + 1), least, "expected at most"},
		"no memory":                         {0, least, "memory of 0 bytes"},
		"less":                              {-page, least, "memory of -4096 bytes"},
		"half a page":                       {least + page/2, least, "expected a multiple of 4096"},
		"a page less that is resident":      {2 * least, least - page, "at least 262144"},
		"half a page more that is resident": {2 * least, least + page/2, "expected a multiple of 4096"},
		"a page more than all":              {least, least + page, "the size of the memory"},
	} {
		p, err := New(Config{Device: sized{&device{}, c.size}, Page: page, Resident: c.resident})
		if err != nil && c.want == "" && Check() != nil {
			t.Skip(err)
		}
		if (err == nil) != (c.want == "") || (p == nil) != (err != nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; expected %q", name, err, c.want)
		}
		if err == nil && (p.cfg.Timeout != 30*time.Second || p.page != page || p.Stats() != paging.Stats{}) {
			t.Errorf("%s: %+v; expected the default timeout, and no program", name, p.cfg)
		}
	}
}

// scripted is a listener whose Accepts fail in turn, and then succeed with no connection.
type scripted struct{ errs []error }

func (s *scripted) AcceptUnix() (*net.UnixConn, error) {
	if len(s.errs) == 0 {
		return nil, nil
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return nil, err
}

// If files or memory are lacking, a pager retries after a pause, until it ends. It reports any
// other failure at once.
func TestAPagerWaitsForWhatItLacks(t *testing.T) {
	lacks := []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM}
	synctest.Test(t, func(t *testing.T) {
		var log lines
		begun := time.Now()
		if c, err := accept(t.Context(), &scripted{append([]error{}, lacks...)}, log.add); c != nil || err != nil || time.Since(begun) != 4*acceptPause {
			t.Errorf("behind four failures that pass: %v, %v after %v", c, err, time.Since(begun))
		}
		if n := strings.Count(log.String(), "a program has to wait: "); n != 4 {
			t.Errorf("the log has %q", log.String())
		}
		begun = time.Now()
		if _, err := accept(t.Context(), &scripted{[]error{unix.EINVAL}}, log.add); err != unix.EINVAL || time.Since(begun) != 0 {
			t.Errorf("a failure that stays: %v after %v", err, time.Since(begun))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(acceptPause/2, cancel)
		if _, err := accept(ctx, &scripted{lacks}, log.add); err != unix.EMFILE || time.Since(begun) != acceptPause/2 {
			t.Errorf("a pager that ends as it waits: %v after %v", err, time.Since(begun))
		}
	})
}

// If its listener fails, a pager ends with the error of the listener.
func TestAPagerWhoseListenerFailsSaysSo(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix(Network, &net.UnixAddr{Name: socket, Net: Network})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := new(Pager).Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the pager ends with %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := new(Pager).Serve(ctx, l); err != nil {
		t.Errorf("a pager that is ended: %v", err)
	}
}

// If a region cannot be made, there is one error, and nothing is left.
func TestARegionThatCannotBeMadeLeavesNothing(t *testing.T) {
	before := memories(t)
	for name, c := range map[string]struct {
		size, resident int64
		want           string
	}{
		"too few pages resident": {1 << 20, 4096, "paging: 1 pages are local at a time; expected 64 or more"},
		"no memory":              {0, 1 << 20, "paging: 0 pages; expected 1 to 1073741824"},
	} {
		p := &Pager{cfg: Config{Device: sized{&device{}, c.size}, Resident: c.resident, Log: func(string) {}}, page: 4096}
		if r, err := p.begin(t.Context()); err == nil || err.Error() != c.want || r != nil || p.now != nil {
			t.Errorf("%s: %v; expected %q", name, err, c.want)
		}
		there, here := packets(t)
		if err := p.attend(t.Context(), here); err == nil || err.Error() != c.want {
			t.Errorf("%s: its program is served: %v", name, err)
		}
		answer := make([]byte, maxText)
		if n, err := there.Read(answer); string(answer[:n]) != c.want {
			t.Errorf("%s: its program is told %q, %v; expected %q", name, answer[:n], err, c.want)
		}
	}
	if n := memories(t); n != before {
		t.Errorf("%d descriptors of memory are left", n-before)
	}
}

// The next program begins when the device has its room back, also if the discard fails.
func TestTheEndOfAProgramIsToldBehindItsDiscard(t *testing.T) {
	for name, c := range map[string]struct {
		fails, ended bool
		log          string
	}{
		"a device that discards":        {false, false, ""},
		"one that fails":                {true, false, "discarding what a program had: all is lost\n"},
		"one that fails, at the end":    {true, true, ""},
		"one that discards, at the end": {false, true, ""},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if c.ended {
			cancel()
		}
		var log lines
		r := &region{gone: make(chan struct{})}
		d := &discarding{device: &device{b: bytes.Repeat([]byte("x"), 1<<20)}, gone: r.gone}
		if c.fails {
			d.err = errors.New("all is lost")
		}
		p := &Pager{cfg: Config{Device: d, Resident: 256 << 10, Log: log.add}, page: 4096, now: r}
		d.asks = p.begin
		p.end(ctx, r)
		cancel()
		select {
		case <-r.gone:
		default:
			t.Errorf("%s: the next program is not told", name)
		}
		if p.now != nil || d.early || d.n != 1<<20 || log.String() != c.log {
			t.Errorf("%s: %d bytes are discarded, the next program begins before: %v, the log has %q; expected %d, and %q", name, d.n, d.early, log.String(), 1<<20, c.log)
		}
	}
}

// discarding is a device that notes how much is discarded, and whether the next program is told, or
// gets the memory, by then.
type discarding struct {
	*device
	gone  chan struct{}
	asks  func(context.Context) (*region, error) // as the next program does
	err   error
	n     int64
	early bool
}

func (d *discarding) Discard(_ context.Context, offset, n int64) error {
	d.n = n - offset
	select {
	case <-d.gone:
		d.early = true
	default:
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // it does not wait
	if next, err := d.asks(ctx); err == nil {
		d.early = true
		_ = next.close()
	}
	return d.err
}

// A program may hand over anything instead of the userfaultfd of its memory. It gets an error
// that names the mistake. The pager keeps no descriptor of it, and the next program gets the
// memory.
func TestAProgramThatHandsOverSomethingElseIsRefused(t *testing.T) {
	const size = 1 << 20
	_, socket := serve(t, Config{Device: &device{b: make([]byte, size)}, Page: 4096, Resident: 256 << 10})
	before := memories(t)
	for name, c := range map[string]struct {
		address func(mem []byte) uint64
		pipe    bool
		want    string
	}{
		"a pipe":                   {func(mem []byte) uint64 { return at(mem) }, true, "beginning with the userfaultfd: "},
		"an address between pages": {func(mem []byte) uint64 { return at(mem) + 1 }, false, "registering 1048576 bytes at "},
		"the address of nothing":   {func([]byte) uint64 { return 4096 }, false, "registering 1048576 bytes at "},
		// It is not known what is mapped behind the memory, so the error text is not checked.
		"the address of the second": {func(mem []byte) uint64 { return at(mem) + 4096 }, false, ""},
	} {
		conn, err := net.DialUnix(Network, nil, &net.UnixAddr{Name: socket, Net: Network})
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		memfd, err := receive(conn, make([]byte, 16))
		if err != nil {
			t.Fatalf("before %s: %v", name, err)
		}
		mem, err := unix.Mmap(memfd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		unix.Close(memfd)
		if err != nil {
			t.Fatal(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fd := int(w.Fd())
		if !c.pipe {
			if fd, err = open(); err != nil {
				t.Fatal(err)
			}
		}
		err = hand(conn, c.address(mem), fd)
		if !c.pipe {
			unix.Close(fd)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; expected %q", name, err, c.want)
		}
		w.Close()
		if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: the pipe says %v; expected its end: the pager has kept it", name, err)
		}
		r.Close()
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s: behind its refusal a program reads %d bytes, %v; expected the end", name, n, err)
		}
		conn.Close()
		_ = unix.Munmap(mem)
	}
	conn, err := joined(t, socket)
	if err != nil {
		t.Fatalf("the next program: %v", err)
	}
	if n := memories(t); n != before+1 {
		t.Errorf("%d descriptors of memory are open; expected that of the program that has it", n-before)
	}
	conn.Close()
}

// at returns the address of memory.
func at(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }
