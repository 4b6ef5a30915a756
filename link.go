package weft

import (
	"fmt"
	"strings"

	"github.com/weftnet/weft/internal/link/shm"
	"github.com/weftnet/weft/internal/link/udp"
)

// A Link is what carries a NIC's frames, and where it listens. UDP, XDP, XDPGeneric and SharedMemory make one, and ParseLink reads one. The
// zero value is UDP on loopback, on a port of the system's choice.
type Link struct{ text string }

// UDP is a link at an address of this host: "10.0.0.1:7000", "[fe80::1%eth0]:7000", ":7000". Frames leave and come in batches where the
// system's segmentation offload works, unless $WEFT_GSO is false.
func UDP(listen string) Link { return Link{listen} }

// XDP is a link at such an address by AF_XDP, which passes by the kernel's network stack and needs privileges. A NIC with this link and one
// with UDP understand each other.
func XDP(listen string) Link { return Link{xdpPrefix + listen} }

// XDPGeneric is XDP by the kernel's emulation of it, which is slower than UDP and works on every interface.
func XDPGeneric(listen string) Link { return Link{xdpGenericPrefix + listen} }

// SharedMemory joins NICs of the same host and user that are embedded in processes. An empty name takes a name of its own.
func SharedMemory(name string) Link { return Link{shm.Prefix + name} }

// ParseLink reads what flags and files say: "10.0.0.1:7000", "xdp:10.0.0.1:7000", "xdp-generic:10.0.0.1:7000", "shm:NAME". Empty is the zero Link.
func ParseLink(text string) (Link, error) {
	l := Link{text}
	if text == "" || shm.IsName(text) {
		return l, nil
	}
	at, _, _ := l.network()
	_, err := udp.ParseAddr(at)
	if err != nil {
		err = fmt.Errorf("weft: link: %w; other links are \"xdp:HOST:PORT\", \"xdp-generic:HOST:PORT\" and \"shm:NAME\"", err)
	}
	return l, err
}

// network takes a link that reaches other hosts apart.
func (l Link) network() (listen string, byXDP, generic bool) {
	listen, byXDP = strings.CutPrefix(l.text, xdpPrefix)
	if listen, generic = strings.CutPrefix(listen, xdpGenericPrefix); generic {
		byXDP = true
	}
	return listen, byXDP, generic
}

// String is what ParseLink reads.
func (l Link) String() string { return l.text }

// MarshalText writes what ParseLink reads.
func (l Link) MarshalText() ([]byte, error) { return []byte(l.text), nil }

// UnmarshalText is ParseLink.
func (l *Link) UnmarshalText(b []byte) (err error) {
	*l, err = ParseLink(string(b))
	return err
}

// xdpPrefix asks for AF_XDP. Frames look the same on the wire, so that the address of such a NIC is that of any other.
const (
	xdpPrefix        = "xdp:"
	xdpGenericPrefix = "xdp-generic:"
)
