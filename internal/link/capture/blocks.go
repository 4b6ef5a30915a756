package capture

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/weftnet/weft/internal/limits"
)

// errTorn means that a file ends within a block, for example because its NIC still runs or was
// killed.
var errTorn = errors.New("capture: the file ends within a block")

// blocks reads the blocks of an arbitrary file.
type blocks struct {
	r   *bufio.Reader
	at  int64 // offset of the next block
	buf []byte
}

func readBlocks(r io.Reader) *blocks { return &blocks{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns the kind and all bytes of the next block. The bytes are valid until the next
// call. The error is io.EOF after the last block, and errTorn within a block.
func (b *blocks) next() (kind uint32, block []byte, err error) {
	head, err := b.r.Peek(12)
	switch {
	case err == io.EOF && len(head) == 0:
		return 0, nil, io.EOF
	case err == io.EOF && b.at == 0:
		return 0, nil, errors.New("not a capture: it has less than 12 bytes; expected a pcapng file")
	case err == io.EOF:
		return 0, nil, errTorn
	case err != nil:
		return 0, nil, err
	}
	kind = le.Uint32(head)
	if err := b.check(kind, le.Uint32(head[8:])); err != nil {
		return 0, nil, err
	}
	n := le.Uint32(head[4:])
	if n < 12 || n%4 != 0 || n > limits.CaptureBlock {
		return 0, nil, fmt.Errorf("the block at byte %d has %d bytes; expected 12 to %d, in words of 4",
			b.at, n, limits.CaptureBlock)
	}
	if cap(b.buf) < int(n) {
		b.buf = make([]byte, n)
	}
	block = b.buf[:n]
	switch _, err := io.ReadFull(b.r, block); {
	case err == io.ErrUnexpectedEOF:
		return 0, nil, errTorn
	case err != nil:
		return 0, nil, err
	}
	if again := le.Uint32(block[n-4:]); again != n {
		return 0, nil, fmt.Errorf("the block at byte %d has a length of %d at its beginning and of %d at its end",
			b.at, n, again)
	}
	b.at += int64(n)
	return kind, block, nil
}

// check returns an error if the kind of the next block, or the word after its length, is wrong.
func (b *blocks) check(kind, word uint32) error {
	switch {
	case kind != blockSection && b.at == 0:
		return fmt.Errorf("not a capture: it begins with %#08x; expected a pcapng file, which begins with %#08x",
			kind, uint32(blockSection))
	case kind == blockSection && word == bigEndian:
		return errors.New("the file has big-endian words; expected a little-endian file, as Weft writes it")
	case kind == blockSection && word != byteOrder:
		return fmt.Errorf("the section at byte %d has the byte order %#08x; expected %#08x",
			b.at, word, uint32(byteOrder))
	}
	return nil
}

// packet holds the parts of a packet's block.
type packet struct {
	nic     uint32
	data    []byte // the part of the packet that the file holds
	length  uint32 // of the whole packet, in bytes
	head    []byte // of the block: all bytes before the data
	options []byte
	way     uint32 // direction: flagInbound, flagOutward or 0
}

// parsePacket splits the block of a packet into its parts.
func parsePacket(block []byte) (p packet, ok bool) {
	const head = 28
	if len(block) < head+4 {
		return p, false
	}
	kept, room := le.Uint32(block[20:]), len(block)-head-4
	if int64(kept) > int64(room) || padded(int(kept)) > room {
		return p, false
	}
	p = packet{nic: le.Uint32(block[8:]), length: le.Uint32(block[24:]), head: block[:head]}
	p.data, p.options = block[head:head+int(kept)], block[head+padded(int(kept)):len(block)-4]
	for o := p.options; len(o) >= 4; {
		code, n := le.Uint16(o), int(le.Uint16(o[2:]))
		if code == 0 || padded(n) > len(o)-4 {
			break
		}
		if code == optionFlags && n == 4 {
			p.way = le.Uint32(o[4:]) & (flagInbound | flagOutward)
		}
		o = o[4+padded(n):]
	}
	return p, true
}

// appendChanged appends the packet's block with other data of the same length, and with a
// comment.
func (p *packet) appendChanged(b, data []byte, comment string) []byte {
	at := len(b)
	b = pad(append(append(b, p.head...), data...))
	b = append(option(b, optionComment, comment), p.options...)
	if len(p.options) == 0 {
		b = endOptions(b)
	}
	return end(b, at)
}

// datagram finds the UDP payload of a packet that begins with its IP header. The payload is
// packet[at:end].
func datagram(packet []byte) (at, end int, ok bool) {
	if len(packet) < ipv4Len {
		return 0, 0, false
	}
	switch packet[0] >> 4 {
	case 4:
		at = int(packet[0]&0x0f) * 4
		fragment := be.Uint16(packet[6:])&0x3fff != 0
		ok = at >= ipv4Len && packet[9] == protoUDP && !fragment
	case 6:
		at = ipv6Len
		ok = packet[6] == protoUDP
	}
	if at += udpLen; !ok || len(packet) < at {
		return 0, 0, false
	}
	end = at - udpLen + int(be.Uint16(packet[at-4:]))
	return at, end, end >= at && end <= len(packet)
}

// mendSum recomputes the UDP checksum of a changed packet, if it has one. Its payload is
// packet[at:end].
func mendSum(packet []byte, at, end int) {
	udp := packet[at-udpLen : at]
	if be.Uint16(udp[6:]) == 0 {
		return
	}
	addresses := packet[8:ipv6Len]
	if packet[0]>>4 == 4 {
		addresses = packet[12:ipv4Len]
	}
	be.PutUint16(udp[6:], 0)
	be.PutUint16(udp[6:], udpSum(addresses, udp, packet[at:end]))
}
