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

// Config configures a NIC inside this process. Only Name must be set: with the zero value of every
// other field the NIC uses UDP on loopback, on a port that the system chooses.
type Config struct {
	// Name is the name of the process that [Open] makes. [OpenNIC] ignores it.
	Name Name

	// Groups lists the groups that the process joins at its start. Open waits until each of them has
	// all its members. [OpenNIC] ignores it.
	Groups []Membership

	// ID is the id of the NIC, which no other NIC of the fabric may have. 0 means the id that follows
	// from Key, or a random one if the link has no keys. On a sealed link other NICs accept a
	// different ID only if their configuration or a certificate binds it to the key.
	//
	// If a program restarts with the same ID, its peers notice at once: they get an [EventRestarted],
	// and the program can have its name again.
	ID NICID `json:",omitzero"`

	// Key is the path of a file with the NIC's static key, which proves its ID. If there is no file,
	// Open makes one. Empty means a new key, and so a new ID, each time the NIC is opened.
	Key string

	// Fabric is the path of a file with the fabric key. NICs with different fabric keys exchange
	// nothing. Empty means the file that $WEFT_FABRIC_FILE names. If that is not set, it means
	// /var/lib/weft/fabric.key for root, and weft/fabric.key in the configuration directory of any
	// other user. Open makes that file at first use. If it cannot, it draws a key for this process
	// alone, and logs so. See docs/security.md.
	Fabric string

	// Authorities are the public keys of certificate authorities, as `weft fabric ca show` prints
	// them, or paths of files with one key a line. If there are any, the NIC talks only to NICs with
	// a certificate of one of them, and needs a certificate itself. Empty means that other NICs need
	// only the fabric key.
	Authorities []string

	// Certificate is the path of a file with the NIC's certificate, as `weft fabric ca sign` prints
	// it for the public half of Key. It says which names the processes of the NIC may have. Open
	// fails if the certificate belongs to another fabric, has expired, is not valid yet, or was not
	// signed for the NIC's ID and Key. Empty means none.
	Certificate string

	// PlainResident permits programs to run in the driver of a sealed AF_XDP link. Datagrams for
	// programs then travel unsealed to NICs that also set it. Every host on the link can read these
	// datagrams, and can forge them with some effort.
	PlainResident bool

	// Plain leaves frames unsealed, so that every host on the link can read and forge them. It suits
	// measurements, and links that no other host reaches. Both ends must set it. Frames of a
	// [Switch] are never sealed.
	Plain bool

	// Link carries the frames, and says where the NIC listens: UDP("10.0.0.1:7000"), XDP(…),
	// SharedMemory(…). The zero value is UDP("127.0.0.1:0").
	Link Link

	// Nodes are the NICs that this one knows at its start. One is enough to join a fabric, because
	// NICs tell one another of the rest. The NIC retries a node that does not answer until it does.
	Nodes []Node

	// Position is the NIC's place on the torus of the fabric, if the fabric is a torus.
	Position Position

	// Log gets records whose attribute "how" holds a sentence, at level Info. nil means no log. The
	// message tells what a record is about:
	//
	//   - "link" is how a link to other hosts works, and why: with or without segmentation offload,
	//     how much the socket buffers hold and which sysctl would enlarge them, and whether AF_XDP
	//     copies frames. It comes before Open returns, and again when the link changes.
	//   - "fabric" is that Open could not keep a fabric key in a file.
	//   - "capture" is that the file of Capture is full, has failed or holds keys, and, before Close
	//     returns, what the file contains.
	//
	// Records of a change of the link come from goroutines of their own: several may come at once,
	// in any order, and after Close. A record at level Warn tells of a [SharedSegment] that programs
	// in the driver of the link cannot reach.
	Log *slog.Logger `json:"-"`

	// UnreachableAfter is how long another NIC may be silent while an operation with it is in flight.
	// After that it counts as unreachable. 10 ms to 1 h; 0 means 2 s.
	UnreachableAfter time.Duration

	// Faults makes the link lose and damage frames, for tests and demonstrations. nil means none.
	Faults *Faults

	// Capture writes every frame that the NIC sends and receives to a file. nil means no file.
	Capture *Capture
}

// Position is the place of a NIC on a torus. The zero value means that the NIC has none. The
// broadcasts and reductions of a [Group] follow the torus if the NICs of all its members have a
// position on a torus of the same size.
type Position struct {
	X, Y          int // column and row, from 0
	Width, Height int // number of columns and rows of the torus, 1 to 4096 each
}

// nic returns the position as the engine knows it. It fails with ErrBadArgument.
func (p Position) nic() (nic.Position, error) {
	if p == (Position{}) {
		return nic.Position{}, nil
	}
	sides := min(p.Width, p.Height) >= 1 && max(p.Width, p.Height) <= limits.TorusSide
	if !sides || min(p.X, p.Y) < 0 || p.X >= p.Width || p.Y >= p.Height {
		return nic.Position{}, argument(fmt.Errorf(
			"weft: Config.Position is %d,%d on a torus of %d by %d; expected sides of 1 to %d, and a place on it",
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

// Faults are probabilities, 0 to 1, of what happens to each frame that arrives at a NIC.
type Faults struct {
	Loss      float64 // the frame is lost
	Duplicate float64 // the frame arrives twice
	Reorder   float64 // later frames overtake the frame
	Corrupt   float64 // some bits of the frame are flipped

	Seed uint64 // of the random choices; 0 means a random seed
}

// Capture describes a file of the frames that a NIC sends and receives. Wireshark opens it
// (pcapng).
//
// The NIC makes the file when it is opened, and replaces an existing one unless another NIC is
// writing it. Only the file's owner may read it. It is complete when the NIC is closed. A capture
// never delays the NIC: it omits frames that come faster than it can write them, and frames beyond
// Limit. The file's statistics count them, and Config.Log gets the numbers at the end.
type Capture struct {
	File  string // path of the file
	Limit int64  // largest size of the file in bytes, at least 4096; 0 means 1 GiB
	Snap  int    // bytes written of each frame, at most 65536; 0 means all

	// Secrets also writes the keys of sealed frames to the file. A reader of the file can then read
	// all its frames, by `weft capture decrypt`. Without Secrets the frames stay sealed.
	Secrets bool
}

// driver makes the link of a configuration, and wraps it in its Faults and its Capture.
func (c *Config) driver() (d link.Driver, err error) {
	switch sw := c.Link.sw; {
	case sw != nil && sw.sw == nil:
		return nil, argument(errors.New("weft: Config.Link is the link of a zero Switch; expected one of NewSwitch"))
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
		f := c.Faults.config()
		if err := f.Check(); err != nil {
			return nil, errors.Join(argument(fmt.Errorf("weft: Config.Faults: %w", err)), d.Close())
		}
		d = fault.Wrap(d, f)
	}
	if c.Capture == nil {
		return d, nil
	}
	return c.captured(d)
}

// config returns the faults as the wrapper knows them.
func (f *Faults) config() fault.Config {
	c := fault.Config{Seed: f.Seed, Loss: f.Loss, Duplicate: f.Duplicate, Reorder: f.Reorder, Corrupt: f.Corrupt}
	if c.Seed == 0 {
		c.Seed = random()
	}
	return c
}

// captured wraps a link in a capture.
func (c *Config) captured(d link.Driver) (link.Driver, error) {
	how := capture.Config{
		Limit: c.Capture.Limit, Snap: c.Capture.Snap, Secrets: c.Capture.Secrets, Log: c.tell("capture"),
	}
	captured, err := capture.Open(d, c.Capture.File, poller.Now, how)
	if err != nil {
		if err = fmt.Errorf("weft: Config.Capture: %w", err); how.Check() != nil {
			err = argument(err)
		}
		return nil, errors.Join(err, d.Close())
	}
	return captured, nil
}

// network makes a link to other hosts.
func (c *Config) network() (d link.Driver, err error) {
	listen, byXDP, generic := c.Link.network()
	if listen == "" && !byXDP {
		listen = "127.0.0.1:0"
	}
	addr, err := udp.ParseAddr(listen)
	if err != nil {
		return nil, argument(fmt.Errorf("weft: Config.Link: %w; %s", err, otherLinks))
	}
	plain, err := udp.WithoutOffload()
	if err != nil {
		return nil, fmt.Errorf("weft: %w", err)
	}
	if byXDP { // never by default: an XDP program disables the interface's segmentation offload for all programs
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

// tell returns a function that logs sentences under a message, or nil if there is no log.
func (c *Config) tell(what string) func(text string) {
	if c.Log == nil {
		return nil
	}
	return func(text string) { c.Log.Info(what, "how", text) }
}

// later returns the callback by which a driver reports a change of mode, or nil if there is no log.
// The driver calls it while the engine runs, which must not wait for a log.
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

// random returns a number that cannot be guessed.
func random() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("weft: the system gives no random numbers: " + err.Error())
	}
	return binary.LittleEndian.Uint64(b[:])
}

// addrString returns the text of an address in the form of Node.Addr.
func addrString(a netip.AddrPort) string {
	if shm.Is(a) {
		return shm.String(a)
	}
	return a.String()
}
