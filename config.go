package weft

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/capture"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/shm"
	"github.com/weftnet/weft/internal/link/udp"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/poller"
	"github.com/weftnet/weft/internal/registry"
)

// Config is how a NIC inside this process is made. The zero value but for Name is good for a first try: UDP on
// loopback, on a port of the system's choice.
type Config struct {
	// Name is the name of the process that Open makes. OpenNIC has no use for it.
	Name Name

	// Groups that the process is a member of from the start. Open waits until they have all their members.
	Groups []Membership

	// ID of the NIC, which no other NIC of the fabric has; 0 takes that of its key, or a random one
	// where the link has no keys. On a sealed link other NICs believe another ID only if their
	// configuration, or a certificate, binds it to the key. A program that comes back with the ID
	// that it had is known at once to have begun anew: its peers are told by [EventRestarted], and
	// its name is free for it.
	ID NICID `json:",omitzero"`

	// Key is a file with the NIC's static key, which proves its ID. It is made if it is not there.
	// Empty: the NIC draws a new key, and so has a new ID, each time it is opened.
	Key string

	// Fabric is a file with the key of the fabric. NICs with another one are strangers: they
	// exchange nothing. Empty: the file that $WEFT_FABRIC_FILE names, or the one in the user's
	// configuration directory, which is made at first use. See docs/security.md.
	Fabric string

	// Authorities are public keys of certificate authorities, as `weft fabric ca show` prints them,
	// or files with one key a line. If there are any, the NIC talks only to NICs with a certificate
	// of one of them, and needs one itself. Empty: holding the key of the fabric is enough.
	Authorities []string

	// Certificate is a file with the NIC's certificate, as `weft fabric ca sign` prints it for the
	// public half of Key. It says which names the processes of the NIC may have. Open fails if the
	// certificate is of another fabric, expired, not valid yet, or not for the NIC's ID and Key.
	Certificate string

	// PlainResident lets programs reside in the driver of a sealed AF_XDP link: datagrams for
	// programs go unsealed to NICs that say the same. Every host on the link can read these, and
	// forge them with some effort.
	PlainResident bool

	// Plain leaves frames unsealed. Every host on the link can then read and forge them. It is
	// for measurements, and for links that nobody else reaches; both ends must say so. A Switch is
	// plain in any case.
	Plain bool

	// Link is what carries the frames, and where the NIC listens: UDP("10.0.0.1:7000"), XDP(…), SharedMemory(…). The zero value is
	// UDP("127.0.0.1:0").
	Link Link

	// Nodes are NICs to know from the start. One is enough to join a fabric: NICs tell one another of the rest. One that is not there is
	// called again until it is.
	Nodes []Node

	// Position of the NIC on the torus of the fabric, if it is one.
	Position Position

	// Log, if set, is told at level Info how a link to other hosts works and why: with segmentation
	// offload or without, how much the socket buffers hold and which sysctl would have them hold
	// more, AF_XDP with no copy or one. It is told so before Open returns, and again when the link
	// changes. Those later calls come from goroutines of their own: several may run at once, in any
	// order, and after Close. Of a Capture it is told when the file is full or fails, when it holds
	// keys, and what is in it before Close returns. The message is "link" or "capture", and the
	// attribute "how" has a sentence.
	Log *slog.Logger `json:"-"`

	// UnreachableAfter is the silence after which a NIC that something is pending on is given up, 10 ms to 1 h; 0 is 2 s.
	UnreachableAfter time.Duration

	// Faults makes the link misbehave, for tests and demonstrations.
	Faults *Faults

	// Capture, if set, writes every frame that the NIC sends and gets to a file.
	Capture *Capture
}

// Position is where a NIC is on a torus of Width columns and Height rows (QNIX-52). The zero value is nowhere. What a group
// broadcasts and reduces follows the torus if the NICs of all members have a position on one of the same size.
type Position struct{ X, Y, Width, Height int }

func (p Position) nic() (nic.Position, error) {
	if p == (Position{}) {
		return nic.Position{}, nil
	}
	if min(p.Width, p.Height) < 1 || max(p.Width, p.Height) > limits.TorusSide || min(p.X, p.Y) < 0 || p.X >= p.Width || p.Y >= p.Height {
		return nic.Position{}, argument(fmt.Errorf("weft: Config.Position is %d,%d on a torus of %d by %d; expected sides of 1 to %d, and a place between them",
			p.X, p.Y, p.Width, p.Height, limits.TorusSide))
	}
	return nic.Position{X: uint16(p.X), Y: uint16(p.Y), Width: uint16(p.Width), Height: uint16(p.Height)}, nil
}

// Node is another NIC of the fabric: its address, and its id if that is known.
type Node struct {
	// ID is the id of the NIC. 0 accepts whichever NIC listens at Addr, also a later one.
	ID NICID

	// Addr is the address at which the NIC listens, as [NIC.Addr] returns it: an IP or a host name,
	// with or without a port. "10.0.0.2", "10.0.0.2:7700", "[fe80::1%eth0]:7700", "::1" and "host-2"
	// are addresses. A missing port is 7700, and port 0 is refused. A host name is looked up once,
	// within 5 seconds, and its IPv4 address preferred. "shm:NAME" is a NIC on a SharedMemory link.
	Addr string

	// Name is the name by which programs may address the NIC in AT. Empty means none.
	Name string

	// Key is the public key of the NIC, as `weft fabric key` prints it. It is needed if ID is set
	// and was not made from the key. Empty means that no key is known.
	Key string
}

// Faults are rates, 0…1 per frame that arrives, of what networks do to frames.
type Faults struct {
	Loss, Duplicate, Reorder, Corrupt float64
	Seed                              uint64 // 0 takes a random one
}

// Capture is a file with the frames of a NIC, in and out, that Wireshark opens (pcapng). It is made when the NIC is opened, in place of one that
// exists and that no other NIC is writing, and is whole when the NIC has been closed. Only its owner may read it. It never holds the NIC up:
// frames that come faster than they can be written are left out, and so is what is beyond the limit. The file's statistics count them, and
// Config.Log is told in the end.
type Capture struct {
	File  string // its path
	Limit int64  // bytes that it may have; 0 is 1 GiB
	Snap  int    // bytes of each frame that are written; 0 is all of them

	// Secrets writes the keys of sealed frames to the file, too. Whoever reads the file can then
	// read all frames in it: `weft capture decrypt` does so. Without it, the file has sealed frames
	// as they passed.
	Secrets bool
}

// driver makes the link that a configuration asks for, wrapped in what it asks for besides.
func (c *Config) driver() (d link.Driver, err error) {
	switch sw := c.Link.sw; {
	case sw != nil && sw.sw == nil:
		return nil, argument(errors.New("weft: Config.Link is of a Switch that NewSwitch has not made"))
	case sw != nil:
		d = sw.sw.Port()
	case shm.IsName(c.Link.text):
		if d, err = shm.Listen(shm.Config{Name: strings.TrimPrefix(c.Link.text, shm.Prefix)}); err != nil {
			return nil, fmt.Errorf("weft: %w", err)
		}
	default:
		if d, err = c.network(); err != nil {
			return nil, err
		}
	}
	if c.Faults != nil {
		f := fault.Config{Seed: c.Faults.Seed, Loss: c.Faults.Loss, Duplicate: c.Faults.Duplicate, Reorder: c.Faults.Reorder, Corrupt: c.Faults.Corrupt}
		if f.Seed == 0 {
			f.Seed = random()
		}
		if err := f.Check(); err != nil {
			return nil, errors.Join(argument(fmt.Errorf("weft: Config.Faults: %w", err)), d.Close())
		}
		d = fault.Wrap(d, f)
	}
	if c.Capture == nil {
		return d, nil
	}
	how := capture.Config{Limit: c.Capture.Limit, Snap: c.Capture.Snap, Secrets: c.Capture.Secrets, Log: c.tell("capture")}
	captured, err := capture.Open(d, c.Capture.File, poller.Now, how)
	if err != nil {
		if err = fmt.Errorf("weft: Config.Capture: %w", err); how.Check() != nil {
			err = argument(err)
		}
		return nil, errors.Join(err, d.Close())
	}
	return captured, nil
}

// network makes a link that reaches other hosts.
func (c *Config) network() (d link.Driver, err error) {
	listen, byXDP, generic := c.Link.network()
	if listen == "" && !byXDP {
		listen = "127.0.0.1:0"
	}
	addr, err := udp.ParseAddr(listen)
	if err != nil {
		return nil, argument(fmt.Errorf("weft: Config.Link: %w; other links are \"xdp:HOST:PORT\", \"xdp-generic:HOST:PORT\" and \"shm:NAME\"", err))
	}
	plain, err := udp.WithoutOffload()
	if err != nil {
		return nil, fmt.Errorf("weft: %w", err)
	}
	if byXDP { // by name only: an XDP program takes the interface's segmentation offload from all programs
		d, err = xdp.Listen(xdp.Config{Addr: addr, Generic: generic, NoOffload: plain, Log: c.later()})
	} else {
		d, err = udp.Listen(udp.Config{Addr: addr, NoOffload: plain, Log: c.later()})
	}
	if err != nil {
		return nil, fmt.Errorf("weft: %w", err)
	}
	if e, ok := d.(interface{ Explain() string }); ok && c.Log != nil {
		c.tell("link")(e.Explain())
	}
	return d, nil
}

// tell has the log take sentences on a matter; nil if there is no log.
func (c *Config) tell(what string) func(text string) {
	if c.Log == nil {
		return nil
	}
	return func(text string) { c.Log.Info(what, "how", text) }
}

// later is what a driver tells what it does in another way from now on. It does so from the engine's thread, which does not wait for a log.
func (c *Config) later() func(text string) {
	tell := c.tell("link")
	if tell == nil {
		return nil
	}
	return func(text string) { go tell(text) }
}

// address returns where a node listens. It looks a host name up, which may take seconds.
func (n Node) address() (netip.AddrPort, error) {
	if shm.IsName(n.Addr) {
		a, err := shm.Parse(n.Addr)
		if err != nil {
			err = argument(fmt.Errorf("weft: node: address %w", err))
		}
		return a, err
	}
	a, err := registry.Resolve(n.Addr, registry.DefaultPort)
	if err == nil && (a.Port() == 0 || a.Addr().IsUnspecified()) {
		err = fmt.Errorf("address %q: expected the address of one host, and a port from 1 to 65535, or none for %d",
			n.Addr, registry.DefaultPort)
	}
	if err != nil {
		return netip.AddrPort{}, argument(fmt.Errorf("weft: node: %w", err))
	}
	return a, nil
}

// random returns a number that cannot be guessed; it seeds engines, whose keys and cookies follow from it.
func random() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("weft: the system gives no random numbers: " + err.Error())
	}
	return binary.LittleEndian.Uint64(b[:])
}

// addrString is an address as Node.Addr would have it.
func addrString(a netip.AddrPort) string {
	if shm.Is(a) {
		return shm.String(a)
	}
	return a.String()
}
