package resident

import (
	"errors"
	"fmt"
	"sync"

	cilium "github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/pdl/ebpf"
)

// A Segment is memory that programs in the driver reach, and that processes can map.
type Segment struct {
	Fd    int    // descriptor that processes map
	Bytes []byte // the data, the locks and flags after it, and the rest of the page
	// Hide removes the segment from programs in the driver, and frees its number. Close does so,
	// too.
	Hide  func() error
	Close func() error
}

// mmapable is BPF_F_MMAPABLE.
const mmapable = 1 << 10

// AddSegment makes a segment with bytes bytes of data. Programs find it by its number, also those
// in the driver already. The caller must not own the engine, neither here nor when it closes the
// segment.
func (p *Programs) AddSegment(id uint32, bytes int) (s *Segment, err error) {
	if bytes > ebpf.MostSegment {
		return nil, fmt.Errorf("segment %d in the driver: %d bytes; at most %d", id, bytes, ebpf.MostSegment)
	}
	total := bytes + program.SegmentTail
	m, err := cilium.NewMap(&cilium.MapSpec{Name: "weft_segment", Type: cilium.Array, KeySize: 4,
		ValueSize: uint32(total), MaxEntries: 1, Flags: mmapable})
	if err != nil {
		return nil, fmt.Errorf("segment %d in the driver: %w", id, err)
	}
	page := unix.Getpagesize()
	mem, err := unix.Mmap(m.FD(), 0, (total+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mapping segment %d of the driver: %w", id, err), m.Close())
	}
	hide := sync.OnceValue(func() error { return p.setSegment(id, nil) })
	s = &Segment{Fd: m.FD(), Bytes: mem, Hide: hide, Close: func() error {
		return errors.Join(hide(), unix.Munmap(mem), m.Close())
	}}
	if err := p.setSegment(id, &ebpf.Segment{Map: m, Bytes: bytes, Words: limits.SegmentWords}); err != nil {
		return nil, errors.Join(fmt.Errorf("segment %d in the driver: %w", id, err), unix.Munmap(mem), m.Close())
	}
	return s, nil
}
