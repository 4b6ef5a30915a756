package weft

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/memory/filemem"
	"github.com/weftnet/weft/internal/proc"
)

// RegisterFile makes a region of n bytes of the file f, from the given offset on. The number n is 1
// to 64 GiB. The process maps these bytes. If the process uses a NIC daemon, the daemon maps them
// too. When other processes PUT into the region, the bytes appear in the file and in every other
// mapping of the file. The caller may close f after RegisterFile returns. [Region.Close] removes
// the mapping. If rights is [ReadOnly], other processes can only GET, and it is enough that f is
// open for reading.
//
// A NIC in this program, or a simulated NIC, accepts every file that can be mapped. If the file
// becomes shorter, operations on the missing part fail in the same way as operations on pages that
// are not mapped; see [Process.Register].
//
// A NIC daemon accepts only a file from memfd_create, with or without MFD_HUGETLB, that is sealed
// with F_SEAL_SHRINK. Other processes depend on the daemon, so the daemon must neither lose memory
// nor wait for a disk. The size of the region, rounded up to whole pages, counts towards the
// daemon's quota region_bytes.
//
// RegisterFile fails with [ErrNoMemory] if the quota is used up or too few huge pages are free. It
// fails with [ErrBadArgument] if the file cannot be mapped, ends before offset+n, was not opened
// with the access that the rights require, or is sealed against writing. With a daemon,
// RegisterFile also fails with [ErrBadArgument] if the file could become shorter.
func (p *Process) RegisterFile(f *os.File, offset int64, n int, rights Rights) (*Region, error) {
	if rights > ReadOnly {
		return nil, badRights("register", rights)
	}
	fail := func(err error) (*Region, error) { return nil, &OpError{Op: "register", Err: err} }
	if n < 1 || n > limits.MaxRegion {
		return fail(fmt.Errorf("%w: %d bytes of a file; expected 1 to %d", ErrBadArgument, n, limits.MaxRegion))
	}
	raw, err := f.SyscallConn()
	if err != nil { // f is nil or closed
		return fail(fmt.Errorf("%w: a file that is not open: %w", ErrBadArgument, err))
	}
	var r *Region
	var why error
	err = raw.Control(func(fd uintptr) { r, why = p.registerFile(int(fd), offset, n, rights) })
	if err != nil {
		return fail(fmt.Errorf("%w: a file that is not open: %w", ErrBadArgument, err))
	}
	return r, why
}

// registerFile maps a part of a file and registers the mapping.
func (p *Process) registerFile(fd int, offset int64, n int, rights Rights) (*Region, error) {
	m, err := filemem.Map(fd, offset, n, rights == ReadWrite)
	if err != nil {
		is := ErrBadArgument
		if errors.Is(err, syscall.ENOMEM) { // too few huge pages are free
			is = ErrNoMemory
		}
		return nil, &OpError{Op: "register", Err: fmt.Errorf("%w: %w", is, err)}
	}
	r, err := p.p.Register(m.Bytes, &proc.File{FD: fd, Offset: offset}, rights == ReadOnly)
	if err != nil {
		_ = m.Unmap()
		return nil, opError(err)
	}
	return &Region{r: r, p: p, unmap: sync.OnceValue(m.Unmap)}, nil
}
