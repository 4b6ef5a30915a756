package weft

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/link/shm"
	"github.com/weftnet/weft/internal/link/udp"
)

// Link says what carries a NIC's frames, and where the NIC listens. [UDP], [XDP], [XDPGeneric],
// [SharedMemory] and [Switch.Link] make one, and [ParseLink] reads one. The zero value is UDP on
// loopback, on a port that the system chooses.
type Link struct {
	text string
	sw   *Switch // the others are made by text
}

// UDP returns a link at an address of this host: "10.0.0.1:7000", "[fe80::1%eth0]:7000", ":7000".
// Frames travel in batches if the system's segmentation offload works, unless $WEFT_GSO is false.
func UDP(listen string) Link { return Link{text: listen} }

// XDP returns a link at such an address by AF_XDP, which bypasses the kernel's network stack. It is
// for Linux, and needs the privileges to load XDP programs. Many interfaces lose their segmentation
// offload while it is open. A NIC with this link and one with UDP understand each other.
func XDP(listen string) Link { return Link{text: xdpPrefix + listen} }

// XDPGeneric is XDP by the kernel's emulation, which is slower than UDP and works on every interface.
func XDPGeneric(listen string) Link { return Link{text: xdpGenericPrefix + listen} }

// SharedMemory returns a link that joins NICs embedded in processes of the same host and user. An
// empty name means a name that no other link has.
func SharedMemory(name string) Link { return Link{text: shm.Prefix + name} }

// Switch joins NICs of one program by memory, without a network. It is for tests, and for programs
// whose parts may later run on several hosts. [NewSwitch] makes one.
type Switch struct{ sw *mem.Switch }

// NewSwitch returns a switch without NICs.
func NewSwitch() *Switch { return &Switch{mem.NewSwitch(mem.Config{})} }

// Link returns a link to the switch. Each NIC that is opened with it gets a port of its own.
func (s *Switch) Link() Link { return Link{sw: s} }

// ParseLink reads the text of flags and files: "10.0.0.1:7000", "xdp:10.0.0.1:7000",
// "xdp-generic:10.0.0.1:7000", "shm:NAME". The empty text is the zero Link. It fails with
// [ErrBadArgument].
func ParseLink(text string) (Link, error) {
	l := Link{text: text}
	if text == "" || shm.IsName(text) {
		return l, nil
	}
	at, _, _ := l.network()
	_, err := udp.ParseAddr(at)
	if err != nil {
		err = argument(fmt.Errorf("weft: link: %w; other links are \"xdp:HOST:PORT\", \"xdp-generic:HOST:PORT\" and \"shm:NAME\"", err))
	}
	return l, err
}

// network splits the text of a link that reaches other hosts.
func (l Link) network() (listen string, byXDP, generic bool) {
	listen, byXDP = strings.CutPrefix(l.text, xdpPrefix)
	if listen, generic = strings.CutPrefix(listen, xdpGenericPrefix); generic {
		byXDP = true
	}
	return listen, byXDP, generic
}

// String returns the text that [ParseLink] reads, or "switch" for the link of a Switch.
func (l Link) String() string {
	if l.sw != nil {
		return "switch"
	}
	return l.text
}

// MarshalText returns the text that [ParseLink] reads. It fails with [ErrBadArgument] for the link of a
// Switch, which exists only in this program.
func (l Link) MarshalText() ([]byte, error) {
	if l.sw != nil {
		return nil, argument(errors.New("weft: the link of a Switch has no text; it exists only in this program"))
	}
	return []byte(l.text), nil
}

// UnmarshalText is [ParseLink].
func (l *Link) UnmarshalText(b []byte) (err error) {
	*l, err = ParseLink(string(b))
	return err
}

// xdpPrefix asks for AF_XDP. Frames look the same on the wire, so that the address of such a NIC is that of any other.
const (
	xdpPrefix        = "xdp:"
	xdpGenericPrefix = "xdp-generic:"
)
