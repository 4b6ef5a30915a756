// Package doctor is `weft doctor`: it finds the ills of Weft on a host.
//
//	Host: files, sockets, tools ──┐
//	Setup: how the NIC runs ──────┼─► Patient ──► each Check ──► Finding: what, cost, command
//	NIC: the daemon's answers ────┘
//
// A Check only reads and probes. The user decides whether to run the command of a Finding. The
// checks see the host through the interface Host, so a test can make each ill, run the command, and
// check again.
package doctor

import (
	"fmt"
	"net/netip"

	"github.com/weftnet/weft/internal/ctl"
)

// Finding is one ill, with the command that mends it.
type Finding struct {
	Ill  string `json:"ill"`  // name of the check that has found it
	What string `json:"what"` // the fault
	Cost string `json:"cost"` // its effect on the user
	// Mend is the command that mends the ill, for a POSIX shell; empty: no command does.
	Mend string `json:"mend,omitempty"`
	// Where is the host on which to run Mend; empty: this host.
	Where string `json:"where,omitempty"`
	Note  string `json:"note,omitempty"` // advice before, or in place of, running Mend
}

// NIC holds the answers of the daemon of the host.
type NIC struct {
	Info   ctl.Info // PID is the process as this one sees it
	Nodes  []ctl.Node
	Checks []ctl.Check // made before Nodes was asked for
	// Contained is true if the daemon has another PID namespace, as in a container. It then may
	// have other files, too.
	Contained bool
}

// Setup describes how the daemon runs, or will run.
type Setup struct {
	Listen      netip.AddrPort // of its link
	Link        string         // udp, xdp, xdp-generic or auto
	Latency     bool           // prefer = "latency"
	NoGSO       bool           // no segmentation offload
	GSO         bool           // the configuration has gso = true, which overrides $WEFT_GSO
	Socket      string         // empty: by user
	StateDir    string
	KeyFile     string // of the fabric key, if the configuration names one
	KeyPath     string // KeyFile, or the file that `weft fabric` uses; empty: not known
	Certificate string // its file; empty: none

	// The following fields describe the running daemon.
	Service   string   // its systemd unit; empty: none
	OfUser    bool     // the unit belongs to the user's own systemd
	Directory string   // working directory
	Args      []string // arguments, from "nic" on
	Env       []string // variables that tell it where its files are, and what it does; NAME=VALUE
	Foreign   bool     // it belongs to another user than this process, or to an unknown one
}

// Patient is the input of the checks.
type Patient struct {
	Host    Host
	Setup   Setup
	NIC     *NIC   // nil: no daemon answers
	Version string // of this program
	Commit  string // of this program; unknown: not known
	// Peers restricts the checks of the network to the NICs of one host, by its addresses; none:
	// all. PeerName is the name by which the user called it.
	Peers    []netip.Addr
	PeerName string
}

// Check finds ills of one kind.
type Check struct {
	Name string
	Look func(*Patient) ([]Finding, error)
}

// Checks returns all checks, in the order in which their findings should be mended.
func Checks() []Check {
	return []Check{
		{"version", lookVersion},
		{"port", lookPort},
		{"buffers", lookBuffers},
		{"clock", lookClock},
		{"throttled", lookThrottled},
		{"memlock", lookMemlock},
		{"xdp", lookXDP},
		{"userfault", lookUserfault},
		{"id", lookID},
		{"key", lookKey},
		{"filter", lookFilter},
		{"gso", lookGSO},
		{"mtu", lookMTU},
	}
}

// Examine makes all checks. The errors name the checks that failed to run.
func Examine(p *Patient) (found []Finding, errs []error) {
	for _, c := range Checks() {
		some, err := c.Look(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
		}
		for _, f := range some {
			f.Ill = c.Name
			found = append(found, f)
		}
	}
	return found, errs
}

// pid returns the process whose limits and rights count, as the name of its directory in /proc:
// that of the daemon or, if none runs, this process.
func (p *Patient) pid() string {
	if p.NIC != nil && p.NIC.Info.PID > 0 {
		return fmt.Sprint(p.NIC.Info.PID)
	}
	return "self"
}
