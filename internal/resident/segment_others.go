//go:build !linux

package resident

import "github.com/weftnet/weft/pdl/ebpf"

// A Segment is memory that programs in the driver reach, and that processes can map.
type Segment struct {
	Fd    int
	Bytes []byte
	Hide  func() error
	Close func() error
}

// AddSegment fails with ebpf.ErrUnavailable: it needs a driver.
func (p *Programs) AddSegment(uint32, int) (*Segment, error) { return nil, ebpf.ErrUnavailable }
