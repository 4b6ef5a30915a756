package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Links, and places of the NICs.
const (
	LinkMem = "mem" // a switch in memory: both NICs in one process
	LinkShm = "shm" // memory that two processes share
	LinkUDP = "udp" // sockets: two processes
	LinkXDP = "xdp" // AF_XDP: two processes on two hosts
	// the link of DeployedShared: frames between two processes of one NIC cross no link
	LinkNone         = "none"
	DeployedEmbedded = "embedded" // the NIC inside the process
	DeployedDaemon   = "daemon"   // the NIC in a separate process
	DeployedShared   = "shared"   // the same, one for both processes
)

// Links lists the links.
func Links() []string { return []string{LinkMem, LinkShm, LinkUDP, LinkXDP} }

// Deployments lists the places of NICs.
func Deployments() []string { return []string{DeployedEmbedded, DeployedDaemon, DeployedShared} }

// DefaultPort is the default UDP port at which a server waits for a client from another host.
const DefaultPort = 7710

// Options say what to measure.
type Options struct {
	Kind       string
	Link       string
	Deployment string
	Sizes      []int         // bytes
	Time       time.Duration // for each size
	// address of a running server; empty: a server is started on this host
	Host    string
	Started bool   // then: by the weft that has started this one
	Self    string // path of the weft binary, for child processes
	Sealing

	Veth  bool    // the two sides are on two hosts of a testbed
	Loss  float64 // with Veth: the share of packets that is lost, each way
	Lossy bool    // with Veth: the cable has a program that loses packets, even if Loss is 0
	Rate  int64   // with Veth: of the cables, in bits per second; 0: unlimited
	Apart bool    // each side has its own processors, if there are enough
	MTU   int     // with Veth: of the cable, bytes; 0: testbed.DefaultMTU

	// the limit is measured as well
	Against bool
	// number of turns of each, within Time each
	Rounds int
	// plain and sealed links are measured in turns, in Rounds rounds
	BothLinks bool
	// called with all round trips of a size; may be nil
	HDR func(size int, h *hdrhistogram.Histogram) error
}

// Check returns an error if options that are each valid do not go together.
func (o *Options) Check() error {
	if (o.Link == LinkNone) != (o.Deployment == DeployedShared) {
		return fmt.Errorf("--deployment %s with --link %s: expected shared and no link, or neither, "+
			"since processes of one NIC need none",
			o.Deployment, o.Link)
	}
	if joins[o.Link] != "" && o.Deployment == DeployedDaemon {
		return fmt.Errorf("--deployment %s with --link %s: expected embedded, since %s",
			o.Deployment, o.Link, joins[o.Link])
	}
	if joins[o.Link] != "" && o.Host != "" {
		return fmt.Errorf("a host (%s) with --link %s: expected --link udp, since %s", o.Host, o.Link, joins[o.Link])
	}
	if o.Sealed || o.BothLinks {
		if err := o.checkSealed(); err != nil {
			return err
		}
	}
	if o.Against {
		return o.checkAgainst()
	}
	if o.BothLinks {
		return CheckRounds(o.Time, o.Rounds)
	}
	return nil
}

// checkSealed returns an error if the links cannot be sealed.
func (o *Options) checkSealed() error {
	switch {
	case o.Link == LinkMem:
		return fmt.Errorf("--sealed on with --link mem: expected shm, udp or xdp, since no frame leaves the process")
	case o.Link == LinkNone:
		return fmt.Errorf("--sealed on with --deployment shared: expected embedded or daemon, " +
			"since processes of one NIC need no link")
	case o.BothLinks && o.Host != "":
		return fmt.Errorf(
			"--sealed on,off with a host (%s): expected on or off, since the server there has links of one kind",
			o.Host)
	}
	return nil
}

// joins says what a link joins that reaches no other host.
var joins = map[string]string{
	LinkMem: "mem joins NICs of one process",
	LinkShm: "shm joins NICs embedded in processes of one host",

	LinkNone: "both processes have the same NIC",
}

// Reaches says why a link reaches no other host; empty if it does.
func Reaches(link string) (not string) { return joins[link] }

// setting describes in words what is measured.
func (o *Options) setting() string {
	nics := deployed(o.Deployment, 2) + o.linkWords()
	switch {
	case o.Link == LinkMem:
		return "link mem, NICs embedded, one process"
	case o.Deployment == DeployedShared:
		return "one NIC daemon, two processes on this host"
	case o.Veth:
		return fmt.Sprintf("link %s, %s, two hosts made for it", o.Link, nics)
	case o.Host != "":
		return fmt.Sprintf("here link %s, %s; the other side is %s",
			o.Link, deployed(o.Deployment, 1)+o.linkWords(), o.Host)
	}
	return fmt.Sprintf("link %s, %s, two processes on this host", o.Link, nics)
}

// linkWords says in words whether the links are sealed.
func (o *Options) linkWords() string {
	switch {
	case o.BothLinks:
		return ", links plain and sealed"
	case o.Sealed:
		return ", links sealed"
	}
	return ""
}

// deployed says in words where one NIC is, or several are.
func deployed(deployment string, nics int) string {
	switch {
	case deployment == DeployedEmbedded && nics == 1:
		return "NIC embedded"
	case deployment == DeployedEmbedded:
		return "NICs embedded"
	case deployment == DeployedDaemon && nics == 1:
		return "NIC in a daemon"
	case deployment == DeployedDaemon:
		return "NICs in daemons"
	}
	// the other side may be of another version
	return fmt.Sprintf("deployment %q", deployment)
}

// ParseSizes parses a size in bytes, such as 64, 4KiB or 1MiB, or the word all.
func ParseSizes(s string) ([]int, bool) {
	if s == "all" {
		return Sizes(), true
	}
	number, shift := s, 0
	for i, unit := range []string{"KiB", "MiB"} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n<<shift > MaxSize {
		return nil, false
	}
	return []int{int(n << shift)}, true
}
