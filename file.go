package weft

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/weftnet/weft/internal/filemem"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/proc"
)

// RegisterFile makes a region of n bytes of a file, from offset on, wherever the NIC is: the process maps them, and a daemon of its own maps them,
// too. What others PUT is in the file, and in every other mapping of it. The file may be closed then, and [Region.Close] takes the mapping
// away. With [ReadOnly] it is a mapping for reading, of which others may GET, and f need be open for reading only.
//
// A NIC in this program ([Open]), or a simulated one, takes any file that can be mapped. If it is made shorter, operations that need what is gone
// fail as those of [Process.Register] do with memory that is unmapped. A daemon serves others, too, and must neither lose memory nor wait for a
// disk: to it f has to be memory by memfd_create, in huge pages (MFD_HUGETLB) or in ordinary ones, that is sealed by F_SEAL_SHRINK. It counts
// in whole pages towards the quota region_bytes. [ErrNoMemory] says that this is used up, or that too few huge pages are free.
//
// [ErrBadArgument] says what is wrong with the file: that it cannot be mapped, is shorter than offset and n say, is not open for what the rights
// need, is sealed against writing, or may become shorter.
func (p *Process) RegisterFile(f *os.File, offset int64, n int, rights Rights) (*Region, error) {
	if rights > ReadOnly {
		return nil, badRights("register", rights)
	}
	fail := func(err error) (*Region, error) { return nil, &OpError{Op: "register", Err: err} }
	if n < 1 || n > limits.MaxRegion {
		return fail(fmt.Errorf("%w: %d bytes of a file; expected 1 to %d", ErrBadArgument, n, limits.MaxRegion))
	}
	raw, err := f.SyscallConn()
	if err != nil { // nil, or closed
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

// registerFile maps a part of a file, and makes a region of it.
func (p *Process) registerFile(fd int, offset int64, n int, rights Rights) (*Region, error) {
	m, err := filemem.Map(fd, offset, n, rights == ReadWrite)
	if err != nil {
		is := ErrBadArgument
		if errors.Is(err, syscall.ENOMEM) { // too few huge pages
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
