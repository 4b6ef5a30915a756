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
	"github.com/weftnet/weft/internal/trust"
)

// Config configures a NIC inside this process. Only Name is required, and not even Name if a
// launcher started the program. If every other field is zero, the NIC uses UDP on loopback, on a
// port that the system chooses.
type Config struct {
	// Name is the name of the process that [Open] attaches. [OpenNIC] ignores Name.
	//
	// If Name is empty, the environment gives the name. The application is the name of the job, and
	// the index is the rank. Open reads the variables of these launchers, in this order:
	//
	//   - weft run: WEFT_NAME, WEFT_RANK, WEFT_SIZE
	//   - launchers with PMI-1, such as mpiexec.hydra of MPICH: PMI_RANK, PMI_SIZE, PMI_FD or
	//     PMI_PORT
	//   - Open MPI and PRRTE: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, PMIX_NAMESPACE
	//   - srun of Slurm: SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_JOB_ID, SLURM_STEP_ID
	//   - an Indexed Job or a JobSet of Kubernetes: JOB_COMPLETION_INDEX and JOBSET_NAME. The
	//     manifest also sets WEFT_SIZE to the number of ranks.
	//   - a LeaderWorkerSet of Kubernetes: LWS_WORKER_INDEX, LWS_GROUP_SIZE, LWS_LEADER_ADDRESS
	//
	// If the launcher restarts the job, the restart number becomes part of the application. The
	// variable WEFT_RESTART sets this number for launchers that do not count restarts.
	Name Name

	// Groups lists the groups that the process joins when it starts. Open waits until each of these
	// groups has all its members. [OpenNIC] ignores Groups.
	Groups []Membership

	// ID is the id of the NIC. No other NIC of the fabric may have the same id. If ID is 0, the NIC
	// derives its id from Key. On a link without keys, the NIC draws a random id instead. On a
	// sealed link, ID may differ from the id that the NIC would derive from Key. In that case other
	// NICs accept ID only if their configuration or a certificate binds ID to the key.
	//
	// If a program restarts with the same ID, its peers notice at once. The peers get an
	// [EventRestarted], and the program can use its process name again.
	ID NICID `json:",omitzero"`

	// Key is the path of a file that holds the NIC's static key. The key proves the NIC's ID. If
	// the file does not exist, Open creates the file. If Key is empty, the NIC gets a new key each
	// time it is opened. If ID is 0 as well, the NIC also gets a new id each time.
	Key string

	// Fabric is the path of a file that holds the fabric key. NICs with different fabric keys
	// cannot communicate. If Fabric is empty, Open uses the file that $WEFT_FABRIC_FILE names. If
	// that variable is not set, Open uses /var/lib/weft/fabric.key for root, and weft/fabric.key in
	// the user's configuration directory for any other user. If the file at this default path does
	// not exist, Open creates the file. If Open cannot create the file, Open draws a key for this
	// process alone and writes a log record. If Fabric or $WEFT_FABRIC_FILE names a file, that file
	// must exist: "weft fabric init" makes such a file. If Plain is set or the NIC is on a
	// [Switch], the NIC needs no fabric key. See docs/security.md.
	Fabric string

	// Authorities lists the public keys of certificate authorities, as `weft fabric ca show` prints
	// them. An entry may also be the path of a file with one key per line. If Authorities is not
	// empty, the NIC needs a certificate from one of these authorities, and communicates only with
	// NICs that have such a certificate. If Authorities is empty, other NICs need only the fabric
	// key.
	Authorities []string

	// Certificate is the path of a file that holds the NIC's certificate. `weft fabric ca sign`
	// prints a certificate for the public half of Key. The certificate says which names the
	// processes of the NIC may have. Open fails if the certificate belongs to another fabric, has
	// expired, is not valid yet, or was not signed for the NIC's ID and Key. An empty Certificate
	// means that the NIC has no certificate.
	Certificate string

	// PlainResident permits programs of the NIC to run in the driver of a sealed AF_XDP link. If
	// two NICs both set PlainResident, datagrams for such programs travel unsealed between the two
	// NICs. Every host on the link can read these datagrams, and can forge them with some effort.
	PlainResident bool

	// Plain leaves frames unsealed, so every host on the link can read and forge them. Plain suits
	// measurements, and links that no other host can reach. Two NICs can communicate without
	// sealing only if both set Plain. Frames of a [Switch] are never sealed.
	Plain bool

	// Link is the link that carries the frames. It includes the address at which the NIC listens:
	// UDP("10.0.0.1:7000"), XDP(…), SharedMemory(…). The zero value is UDP("127.0.0.1:0").
	Link Link

	// Nodes lists the other NICs that this NIC knows when it starts. One node is enough to join a
	// fabric, because NICs tell each other about the NICs that they know. If a node does not
	// answer, the NIC retries until the node answers.
	Nodes []Node

	// Position is the NIC's place on the torus of the fabric. It is the zero value if the fabric is
	// not a torus.
	Position Position

	// Log receives the NIC's log records. nil means no log. A record has level Info unless stated
	// otherwise, and its attribute "how" holds a sentence. The message of a record is one of these
	// subjects:
	//
	//   - "link": how a link to other hosts works, and why. The record says whether the link uses
	//     segmentation offload, how much the socket buffers hold, which sysctl would enlarge these
	//     buffers, and whether AF_XDP copies frames. Open writes this record before it returns. The
	//     NIC writes another such record when the link changes.
	//   - "fabric": Open could not keep a fabric key in a file.
	//   - "capture": the file of Capture is full, could not be written, or holds keys. Before the
	//     NIC's Close method returns, another record says what the file contains.
	//
	// Each record about a change of the link comes from a separate goroutine. So such records may
	// be concurrent, may come in any order, and may come after Close. If programs in the driver of
	// the link cannot reach a [SharedSegment], the NIC writes a record at level Warn.
	Log *slog.Logger `json:"-"`

	// UnreachableAfter is the longest time for which another NIC may be silent while an operation
	// with that NIC is in flight. After this time, the silent NIC counts as unreachable. The range
	// is 10 ms to 1 h; 0 means 2 s.
	UnreachableAfter time.Duration

	// Faults makes the link lose, duplicate, reorder and damage frames, for tests and
	// demonstrations. nil means no faults.
	Faults *Faults

	// Capture describes a file for the frames that the NIC sends and receives. nil means no
	// capture.
	Capture *Capture

	jobKey []trust.FabricKey // key of a job, which replaces the file at the default path; nil: none
}

// Position is the place of a NIC on a torus. The zero value means that the NIC has no position. If
// the NICs of all members of a [Group] have positions on a torus of the same size, the broadcasts
// and reductions of the group follow the torus.
type Position struct {
	X, Y          int // column and row, both from 0
	Width, Height int // number of columns and rows of the torus, 1 to 4096 each
}

// nic returns the position in the form of the engine. It fails with ErrBadArgument if the position
// is invalid.
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

// Node describes another NIC of the fabric: its address and, if known, its id.
type Node struct {
	// ID is the id of the NIC. If ID is 0, any NIC that listens at Addr is accepted, now or later.
	ID NICID

	// Addr is the address at which the NIC listens, as [NIC.Addr] returns it: an IP address or a
	// host name, with or without a port. Examples are "10.0.0.2", "10.0.0.2:7700",
	// "[fe80::1%eth0]:7700", "::1" and "host-2". If Addr has no port, the port is 7700. Port 0 is
	// invalid. A host name is looked up once, and the lookup takes at most 5 seconds. If the host
	// has several addresses, the NIC tries up to 8 of them in turn until one answers: an IPv4
	// address first, then the families alternate. "shm:NAME" is the address of a NIC whose link is
	// SharedMemory("NAME").
	Addr string

	// Name is the name of the NIC in the AT clauses of programs for NICs. If Name is empty, the NIC
	// has no name.
	Name string

	// Key is the public key of the NIC, as `weft fabric key` prints it. If ID is set and does not
	// follow from the key, Key is required. If Key is empty, the key is not known.
	Key string
}

// Faults holds the probability of each fault. A probability is 0 to 1, and applies to each frame
// that arrives at the NIC.
type Faults struct {
	Loss      float64 // the frame is lost
	Duplicate float64 // the frame arrives twice
	Reorder   float64 // later frames overtake the frame
	Corrupt   float64 // some bits of the frame are flipped

	Seed uint64 // seed of the random choices; 0 means a random seed
}

// Capture describes a file for the frames that a NIC sends and receives. The file has the format
// pcapng, which Wireshark can open.
//
// When the NIC is opened, it creates the file. If the file exists, the NIC replaces the file,
// unless another NIC is writing to it. Only the file's owner may read the file. The file is
// complete when the NIC is closed. A capture never delays the NIC. If frames come faster than the
// NIC can write them, or if the file has reached Limit, the NIC omits frames from the file. The
// file's statistics count the omitted frames, and [Config.Log] receives these counts when the
// capture ends.
type Capture struct {
	File  string // path of the file
	Limit int64  // maximum size of the file in bytes, at least 4096; 0 means 1 GiB
	Snap  int    // maximum number of bytes written for each frame, up to 65536; 0 means all bytes

	// If Secrets is set, the NIC also writes the keys of sealed frames to the file. Then anyone who
	// can read the file can decrypt all frames in the file with `weft capture decrypt`. Without
	// Secrets, the frames stay sealed.
	Secrets bool
}

// driver makes the link of a configuration, and wraps it in the configured Faults and Capture.
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

// config returns the faults in the form of package fault.
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
	// Never by default: an XDP program disables the interface's segmentation offload for all
	// programs.
	if byXDP {
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

// tell returns a function that logs a sentence under the message what. It returns nil if there is
// no log.
func (c *Config) tell(what string) func(text string) {
	if c.Log == nil {
		return nil
	}
	return func(text string) { c.Log.Info(what, "how", text) }
}

// later returns the callback by which a driver reports a change of mode, or nil if there is no log.
// The callback does not wait for the log, because the driver calls it while the engine runs.
func (c *Config) later() func(text string) {
	tell := c.tell("link")
	if tell == nil {
		return nil
	}
	return func(text string) { go tell(text) }
}

// addresses returns the addresses at which a node may listen, at least one. It may look up a host
// name, which may take seconds.
func (n Node) addresses() ([]netip.AddrPort, error) {
	if shm.IsName(n.Addr) {
		a, err := shm.Parse(n.Addr)
		if err != nil {
			return nil, argument(fmt.Errorf("weft: node: address %w", err))
		}
		return []netip.AddrPort{a}, nil
	}
	all, err := registry.ResolveAll(n.Addr, registry.DefaultPort)
	if err == nil && (all[0].Port() == 0 || all[0].Addr().IsUnspecified()) {
		err = fmt.Errorf("address %q: expected the address of one host, and a port from 1 to 65535, or none for %d",
			n.Addr, registry.DefaultPort)
	}
	if err != nil {
		return nil, argument(fmt.Errorf("weft: node: %w", err))
	}
	return all, nil
}

// random returns a number that cannot be guessed.
func random() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("weft: the system gives no random numbers: " + err.Error())
	}
	return binary.LittleEndian.Uint64(b[:])
}

// addrString returns an address as text, in the form of Node.Addr.
func addrString(a netip.AddrPort) string {
	if shm.Is(a) {
		return shm.String(a)
	}
	return a.String()
}
