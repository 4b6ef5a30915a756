package userfault

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A program asks a process that is not a pager, or a pager that refuses. The program gets an
// error that names the reason and the socket. It keeps neither the connection nor memory.
func TestAProgramThatGetsNoMemoryKeepsNothing(t *testing.T) {
	hello := func(size uint64) []byte {
		return binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, size), 4096)
	}
	for name, c := range map[string]struct {
		answer func(c *net.UnixConn, memfd int)
		want   string
	}{
		"one that ends":                {func(*net.UnixConn, int) {}, "EOF"},
		"one that refuses":             {func(c *net.UnixConn, _ int) { _, _ = c.Write([]byte("it is taken")) }, `the answer is "it is taken"`},
		"one with another memory":      {func(c *net.UnixConn, fd int) { _ = send(c, hello(0), fd) }, "mapping memory: "},
		"one that ends with its offer": {func(c *net.UnixConn, fd int) { _ = send(c, hello(1<<20), fd) }, "handing it over: EOF"},
		"one that then refuses": {func(c *net.UnixConn, fd int) {
			_ = send(c, hello(1<<20), fd)
			var b [8]byte
			if uffd, err := receive(c, b[:]); err == nil {
				unix.Close(uffd)
			}
			_, _ = c.Write([]byte("not so"))
		}, `the answer is "not so"`},
	} {
		if err := Check(); err != nil {
			t.Skip(err)
		}
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.ListenUnix(Network, &net.UnixAddr{Name: socket, Net: Network})
		if err != nil {
			t.Fatal(err)
		}
		before, had := memories(t), attached(t)
		r := without(t, &device{})
		backed(t, r, 256)
		served := make(chan int)
		go func() {
			defer close(served)
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			c.answer(conn, r.memfd)
			_ = conn.CloseWrite()
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			for n := 1; n > 0; { // until the program has closed it
				n, _ = conn.Read(make([]byte, 64))
			}
			conn.Close()
		}()
		m, err := Attach(t.Context(), socket)
		if err == nil || m != nil || !strings.Contains(err.Error(), "asking the pager at "+socket+" for memory: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; expected %q", name, m, err, c.want)
		}
		<-served
		if n := memories(t); n != before+1 {
			t.Errorf("%s: the program has %d descriptors of memory; expected none", name, n-before-1)
		}
		if has := attached(t); has != had {
			t.Errorf("%s: the program has %+v; before it asked it had %+v", name, has, had)
		}
		l.Close()
		r.abort()
	}
	if m, err := Attach(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) || m != nil {
		t.Errorf("where there is no pager: %v", err)
	}
}

// A program that is interrupted while it asks does not wait for a silent pager.
func TestAnInterruptEndsTheWaitForAPager(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix(Network, &net.UnixAddr{Name: socket, Net: Network})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := without(t, &device{})
	defer r.abort()
	backed(t, r, 256)
	had := attached(t)
	why := errors.New("the user has had enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		defer cancel(why)
		conn, err := l.AcceptUnix()
		if err != nil {
			ended <- err
			return
		}
		defer conn.Close()
		_ = send(conn, binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 1<<20), 4096), r.memfd)
		var address [8]byte
		if fd, err := receive(conn, address[:]); err == nil { // the program waits for the answer
			unix.Close(fd)
		}
		cancel(why)
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		_, err = conn.Read(make([]byte, 1))
		ended <- err
	}()
	if m, err := Attach(ctx, socket); !errors.Is(err, why) || m != nil {
		t.Errorf("%v, %v; expected %v", m, err, why)
	}
	if err := <-ended; err != io.EOF {
		t.Errorf("the pager reads %v; expected the end of the connection", err)
	}
	if has := attached(t); has != had {
		t.Errorf("the program has %+v; before it asked it had %+v", has, had)
	}
}

// attachment is what a process keeps for memory that a pager serves.
type attachment struct{ mappings, faults int }

// attached counts the mappings of such memory and the userfaultfds of this process.
func attached(t *testing.T) (a attachment) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	a.mappings = strings.Count(string(maps), "weft-mem")
	const dir = "/proc/self/fd"
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if to, err := os.Readlink(dir + "/" + e.Name()); err == nil && strings.Contains(to, "[userfaultfd]") {
			a.faults++
		}
	}
	return a
}

// If the kernel does not report progress, a copy continues at its previous position.
func TestAStopThatSaysNothingCopiesNothing(t *testing.T) {
	c := [5]uint64{1 << 30, 1 << 20, 64, 0, 9}
	var asked [][3]uint64
	if err := inParts(&c, func() error {
		asked = append(asked, [3]uint64{c[0], c[1], c[2]})
		switch len(asked) {
		case 1:
			c[4] = 16
			return unix.EAGAIN
		case 2:
			return unix.EAGAIN
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := [3]uint64{1<<30 + 16, 1<<20 + 16, 48}; len(asked) != 3 || asked[1] != want || asked[2] != want {
		t.Errorf("the kernel is asked for %v; expected %v twice", asked, want)
	}
}

// A program asks the kernel to kill it when its pager ends. It cancels this when it gives its
// memory back.
func TestAProgramEndsWithItsPagerAsLongAsItHasMemory(t *testing.T) {
	program, pager := packets(t)
	flags := func() (async bool) {
		t.Helper()
		raw, err := program.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			n, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
			if err != nil {
				t.Error(err)
			}
			if n&unix.O_NONBLOCK == 0 {
				t.Error("the socket has lost another flag")
			}
			async = n&unix.O_ASYNC != 0
			owner, err := unix.FcntlInt(fd, unix.F_GETOWN, 0)
			const getsig = 11 // F_GETSIG
			signal, err2 := unix.FcntlInt(fd, getsig, 0)
			if async && (owner != os.Getpid() || signal != int(unix.SIGKILL)) {
				t.Errorf("process %d gets signal %d (%v, %v); expected SIGKILL for this one", owner, signal, err, err2)
			}
		}); err != nil {
			t.Fatal(err)
		}
		return async
	}
	for _, on := range []bool{true, false} {
		if err := endWith(program, on); err != nil || flags() != on {
			t.Errorf("the kernel is told %v: %v, and sends signals: %v", on, err, flags())
		}
	}
	pager.Close() // a signal would end this test
	if err := endWith(program, true); err == nil || err.Error() != "watching the pager: it has ended" {
		t.Errorf("a pager that has ended before: %v", err)
	}
	if err := endWith(program, false); err != nil {
		t.Error(err)
	}
	program.Close()
	for _, on := range []bool{true, false} {
		if err := endWith(program, on); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a connection that is closed: %v", err)
		}
	}
}
