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
	text string  // unless sw is set
	sw   *Switch // nil: the text tells the link
}

// UDP returns a link by UDP that listens at an address of this host, such as "10.0.0.1:7000",
// "[fe80::1%eth0]:7000" or ":7000". It sends frames in batches if the system has segmentation
// offload. $WEFT_GSO=false turns that off.
func UDP(listen string) Link { return Link{text: listen} }

// XDP returns a link by AF_XDP, which bypasses the kernel's network stack. It listens at an address
// as [UDP] does, and NICs with a link by UDP can talk to it. It needs Linux and the privileges to
// load XDP programs. While it is open, many interfaces have no segmentation offload.
func XDP(listen string) Link { return Link{text: xdpPrefix + listen} }

// XDPGeneric returns a link as [XDP] does, by the kernel's emulation of XDP. It works on every
// interface, and is slower than UDP.
func XDPGeneric(listen string) Link { return Link{text: xdpGenericPrefix + listen} }

// SharedMemory returns a link that joins NICs inside programs of one host and one user. An empty
// name means a new name that no other link has.
func SharedMemory(name string) Link { return Link{text: shm.Prefix + name} }

// Switch joins NICs of one program by memory, without a network. It suits tests, and programs whose
// parts may later run on several hosts. [NewSwitch] makes one.
type Switch struct{ sw *mem.Switch }

// NewSwitch returns a switch without NICs.
func NewSwitch() *Switch { return &Switch{mem.NewSwitch(mem.Config{})} }

// Link returns a link to the switch. Any number of NICs can be opened with it.
func (s *Switch) Link() Link { return Link{sw: s} }

// ParseLink returns the link that a text describes, as flags and configuration files do:
// "10.0.0.1:7000", "xdp:10.0.0.1:7000", "xdp-generic:10.0.0.1:7000" or "shm:NAME". The empty text
// means the zero Link. ParseLink fails with [ErrBadArgument] if the text is malformed.
func ParseLink(text string) (Link, error) {
	l := Link{text: text}
	if text == "" || shm.IsName(text) {
		return l, nil
	}
	at, _, _ := l.network()
	_, err := udp.ParseAddr(at)
	if err != nil {
		err = argument(fmt.Errorf("weft: link: %w; %s", err, otherLinks))
	}
	return l, err
}

// otherLinks completes the error of an address that is malformed.
const otherLinks = `other links are "xdp:HOST:PORT", "xdp-generic:HOST:PORT" and "shm:NAME"`

// network splits the text of a link to other hosts.
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

// MarshalText returns the text that [ParseLink] reads. The link of a [Switch] exists only in this
// program: for it MarshalText fails with [ErrBadArgument].
func (l Link) MarshalText() ([]byte, error) {
	if l.sw != nil {
		return nil, argument(errors.New("weft: the link of a Switch has no text; it exists only in this program"))
	}
	return []byte(l.text), nil
}

// UnmarshalText reads the text as [ParseLink] does, with the same error.
func (l *Link) UnmarshalText(b []byte) (err error) {
	*l, err = ParseLink(string(b))
	return err
}

// The prefixes of links by AF_XDP. Only the text of a Link has them: such a NIC's address is an
// ordinary UDP address, because its frames are ordinary UDP datagrams.
const (
	xdpPrefix        = "xdp:"
	xdpGenericPrefix = "xdp-generic:"
)
