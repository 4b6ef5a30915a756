package userfault

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// joined gets memory from the pager at a socket, as a program that touches no page. This process
// does not end with its pager.
func joined(t *testing.T, socket string) (*net.UnixConn, error) {
	t.Helper()
	conn, err := net.DialUnix(Network, nil, &net.UnixAddr{Name: socket, Net: Network})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	var hello [16]byte
	memfd, err := receive(conn, hello[:])
	if err != nil {
		return nil, err
	}
	defer unix.Close(memfd)
	mem, err := unix.Mmap(memfd, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	fd, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	return conn, hand(conn, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), fd)
}

// The timeout bounds the time in which a program accepts its memory, not the time for which it
// has it.
func TestAProgramKeepsItsMemoryForLongerThanTheTimeout(t *testing.T) {
	for timeout := 20 * time.Millisecond; ; timeout *= 10 {
		_, socket := serve(t, Config{Device: &device{b: make([]byte, 1<<20)}, Page: 4096, Resident: 256 << 10, Timeout: timeout})
		conn, err := joined(t, socket)
		if err != nil && timeout < patience { // this machine is slow
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(3 * timeout)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("within thrice the timeout of %v the pager says %d bytes, %v; expected nothing", timeout, n, err)
		}
		return
	}
}

// A program that asks for memory and then sends nothing loses it after the timeout.
func TestAProgramThatDoesNotAnswerGivesTheMemoryUp(t *testing.T) {
	_, socket := serve(t, Config{Device: &device{b: make([]byte, 1<<20)}, Page: 4096, Resident: 256 << 10, Timeout: 20 * time.Millisecond})
	conn, err := net.DialUnix(Network, nil, &net.UnixAddr{Name: socket, Net: Network})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	memfd, err := receive(conn, make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(memfd)
	answer := make([]byte, maxText)
	n, err := conn.Read(answer)
	if want := "taking a program's userfaultfd: "; err != nil || !strings.HasPrefix(string(answer[:n]), want) {
		t.Errorf("the pager says %q, %v; expected %q", answer[:n], err, want)
	}
	if n, err := conn.Read(answer); n != 0 || err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("behind that it says %q, %v; expected its end", answer[:n], err)
	}
}
