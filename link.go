package weft

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/link/shm"
	"github.com/weftnet/weft/internal/link/udp"
)

// Link describes the link that carries a NIC's frames, and the address at which the NIC listens.
// [UDP], [XDP], [XDPGeneric], [SharedMemory] and [Switch.Link] make a Link, and [ParseLink] parses
// the text form of a Link. The zero value is UDP on loopback, on a port that the system chooses.
type Link struct {
	text string  // empty if sw is set
	sw   *Switch // nil: text describes the link
}

// UDP returns a UDP link that listens at an address of this host, such as "10.0.0.1:7000",
// "[fe80::1%eth0]:7000" or ":7000". If the system has segmentation offload, the link sends frames
// in batches. $WEFT_GSO=false disables segmentation offload.
func UDP(listen string) Link { return Link{text: listen} }

// XDP returns an AF_XDP link, which bypasses the kernel's network stack. The argument listen has
// the same form as for [UDP]. A NIC with a UDP link and a NIC with an AF_XDP link can communicate.
// An AF_XDP link needs Linux and the privileges to load XDP programs. While the link is open, many
// interfaces have no segmentation offload.
func XDP(listen string) Link { return Link{text: xdpPrefix + listen} }

// XDPGeneric is like [XDP], but it uses the kernel's emulation of XDP. Such a link works on every
// interface, but is slower than UDP.
func XDPGeneric(listen string) Link { return Link{text: xdpGenericPrefix + listen} }

// SharedMemory returns a link that connects NICs inside programs of one user on one host. Each NIC
// has a link with its own name. A NIC finds another NIC if [Config.Nodes] has the address
// "shm:NAME", where NAME is the name of the other NIC's link. If name is empty, the link gets a new
// name that no other link has.
func SharedMemory(name string) Link { return Link{text: shm.Prefix + name} }

// Switch connects NICs of one program through memory, without a network. It suits tests, and
// programs whose parts may later run on several hosts. [NewSwitch] makes a Switch.
type Switch struct{ sw *mem.Switch }

// NewSwitch returns a switch that connects no NICs yet.
func NewSwitch() *Switch { return &Switch{mem.NewSwitch(mem.Config{})} }

// Link returns a link to the switch. A NIC that is opened with this link knows the NICs that are
// already on the switch, and those NICs get to know the new NIC. So [Config.Nodes] can stay empty.
func (s *Switch) Link() Link {
	if s == nil {
		s = new(Switch) // NewSwitch did not make it; OpenNIC returns the error
	}
	return Link{sw: s}
}

// linkKind describes a kind of link, and the addresses of such a link.
type linkKind struct{ link, address string }

// kindOf returns the kind of link to which an address belongs. A frame to an address of another
// kind would go to an invented host.
func kindOf(a netip.AddrPort) linkKind {
	switch {
	case shm.Is(a):
		return linkKind{"a link of shared memory", "one of shared memory, such as shm:NAME"}
	case mem.Is(a):
		return linkKind{"a link of a Switch", "one of a Switch"}
	}
	return linkKind{"a link of UDP or XDP", "one of a host, such as 10.0.0.1:7000"}
}

// others returns the addresses of the NICs on the switch, except own.
func (s *Switch) others(own netip.AddrPort) []netip.AddrPort {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(s.sw.Addresses(), func(a netip.AddrPort) bool { return a == own })
}

// ParseLink parses the text form of a link, for example from a flag or a configuration file. The
// forms are "10.0.0.1:7000", "xdp:10.0.0.1:7000", "xdp-generic:10.0.0.1:7000" or "shm:NAME". The
// empty text means the zero Link. ParseLink fails with [ErrBadArgument] if the text is malformed.
func ParseLink(text string) (Link, error) {
	l := Link{text: text}
	if text == "" || shm.IsName(text) {
		return l, nil
	}
	at, _, _ := l.network()
	_, err := udp.ParseAddr(at)
	if err != nil {
		return Link{}, argument(fmt.Errorf("weft: link: %w; %s", err, otherLinks))
	}
	return l, nil
}

// otherLinks is the end of the error for a malformed address.
const otherLinks = `other links are "xdp:HOST:PORT", "xdp-generic:HOST:PORT" and "shm:NAME"`

// network parses the text of a link to other hosts.
func (l Link) network() (listen string, byXDP, generic bool) {
	listen, byXDP = strings.CutPrefix(l.text, xdpPrefix)
	if listen, generic = strings.CutPrefix(listen, xdpGenericPrefix); generic {
		byXDP = true
	}
	return listen, byXDP, generic
}

// String returns the text that [ParseLink] parses, or "switch" for the link of a Switch.
func (l Link) String() string {
	if l.sw != nil {
		return "switch"
	}
	return l.text
}

// MarshalText returns the text that [ParseLink] parses. For the link of a [Switch], MarshalText
// fails with [ErrBadArgument], because this link exists only in this program.
func (l Link) MarshalText() ([]byte, error) {
	if l.sw != nil {
		return nil, argument(errors.New("weft: the link of a Switch has no text; it exists only in this program"))
	}
	return []byte(l.text), nil
}

// UnmarshalText parses the text in the same way as [ParseLink]. It fails with [ErrBadArgument] if
// the text is malformed.
func (l *Link) UnmarshalText(b []byte) (err error) {
	*l, err = ParseLink(string(b))
	return err
}

// The prefixes of AF_XDP links. Only the text of a Link has a prefix. The address of a NIC with
// such a link is an ordinary UDP address, because its frames are ordinary UDP datagrams.
const (
	xdpPrefix        = "xdp:"
	xdpGenericPrefix = "xdp-generic:"
)
