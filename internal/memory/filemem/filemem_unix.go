//go:build unix

// Package filemem maps parts of files. A program and its NIC daemon share such memory through a
// file descriptor.
package filemem

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrFile is the error if a file cannot be mapped as requested.
var ErrFile = errors.New("the file cannot be memory")

// Mapping is a mapped part of a file.
type Mapping struct {
	Bytes []byte // the part
	whole []byte // the pages that contain it
}

// Map maps n bytes of a file from offset on, for reading or, if write is set, also for writing.
// The bytes need not begin or end at a page boundary. Afterwards the descriptor may be closed.
func Map(fd int, offset int64, n int, write bool) (*Mapping, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%w: it is none with bytes of its own, but of mode %#o; expected a regular file, "+
			"or memory by memfd_create", ErrFile, st.Mode)
	case offset < 0 || n < 1:
		return nil, fmt.Errorf("%w: %d bytes of it, from %d on; expected 1 or more, from 0 on", ErrFile, n, offset)
	case offset > st.Size || int64(n) > st.Size-offset:
		return nil, fmt.Errorf("%w: it has %d bytes; expected %d or more, which %d bytes from %d on need",
			ErrFile, st.Size, uint64(offset)+uint64(n), n, offset)
	}
	page := pageSize(fd)
	before := offset % page
	length := (before + int64(n) + page - 1) / page * page
	protection := unix.PROT_READ
	if write {
		protection |= unix.PROT_WRITE
	}
	whole, err := unix.Mmap(fd, offset-before, int(length), protection, unix.MAP_SHARED)
	// The file is sealed against writing. It never changes, so a private mapping has the same
	// bytes.
	if errors.Is(err, unix.EPERM) && !write {
		whole, err = unix.Mmap(fd, offset-before, int(length), protection, unix.MAP_PRIVATE)
	}
	switch {
	case errors.Is(err, unix.EACCES) && write:
		return nil, fmt.Errorf("%w: it is not open for reading and writing, which ReadWrite needs: %w", ErrFile, err)
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("%w: it is not open for reading: %w", ErrFile, err)
	case errors.Is(err, unix.EPERM) && write:
		return nil, fmt.Errorf("%w: it is sealed against writing, which ReadWrite needs: %w", ErrFile, err)
	case err != nil:
		return nil, fmt.Errorf("%w: mapping %d bytes of it: %w", ErrFile, length, err)
	}
	return &Mapping{Bytes: whole[before:][:n:n], whole: whole}, nil
}

// Whole returns the part together with the rest of its first and last page.
func (m *Mapping) Whole() []byte { return m.whole }

// Unmap unmaps the memory.
func (m *Mapping) Unmap() error {
	if err := unix.Munmap(m.whole); err != nil {
		return fmt.Errorf("unmap: %w", err)
	}
	return nil
}

// pageSize returns the unit in which a file is mapped: the system's page size, or the file's own
// huge pages.
func pageSize(fd int) int64 {
	page := int64(os.Getpagesize())
	if huge := hugePage(fd); huge > page {
		return huge
	}
	return page
}
