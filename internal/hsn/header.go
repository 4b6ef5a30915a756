package hsn

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// HeaderLen is the length of the HSN header, which ends each packet.
const HeaderLen = 16

// MaxHeader is the longest header of a module, in bytes.
const MaxHeader = 128

// HalfPage is the size of half a large page, in bytes. A page of twice this size travels in two
// packets (HSN-13).
const HalfPage = 4096

// MaxPage is the size of the largest page, in bytes.
const MaxPage = 2 * HalfPage

// MaxPacket is the length of the longest packet, in bytes. A page of MaxPage bytes with a header
// is longer (HSN-12).
const MaxPacket = 8192

// Header is the HSN header, which ends a packet (HSN-10).
//
//	 0  host      8  of the sender
//	 8  sequence  4  of the message among those of its host
//	12  data      2  bytes of data in this packet
//	14  module    1  the receiving module (HSN-3)
//	15  bits      1  bit 0: number of the fragment, 0 or 1; bit 1: the fragment is the last
type Header struct {
	Host     uint64
	Sequence uint32
	Data     int
	Module   ModuleID // the receiving module
	Fragment int
	Last     bool
}

// ModuleID is a module of a node. Each module sends to the other kind of module on another node.
type ModuleID uint8

const (
	Client  ModuleID = iota // requests pages
	Server                  // stores pages
	modules = 2
)

func (m ModuleID) other() ModuleID { return modules - 1 - m }

var errFormat = errors.New("hsn: malformed packet")

// put writes the header into b[:HeaderLen].
func (h *Header) put(b []byte) {
	_ = b[HeaderLen-1]
	binary.LittleEndian.PutUint64(b, h.Host)
	binary.LittleEndian.PutUint32(b[8:], h.Sequence)
	binary.LittleEndian.PutUint16(b[12:], uint16(h.Data))
	b[14], b[15] = byte(h.Module), byte(h.Fragment)
	if h.Last {
		b[15] |= 2
	}
}

// parse reads the header of a packet of n bytes.
func (h *Header) parse(b []byte, n int) error {
	*h = Header{
		Host:     binary.LittleEndian.Uint64(b),
		Sequence: binary.LittleEndian.Uint32(b[8:]),
		Data:     int(binary.LittleEndian.Uint16(b[12:])),
		Module:   ModuleID(b[14]), Fragment: int(b[15] & 1), Last: b[15]&2 != 0,
	}
	rest := n - HeaderLen - h.Data // length of the module's header
	switch {
	case h.Module >= modules:
		return fmt.Errorf("%w: module %d of %d", errFormat, h.Module, modules)
	case b[15] > 3 || h.Fragment == 1 && !h.Last:
		return fmt.Errorf("%w: fragment bits %#x", errFormat, b[15])
	case rest < 0 || rest > MaxHeader || !h.Last && rest != 0:
		return fmt.Errorf("%w: %d bytes with %d of data", errFormat, n, h.Data)
	case (!h.Last || h.Fragment == 1) && h.Data != HalfPage:
		return fmt.Errorf("%w: half a page of %d bytes", errFormat, h.Data)
	}
	return nil
}
