package daemon

import (
	_ "embed" // the sample
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/capture"
	"github.com/weftnet/weft/internal/link/udp"
	"github.com/weftnet/weft/internal/metrics"
	"github.com/weftnet/weft/internal/refusal"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/registry/gossip"
	"github.com/weftnet/weft/internal/sdnotify"
	"github.com/weftnet/weft/internal/vni"
)

// DefaultPort is the UDP port of a NIC's link unless configured otherwise.
const DefaultPort = registry.DefaultPort

// Values of prefer, by which link = "auto" chooses.
const (
	preferBandwidth = "bandwidth"
	preferLatency   = "latency"
)

// Links returns the kinds of links that may carry a daemon's frames; auto chooses one.
func Links() []string { return []string{"auto", "udp", "xdp", "xdp-generic"} }

// Preferences returns the criteria by which auto may choose.
func Preferences() []string { return []string{preferBandwidth, preferLatency} }

// Sample is a configuration file with every key and its default, each commented out: the output
// of `weft nic --sample`.
//
//go:embed nic.toml
var Sample string

// Config is the configuration of a daemon. Its TOML form is the file of `weft nic --config`;
// [Sample] lists every key.
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
	Slots            *int         `toml:"slots"` // nil: one for each processor
	KeyFiles         []string     `toml:"key_files"`
	Certificate      string       `toml:"certificate"`
	Authorities      []string     `toml:"authorities"`
	Revocations      string       `toml:"revocations"`
	Plain            bool         `toml:"plain"`
	Log              string       `toml:"log"`
	Capture          string       `toml:"capture"`
	CaptureLimit     int64        `toml:"capture_limit"`
	CaptureSnap      int          `toml:"capture_snap"`
	CaptureSecrets   bool         `toml:"capture_secrets"`
	Metrics          string       `toml:"metrics"` // empty: off
	MetricsTokenFile string       `toml:"metrics_token_file"`
	Nodes            []file.Entry `toml:"node"`
	VNI              *VNIs        `toml:"vni"`    // nil: as usual
	Gossip           *Gossip      `toml:"gossip"` // nil: none
	Programs         *Programs    `toml:"programs"`

	// Grants holds roles by the id of a NIC, as weft fabric grant writes them.
	Grants map[string][]string `toml:"grants"`

	Named map[string]Link `toml:"links"` // links by their own names

	// Keeper is the command that starts a keeper of a job; empty: this program with the argument
	// "keeper".
	Keeper []string `toml:"-"`

	// Subreaper makes this process the parent of processes that a keeper leaves behind, and ends
	// them. It is for processes that run nothing but the daemon: such a parent must reap orphans.
	Subreaper bool `toml:"-"`

	// Expect names a job of this user on this host, such as "job-1a2b3c4d". Its keeper starts and
	// attaches while the daemon starts. If no reservation of the job comes, the keeper ends with
	// the daemon. Empty: none.
	Expect string `toml:"-"`

	// Reread reads the configuration again, for a reload; nil: it cannot be read again.
	Reread func() (Config, error) `toml:"-" json:"-"`

	// Supervisor, such as systemd, gets the messages that the daemon is ready, reloads, makes
	// progress and ends; nil: none.
	Supervisor *sdnotify.Supervisor `toml:"-" json:"-"`

	called    string   // the name of Link, if it was one of Named
	further   []string // names of the other links to start
	besides   bool     // this is one of the further links
	ownNodes  bool     // Registry and Nodes come from the table of called
	fabricDir string   // where root's daemon has the fabric key; empty: the state directory

	lines file.Lines // lines of the file that it was read from, for errors
}

// Keys lists the keys of the configuration file.
const Keys = "id, socket, state_dir, link, prefer, listen, mtu, gso, registry, torus, position, static, " +
	"unreachable_after, max_processes, staging_bytes, region_bytes, allow_uids, allow_gids, program_uids, slots, " +
	"key_files, certificate, authorities, revocations, plain, log, capture, capture_limit, capture_snap, " +
	"capture_secrets, metrics, metrics_token_file, [[node]] with id, key, name, address and position, " +
	"[vni] with commands, contexts, descriptors, pool_pages, max_ of each and prepared, " +
	"[links.NAME] with link, prefer, listen, mtu, id, certificate, capture, registry, " +
	"[[links.NAME.node]] and [links.NAME.gossip], " +
	"[programs] with plain_resident, [grants], or [gossip] with listen, seeds and failure_timeout"

// Duration is a length of time, written as a string in TOML: "2s", "500ms".
type Duration time.Duration

// UnmarshalText reads a length of time as time.ParseDuration does.
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

// Load reads a configuration file. It checks the form only; New checks the values.
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
	if err = file.DecodeTOML(b, &c, Keys); err == nil {
		c.lines = file.LinesOf(b)
	}
	return c, err
}

// Override notes that the value of key no longer comes from the file. A mistake in it is then
// reported without a line.
func (c Config) Override(key string) {
	c.lines.Overridden(c.place(key))
}

// place returns the place of key in the file. A key of a named link is in the table of that link.
func (c Config) place(key string) string {
	if _, named := c.lines["links."+c.called+"."+key]; c.besides || named && c.called != "" {
		return "links." + c.called + "." + key
	}
	return key
}

// mistake returns an error about the value of key, with its line in the file.
func (c Config) mistake(key, format string, args ...any) error {
	return c.lines.At(c.place(key), fmt.Errorf("%s: "+format, append([]any{key}, args...)...))
}

// Check reports everything that is wrong with c. It reads the files that c names.
func (c Config) Check() error {
	_, err := c.started()
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
	nodes    registry.Registry // listed in the configuration
	torus    registry.Torus
	position registry.Position // set in the configuration, outside the list
	usual    vni.Geometry      // of a process that does not ask for another
	most     vni.Geometry      // that a process may ask for
	prepared int               // VNIs made before any process asks
	gossip   *gossip.Config    // the part known before there is a link and keys; nil: none
	trusted  trusted
	metrics  metrics.Config // but for its log
	config   Config
}

// check fills in the defaults for the first link, and reports everything that is wrong.
func (c Config) check() (s settings, err error) {
	c = c.Chosen()
	var errs []error
	wrong := func(key, format string, args ...any) {
		errs = append(errs, c.mistake(key, format, args...))
	}
	if c.ID != "" {
		if s.id, err = registry.ParseNICID(c.ID); err != nil {
			wrong("id", "%w", err)
		}
	}
	c.checkNamed(wrong)
	c.checkFurther(wrong)
	s.listen = c.linked().check(wrong, "", c.names())
	if s.plain, err = c.withoutOffload(); err != nil {
		wrong("gso", "%w", err)
	}
	if d := time.Duration(c.UnreachableAfter); d != 0 &&
		(d < limits.LeastUnreachableAfter || d > limits.MostUnreachableAfter) {
		wrong("unreachable_after",
			"%v; expected 10ms to 1h, as text such as \"2s\": a bare number counts nanoseconds", d)
	}
	if c.MaxProcesses < 0 || c.MaxProcesses > limits.MaxProcesses {
		wrong("max_processes", "%d; expected 1 to %d", c.MaxProcesses, limits.MaxProcesses)
	}
	if c.RegionBytes < 0 || c.RegionBytes > limits.MaxRegion {
		wrong("region_bytes", "%d; expected up to %d", c.RegionBytes, int64(limits.MaxRegion))
	}
	limit, by, limited := refusal.Limit()
	if limited && c.RegionBytes > limit {
		wrong("region_bytes", "%d; %s holds for the daemon; expected less, or a higher limit", c.RegionBytes, by)
	}
	if c.StagingBytes != 0 && (c.StagingBytes < limits.LeastStagingBytes || c.StagingBytes > 1<<30) {
		wrong("staging_bytes", "%d; expected %d to %d", c.StagingBytes, limits.LeastStagingBytes, 1<<30)
	}
	if c.Slots != nil && (*c.Slots < 0 || *c.Slots > limits.SlotsPerHost) {
		wrong("slots", "%d; expected 0 to %d, where 0 forbids ranks on this host", *c.Slots, limits.SlotsPerHost)
	}
	if _, err := logLevel(c.Log); err != nil {
		wrong("log", "%w", err)
	}
	sizes := capture.Config{Limit: c.CaptureLimit, Snap: c.CaptureSnap}
	if err := sizes.Check(); err != nil {
		wrong("capture", "%w", err)
	}
	if c.Capture == "" && (sizes.Limit+int64(sizes.Snap) != 0 || c.CaptureSecrets) {
		wrong("capture", "no file is named; expected one beside capture_limit, capture_snap and capture_secrets")
	}
	if s.usual, s.most, s.prepared, err = c.geometry(); err != nil {
		errs = append(errs, err)
	}
	if s.nodes, s.torus, err = c.nodes(); err != nil {
		errs = append(errs, err)
	} else if s.position, err = s.torus.ParsePosition(c.Position); err != nil {
		errs = append(errs, c.lines.At("position", err))
	}
	if s.gossip, err = c.gossip(s.listen.Addr()); err != nil {
		errs = append(errs, err)
	}
	c.checkUsers(wrong)
	s.socket, s.stateDir = c.Paths()
	if _, link := ctl.CutLink(s.socket); link != "" {
		wrong("socket", "%s: a # and what stands behind it name a link, to clients; expected another path", s.socket)
	}
	if ctl.Private(s.socket) && len(c.AllowUIDs)+len(c.AllowGIDs) > 0 {
		wrong("allow_uids",
			"others cannot enter the directory of the socket %s, which is one user's own; "+
				"expected `socket` with a place that they can reach",
			s.socket)
	}
	if c.RegionBytes == 0 {
		c.RegionBytes = limits.RegionBytes
		if limited {
			c.RegionBytes = min(c.RegionBytes, limit)
		}
	}
	s.mtu, s.config = c.MTU, c
	s.trusted = c.trusted(s.stateDir, wrong)
	s.metrics = c.metrics(s.stateDir, wrong)
	if len(errs) == 0 {
		errs = append(errs, s.checkKeys())
	}
	return s, errors.Join(errs...)
}

// checkUsers reports users and groups that cannot exist. The largest number of 32 bits means
// "none".
func (c Config) checkUsers(wrong func(key, format string, args ...any)) {
	for _, l := range []struct {
		key string
		ids []int
	}{{"allow_uids", c.AllowUIDs}, {"allow_gids", c.AllowGIDs}, {"program_uids", c.ProgramUIDs}} {
		for _, id := range l.ids {
			if id < 0 || id >= math.MaxUint32 {
				wrong(l.key, "%d; expected 0 to %d", id, uint32(math.MaxUint32-1))
			}
		}
	}
}

// withoutOffload reports whether segmentation offload is switched off, here or in the
// environment.
func (c Config) withoutOffload() (bool, error) {
	if c.GSO != nil {
		return !*c.GSO, nil
	}
	return udp.WithoutOffload()
}

// nodes joins the list in the configuration with the file that it names. Both may give the size
// of the torus.
func (c Config) nodes() (registry.Registry, registry.Torus, error) {
	torus, err := registry.ParseTorus(c.Torus)
	if err != nil {
		return nil, torus, c.lines.At("torus", err)
	}
	var shared []registry.Node
	if c.Registry != "" {
		f, t, err := file.Load(c.Registry)
		if err != nil {
			return nil, torus, c.lines.At(c.place("registry"), err)
		}
		if none := (registry.Torus{}); torus == none {
			torus = t
		} else if t != none && t != torus {
			return nil, torus, c.mistake("torus", "[%d, %d], but [%d, %d] in %s", torus.Width, torus.Height,
				t.Width, t.Height, c.Registry)
		}
		shared = f.Nodes()
	}
	lines := c.lines
	if c.ownNodes {
		lines = lines.Under("links." + c.called)
	}
	all, err := file.Nodes(c.Nodes, torus, lines)
	if err != nil {
		return nil, torus, err
	}
	list, err := registry.NewStatic(append(all, shared...))
	return list, torus, err
}

// ListenAddr returns the address at which the link listens. A host name is looked up.
func (c Config) ListenAddr() (netip.AddrPort, error) { return listenAddr(c.Listen, DefaultPort) }

// Paths returns the socket and the state directory. State belongs to one daemon: with the default
// socket it is in the user's usual place, with any other socket it is next to that socket.
func (c Config) Paths() (socket, state string) {
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

// slots returns how many ranks this host takes without --oversubscribe.
func (c Config) slots() int {
	if c.Slots == nil {
		return runtime.NumCPU()
	}
	return *c.Slots
}

// keeper returns the command of a keeper. The link in /proc names this very program, even if
// another one has replaced its file.
func (c Config) keeper() []string {
	if len(c.Keeper) > 0 {
		return c.Keeper
	}
	return []string{"/proc/self/exe", "keeper"}
}

// maxProcesses returns how many processes may be attached at once.
func (c Config) maxProcesses() int {
	if c.MaxProcesses == 0 {
		return limits.DefaultProcesses
	}
	return c.MaxProcesses
}

// listenAddr reads the address to listen at. It may be an address for registry.Resolve, :PORT for
// every address of the host, or nothing for the default port at every address.
func listenAddr(s string, port uint16) (netip.AddrPort, error) {
	switch {
	case s == "":
		return netip.AddrPortFrom(netip.IPv6Unspecified(), port), nil
	case strings.HasPrefix(s, ":") && !strings.HasPrefix(s, "::"): // "::" begins an IP
		s = "[::]" + s
	}
	return registry.Resolve(s, port)
}

// ParseNode reads a node in the form of the command line, ID@HOST:PORT. The id and the port may
// be left out.
func ParseNode(s string) (file.Entry, error) {
	e := file.EntryOf(s)
	_, err := e.Node(registry.Torus{})
	return e, err
}
