package memfile

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A write that begins at or behind the end of the file has no room, and the error says so. A
// write that extends beyond the end is cut there.
func TestAWriteAtTheEndIsTooBig(t *testing.T) {
	const size = 1 << 16
	m := &memory{b: make([]byte, size)}
	f := &file{cfg: Config{Device: m, Full: func(error) bool { return false }}}
	f.outage.init(time.Minute)
	defer f.outage.close()
	for _, c := range []struct {
		at   int64
		n    uint32
		want unix.Errno
	}{{size - 4, 4, 0}, {size - 3, 3, 0}, {size - 1, 1, 0}, {size, 0, unix.EFBIG}, {size + 1, 0, unix.EFBIG}, {2 * size, 0, unix.EFBIG}} {
		n, errno := f.Write(t.Context(), nil, []byte("four"), c.at)
		if n != c.n || errno != c.want {
			t.Errorf("a write of 4 bytes at %d of %d: %d, %v; expected %d, %v", c.at, size, n, errno, c.n, c.want)
		}
	}
}

// fsync reports to programs that their data were not stored.
func TestTheErrorOfAFlushIsThatOfFsync(t *testing.T) {
	m := &memory{b: make([]byte, 1<<16)}
	f := &file{cfg: Config{Device: m, Full: func(err error) bool { return errors.Is(err, errFull) }, Log: func(string) {}}}
	f.outage.init(time.Minute)
	defer f.outage.close()
	for _, c := range []struct {
		fail error
		want unix.Errno
	}{{nil, 0}, {errFull, unix.ENOSPC}, {errors.New("all is lost"), unix.EIO}, {nil, 0}} {
		m.fail = c.fail
		if errno := f.Fsync(t.Context(), nil, 0); errno != c.want {
			t.Errorf("fsync of a device that says %v: %v, expected %v", c.fail, errno, c.want)
		}
	}
}
