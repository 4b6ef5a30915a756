package netmem

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/weftnet/weft/internal/hsn"
)

// spill is a file that is divided into slots of one server page each. A later server cannot use the
// content, because no client asks for pages of another epoch. So the file has no name while the
// server uses it, and vanishes when the server ends for any reason.
type spill struct {
	f       file    // nil: closed
	free    []int64 // unused slots, numbered from 1
	out, in uint64
	failed  uint64 // failed reads and writes
	// The last write has failed. One write at a time checks whether the file works again, and no
	// room is expected of it until then.
	sick bool
}

// file is what a spill needs of a file.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

var errNotEmpty = errors.New("it has something in it; expected a new file, or an empty one")

// openSpill opens a file of n bytes and reserves its space.
func openSpill(name string, n int64) (*spill, error) { return spillInto(name, n, os.Remove) }

// spillInto is like openSpill, but removes the file's name with the function remove. If the
// directory does not allow the removal, the file is left empty.
func spillInto(name string, n int64, remove func(string) error) (*spill, error) {
	_, err := os.Lstat(name)
	made := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	claimed := claim(f, n)
	if err = claimed; err == nil || made {
		err = errors.Join(err, remove(name))
	}
	if claimed == nil && err != nil {
		err = errors.Join(err, f.Truncate(0))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &spill{f: f}
	for slot := n / hsn.MaxPage; slot > 0; slot-- {
		s.free = append(s.free, slot)
	}
	return s, nil
}

// claim locks a file for this server and reserves its space. If it fails, the file is unchanged.
func claim(f *os.File, n int64) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is a device, a pipe or a socket; expected an ordinary file")
	case info.Size() > 0:
		return fmt.Errorf("%w: %d bytes", errNotEmpty, info.Size())
	}
	if err := lockFile(f); err != nil {
		return err
	}
	if err := reserveFile(f, n); err != nil {
		return errors.Join(err, f.Truncate(0))
	}
	return nil
}

// close closes the file, which frees its space.
func (s *spill) close() error {
	if s == nil || s.f == nil {
		return nil
	}
	err := s.f.Close()
	s.f = nil
	return err
}

// take reserves a free slot. It returns 0 if there is none.
func (s *spill) take() int64 {
	if s == nil || s.f == nil || len(s.free) == 0 {
		return 0
	}
	slot := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return slot
}

// release frees a slot.
func (s *spill) release(slot int64) { s.free = append(s.free, slot) }
