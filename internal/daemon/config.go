package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/capture"
	"github.com/weftnet/weft/internal/link/udp"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/registry/gossip"
	"github.com/weftnet/weft/internal/vni"
)

// DefaultPort is the UDP port of a NIC's link unless told otherwise.
const DefaultPort = registry.DefaultPort

// What link = "auto" goes by.
const (
	preferBandwidth = "bandwidth"
	preferLatency   = "latency"
)

// Links are what may carry a daemon's frames; auto chooses.
func Links() []string { return []string{"auto", "udp", "xdp", "xdp-generic"} }

// Preferences are what auto may go by.
func Preferences() []string { return []string{preferBandwidth, preferLatency} }

// Config is what a daemon is made from. Its TOML form is a file of `weft nic --config`:
//
//	id                = "0:0:0:96:221:127:255:140"  # default: made from the key in state_dir
//	socket            = "/run/weft/nic.sock"        # default: $WEFT_SOCKET, or by user
//	state_dir         = "/var/lib/weft"             # default: by socket
//	link              = "udp"
//	prefer            = "bandwidth"                 # what link = "auto" goes by: "bandwidth" or "latency"
//	listen            = "10.0.0.1:7700"             # the port may be left out; default: every address, port 7700
//	mtu               = 0                           # bytes of a frame; 0: what the interface carries
//	gso               = true                        # false: frames leave and come one by one; default: $WEFT_GSO, or true
//	registry          = "/etc/weft/nodes.toml"      # a file of torus and [[node]] that hosts share
//	torus             = [8, 4]                      # width and height, if the fabric is one
//	position          = [3, 0]                      # of this NIC; default: that of its [[node]]
//	static            = false                       # true: NICs that are not listed may not talk to this one
//	unreachable_after = "2s"
//	max_processes     = 1024
//	staging_bytes     = 4194304                     # per process, for messages that nobody waits for yet
//	region_bytes      = 1073741824                  # per process, of memory that it registers
//	allow_uids        = []                          # who may attach beside the daemon's own user and root
//	allow_gids        = []
//	program_uids      = []                          # who may load programs beside the daemon's own user and root
//	log               = "info"                      # debug, info, warn, error
//	capture           = "/var/tmp/weft.pcapng"      # a file for every frame, for Wireshark; default: none
//	capture_limit     = 1073741824                  # bytes that it may have
//	capture_snap      = 65536                       # bytes of each frame that are written
//
//	[[node]]
//	id      = "0:0:0:1:2:3:4:5"                     # may be left out
//	name    = "host-3"                              # may be left out: by which programs and tools may call it
//	address = "10.0.0.2:7700"
//	position = [4, 0]                               # may be left out
//
//	[vni]                                           # virtual network interfaces (QNIX-61)
//	commands        = 256                           # N, and so on: of who does not ask for another number
//	contexts        = 64                            # M
//	descriptors     = 16                            # K
//	pool_pages      = 256                           # Q
//	max_commands    = 4096                          # the most that may be asked for
//	max_contexts    = 1024
//	max_descriptors = 16
//	max_pool_pages  = 16384
//	prepared        = 128                           # made before anybody asks
//
//	[links.fast0]                                   # a link by a name of its own: link = "fast0" takes it in place of the four keys above
//	link            = "xdp"
//	listen          = "10.1.0.1:7700"               # that of the interface to the dedicated network
//	mtu             = 9000
//
//	[gossip]                                        # instead of a list, or besides
//	listen          = "10.0.0.1:7701"               # default: the IP of listen, port 7701; UDP and TCP
//	seeds           = ["10.0.0.2:7701"]             # one that is there is enough; the first NIC of a fabric needs none
//	key_file        = "/etc/weft/fabric.key"        # the same on all hosts; 32 bytes or more, readable by its owner only
//	failure_timeout = "10s"                         # silence after which a NIC and its names are gone
type Config struct {
	ID               string       `toml:"id"`
	Socket           string       `toml:"socket"`
	StateDir         string       `toml:"state_dir"`
	Link             string       `toml:"link"`
	Prefer           string       `toml:"prefer"` // empty: bandwidth
	Listen           string       `toml:"listen"`
	MTU              int          `toml:"mtu"`
	GSO              *bool        `toml:"gso"` // nil: $WEFT_GSO, or true
	Registry         string       `toml:"registry"`
	Torus            []int        `toml:"torus"`
	Position         []int        `toml:"position"`
	Static           bool         `toml:"static"`
	UnreachableAfter Duration     `toml:"unreachable_after"`
	MaxProcesses     int          `toml:"max_processes"`
	StagingBytes     int          `toml:"staging_bytes"`
	RegionBytes      int64        `toml:"region_bytes"`
	AllowUIDs        []int        `toml:"allow_uids"`
	AllowGIDs        []int        `toml:"allow_gids"`
	ProgramUIDs      []int        `toml:"program_uids"`
	Log              string       `toml:"log"`
	Capture          string       `toml:"capture"`
	CaptureLimit     int64        `toml:"capture_limit"`
	CaptureSnap      int          `toml:"capture_snap"`
	Nodes            []file.Entry `toml:"node"`
	VNI              *VNIs        `toml:"vni"`    // nil: as usual
	Gossip           *Gossip      `toml:"gossip"` // nil: none

	Named map[string]Link `toml:"links"` // links by names of their own

	called string // the name of Link, if it was one of Named
}

// Keys are those of the configuration file.
const Keys = "id, socket, state_dir, link, prefer, listen, mtu, gso, registry, torus, position, static, unreachable_after, max_processes, staging_bytes, " +
	"region_bytes, allow_uids, allow_gids, program_uids, log, capture, capture_limit, capture_snap, [[node]] with id, name, address and position, [vni] with commands, contexts, descriptors, pool_pages, max_ of each and prepared, [links.NAME] with link, prefer, listen and mtu, " +
	"or [gossip] with listen, seeds, key_file and failure_timeout"

// Duration is a length of time that TOML has as a string: "2s", "500ms".
type Duration time.Duration

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q: expected a length of time such as \"2s\" or \"500ms\"", b)
	}
	*d = Duration(v)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Load reads a configuration file. It checks the form only; New checks what it says.
func Load(path string) (Config, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	c, err := Parse(b)
	if err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

// Parse reads the text of a configuration file.
func Parse(b []byte) (c Config, err error) {
	err = file.DecodeTOML(b, &c, Keys)
	return c, err
}

// Check names everything that is wrong with c, and reads the files that c names.
func (c Config) Check() error {
	_, err := c.check()
	return err
}

// settings is a checked Config, with every default filled in.
type settings struct {
	id       registry.NICID // 0: from the key
	socket   string
	stateDir string
	listen   netip.AddrPort
	mtu      int
	plain    bool              // without segmentation offload
	nodes    registry.Registry // that the configuration lists
	torus    registry.Torus
	position registry.Position // that the configuration gives this NIC, if not in the list
	usual    vni.Geometry      // of a process that does not ask for another
	most     vni.Geometry      // that a process may ask for
	prepared int               // VNIs made before anybody asks
	gossip   *gossip.Config    // what is known of it before there is a link; nil: none
	config   Config
}

// check fills in the defaults and names everything that is wrong.
func (c Config) check() (s settings, err error) {
	c = c.Chosen()
	var errs []error
	wrong := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{key}, args...)...))
	}
	if c.ID != "" {
		if s.id, err = registry.ParseNICID(c.ID); err != nil {
			wrong("id", "%w", err)
		}
	}
	c.checkNamed(wrong)
	s.listen = c.linked().check(wrong, "", c.names())
	if s.plain, err = c.withoutOffload(); err != nil {
		wrong("gso", "%w", err)
	}
	if d := time.Duration(c.UnreachableAfter); d != 0 && (d < limits.LeastUnreachableAfter || d > limits.MostUnreachableAfter) {
		wrong("unreachable_after", "%v; expected 10ms to 1h, as text such as \"2s\": a bare number counts nanoseconds", d)
	}
	if c.MaxProcesses < 0 || c.MaxProcesses > limits.MaxProcesses {
		wrong("max_processes", "%d; expected 1 to %d", c.MaxProcesses, limits.MaxProcesses)
	}
	if c.RegionBytes < 0 || c.RegionBytes > limits.MaxRegion {
		wrong("region_bytes", "%d; expected up to %d", c.RegionBytes, int64(limits.MaxRegion))
	}
	if c.StagingBytes < 0 || c.StagingBytes > 1<<30 {
		wrong("staging_bytes", "%d; expected up to %d", c.StagingBytes, 1<<30)
	}
	if _, err := logLevel(c.Log); err != nil {
		wrong("log", "%w", err)
	}
	sizes := capture.Config{Limit: c.CaptureLimit, Snap: c.CaptureSnap}
	if err := sizes.Check(); err != nil {
		wrong("capture", "%w", err)
	}
	if c.Capture == "" && sizes.Limit+int64(sizes.Snap) != 0 {
		wrong("capture", "no file is named; expected one beside capture_limit and capture_snap")
	}
	if s.usual, s.most, s.prepared, err = c.geometry(); err != nil {
		errs = append(errs, err)
	}
	if s.nodes, s.torus, err = c.nodes(); err != nil {
		errs = append(errs, err)
	} else if s.position, err = s.torus.ParsePosition(c.Position); err != nil {
		errs = append(errs, err)
	}
	if s.gossip, err = c.gossip(s.listen.Addr()); err != nil {
		errs = append(errs, err)
	}
	s.socket, s.stateDir = c.paths()
	if ctl.Private(s.socket) && len(c.AllowUIDs)+len(c.AllowGIDs) > 0 {
		wrong("allow_uids", "others cannot enter the directory of the socket %s, which is one user's own; expected `socket` with a place that they can reach", s.socket)
	}
	if c.RegionBytes == 0 {
		c.RegionBytes = limits.RegionBytes
	}
	s.mtu, s.config = c.MTU, c
	return s, errors.Join(errs...)
}

// withoutOffload is whether the kill switch of segmentation offload is thrown, here or in the environment.
func (c Config) withoutOffload() (bool, error) {
	if c.GSO != nil {
		return !*c.GSO, nil
	}
	return udp.WithoutOffload()
}

// nodes joins the list in the configuration with the file that it names. Both may say how large the torus is.
func (c Config) nodes() (registry.Registry, registry.Torus, error) {
	torus, err := registry.ParseTorus(c.Torus)
	if err != nil {
		return nil, torus, err
	}
	var shared []registry.Node
	if c.Registry != "" {
		f, t, err := file.Load(c.Registry)
		if err != nil {
			return nil, torus, err
		}
		if none := (registry.Torus{}); torus == none {
			torus = t
		} else if t != none && t != torus {
			return nil, torus, fmt.Errorf("torus: [%d, %d], but [%d, %d] in %s", torus.Width, torus.Height, t.Width, t.Height, c.Registry)
		}
		shared = f.Nodes()
	}
	all, err := file.Nodes(c.Nodes, torus)
	if err != nil {
		return nil, torus, err
	}
	list, err := registry.NewStatic(append(all, shared...))
	return list, torus, err
}

// paths are the socket and the state directory. State belongs to one daemon: that of the default socket has the user's
// usual place, any other one has its own beside its socket.
func (c Config) paths() (socket, state string) {
	socket, state = c.Socket, c.StateDir
	own := socket != "" || os.Getenv("WEFT_SOCKET") != ""
	if socket == "" {
		socket = ctl.DefaultSocket()
	}
	switch {
	case state != "":
	case own:
		state = strings.TrimSuffix(socket, ".sock") + ".state"
	case os.Getuid() == 0:
		state = "/var/lib/weft"
	case os.Getenv("XDG_STATE_HOME") != "":
		state = filepath.Join(os.Getenv("XDG_STATE_HOME"), "weft")
	default:
		home, err := os.UserHomeDir()
		if err != nil {
			home = filepath.Dir(socket)
		}
		state = filepath.Join(home, ".local", "state", "weft")
	}
	return socket, state
}

// maxProcesses is how many may be attached at a time.
func (c Config) maxProcesses() int {
	if c.MaxProcesses == 0 {
		return limits.DefaultProcesses
	}
	return c.MaxProcesses
}

// listenAddr reads where to listen: an address as file.Resolve does, :PORT for every address of the host, or nothing for the default port there.
func listenAddr(s string, port uint16) (netip.AddrPort, error) {
	switch {
	case s == "":
		return netip.AddrPortFrom(netip.IPv6Unspecified(), port), nil
	case strings.HasPrefix(s, ":"):
		s = "[::]" + s
	}
	return file.Resolve(s, port)
}

// ParseNode reads a node as the command line has it: ID@HOST:PORT, where the id and the port may be left out.
func ParseNode(s string) (file.Entry, error) {
	e := file.EntryOf(s)
	_, err := e.Node(registry.Torus{})
	return e, err
}
