package nbd

import (
	"bytes"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair returns a line and the other end of its socket. The socket's buffers are small.
func pair(t *testing.T) (l net.Conn, other net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<10)
		f := os.NewFile(uintptr(fd), "socket")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	l = own(ends[0])
	t.Cleanup(func() { l.Close(); ends[1].Close() })
	for _, c := range []net.Conn{l, ends[1]} {
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	return l, ends[1]
}

// The kernel may accept only a part of the written bytes. The rest follows, and nothing is sent
// twice.
func TestRepliesThatTheKernelTakesInPartsComeWhole(t *testing.T) {
	for name, lengths := range map[string][]int{
		"one":                       {300_001},
		"two":                       {16, 200_003},
		"some of which are empty":   {0, 70_001, 0, 16, 90_001, 0},
		"more than one call writes": append(make([]int, mostBuffers), 5, 100_003, 7),
		"as many as one call takes": append(make([]int, mostBuffers-1), 100_003),
	} {
		l, other := pair(t)
		var bufs [][]byte
		var want []byte
		for i, n := range lengths {
			b := make([]byte, n)
			for k := range b {
				b[k] = byte(k*7 + k>>8 + i)
			}
			bufs, want = append(bufs, b), append(want, b...)
		}
		written := make(chan error, 1)
		go func() { written <- l.(interface{ writeAll([][]byte) error }).writeAll(bufs) }()
		got := make([]byte, len(want))
		if n, err := io.ReadFull(other, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %d bytes come, %v; expected the %d that were written", name, n, err, len(want))
		}
		if err := <-written; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
