package capture

import (
	"io"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

// writer turns recorded frames into packets of a pcapng file.
type writer struct {
	to      io.Writer
	ng      *pcapgo.NgWriter
	base    time.Time
	packet  gopacket.SerializeBuffer
	written uint64
	lost    atomic.Uint64 // recorded frames that were not written because of err
	last    time.Time     // of the last frame
	err     error         // the first one; nothing is written afterwards
}

func newWriter(to io.Writer, cfg Config) (*writer, error) {
	in, options := pcapgo.DefaultNgInterface, pcapgo.DefaultNgWriterOptions
	in.Name, in.LinkType = cfg.Name, layers.LinkTypeRaw
	options.SectionInfo.Application = "weft"
	ng, err := pcapgo.NewNgWriterInterface(to, in, options)
	if err == nil {
		err = ng.Flush()
	}
	return &writer{to: to, ng: ng, base: cfg.Base, packet: gopacket.NewSerializeBuffer(), last: cfg.Base}, err
}

// write writes a chunk's frames and empties it.
func (w *writer) write(c *chunk) {
	for i := range c.frames {
		f := &c.frames[i]
		if w.err == nil {
			w.err = w.writeFrame(f, c.bytes[f.off:f.off+f.len])
		}
		if w.err != nil {
			w.lost.Add(1)
		}
	}
	if w.err == nil {
		w.err = w.ng.Flush()
	}
	c.bytes, c.frames = c.bytes[:0], c.frames[:0]
}

var (
	inbound  = pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}
	outbound = pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionOutbound}
)

// longest is how much of a frame fits an IP packet of either version behind the headers.
const longest = 65535 - 40 - 8

func (w *writer) writeFrame(f *frame, b []byte) error {
	cut := b[:min(len(b), longest)]
	if err := w.addHeaders(f.from, f.to, cut); err != nil {
		return err
	}
	data := w.packet.Bytes()
	w.last = w.time(f.at)
	info := gopacket.CaptureInfo{
		Timestamp:     w.last,
		CaptureLength: len(data),
		Length:        len(data) + len(b) - len(cut),
	}
	flags := &inbound
	if f.outbound {
		flags = &outbound
	}
	w.written++
	return w.ng.WritePacketWithOptions(info, data, pcapgo.NgPacketOptions{Flags: flags})
}

func (w *writer) time(t clock.Time) time.Time { return w.base.Add(time.Duration(t)) }

// addHeaders makes packet the frame with IP and UDP headers. Both are of one version: IPv4 if one address is, and the
// other one is or says nothing.
func (w *writer) addHeaders(from, to link.Addr, b []byte) error {
	udp := layers.UDP{SrcPort: layers.UDPPort(from.Port()), DstPort: layers.UDPPort(to.Port())}
	src, dst := from.Addr().Unmap(), to.Addr().Unmap()
	var ip gopacket.SerializableLayer
	if four(src, dst) {
		v4 := &layers.IPv4{Version: 4, TTL: 64, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolUDP,
			SrcIP: as4(src), DstIP: as4(dst)}
		ip = v4
		_ = udp.SetNetworkLayerForChecksum(v4) // fails for what is no network layer only
	} else {
		v6 := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP,
			SrcIP: as16(src), DstIP: as16(dst)}
		ip = v6
		_ = udp.SetNetworkLayerForChecksum(v6)
	}
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	return gopacket.SerializeLayers(w.packet, options, ip, &udp, gopacket.Payload(b))
}

func four(a, b netip.Addr) bool {
	return a.Is4() && b.Is4() || a.Is4() && !says(b) || b.Is4() && !says(a)
}

// says reports whether an address names a host.
func says(a netip.Addr) bool { return a.IsValid() && !a.IsUnspecified() }

func as4(a netip.Addr) []byte {
	if !a.Is4() {
		return make([]byte, 4)
	}
	b := a.As4()
	return b[:]
}

func as16(a netip.Addr) []byte {
	b := a.As16()
	return b[:]
}

// finish ends the file and returns the first error of all.
func (w *writer) finish(missed uint64) error {
	if w.err == nil {
		w.err = w.ng.WriteInterfaceStats(0, pcapgo.NgInterfaceStatistics{
			LastUpdate:      w.last,
			PacketsReceived: w.written + missed,
			PacketsDropped:  missed,
		})
	}
	if w.err == nil {
		w.err = w.ng.Flush()
	}
	if c, ok := w.to.(io.Closer); ok {
		if err := c.Close(); w.err == nil {
			w.err = err
		}
	}
	return w.err
}
