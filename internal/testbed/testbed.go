// Package testbed makes hosts out of network namespaces, for tests, demos and benchmarks on one
// machine.
//
// Two hosts without loss share a cable, a veth pair:
//
//	host 0 [eth0]────────────────[eth0] host 1
//
// With loss, with a rate, or with another number of hosts, each host's cable goes to a bridge in
// its own namespace:
//
//	host 0 [eth0]────[port0 ▼]┐
//	host 1 [eth0]────[port1 ▼]┤ bridge      ▼ loss program
//	host 2 [eth0]────[port2 ▼]┘
//
// An XDP program on the switch's end of each cable makes the loss. It sees only the frames from
// the host at the other end. A frame crosses one such program, its sender's. With loss P, each
// frame is lost with probability P, once, in either direction, and a request with its answer is
// lost with 1 − (1−P)². A broadcast is lost for all receivers or for none. The host's own end
// stays free for an XDP program of the host. The program has one cost: the host's kernel cuts
// large sends into frames before the cable and not after it, so that each frame is drawn
// separately.
//
// With a delay, jitter, duplicates or reordering, a goroutine of this process replaces the
// bridge, after the loss programs. It holds each frame until the frame is due.
//
// A host has its own network and nothing else: it shares files, process numbers and /sys with the
// machine. Its neighbours are permanent entries in its neighbour tables, since an experiment with
// loss is about the frames of Weft, and not about how long the kernel takes to repeat a lost ARP
// request.
//
// # Why nameless namespaces?
//
// A namespace under /run/netns lives until it is removed, so a killed test leaves it there, and
// the next test fails on it. Here, only a descriptor and threads of this process hold a
// namespace. Links live in namespaces, addresses on links, loss programs on links. When the
// process ends, however it ends, the kernel closes the descriptors and all of it is gone.
// Processes started by [Host.Command] get SIGKILL at that moment.
//
// # Where it works
//
// It works on Linux, with CAP_SYS_ADMIN and CAP_NET_ADMIN; with loss also CAP_BPF; with a rate
// CONFIG_NET_SCH_TBF. Elsewhere New fails with an error that wraps [ErrUnavailable], and says
// what is missing and how to get it. A test skips with that reason:
//
//	tb, err := testbed.New(testbed.Config{Hosts: 2})
//	if errors.Is(err, testbed.ErrUnavailable) {
//		t.Skip(err)
//	}
package testbed

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrUnavailable means that a testbed is not possible on this machine, or for this user.
var ErrUnavailable = errors.New("testbed unavailable")

// ErrClosed is the error of calls on a testbed after Close.
var ErrClosed = errors.New("testbed closed")

const (
	// Interface is the name of every host's link.
	Interface = "eth0"

	// MaxHosts bounds a testbed. Every host knows the link address of every other from the start,
	// so the tables grow with the square. For thousands of hosts, use the simulator.
	MaxHosts = 128

	// LeastMTU is the least MTU that IPv6 permits; MostMTU is the largest of a veth. Both are in
	// bytes, without the Ethernet header.
	LeastMTU = 1280
	MostMTU  = 65535

	// DefaultMTU is Ethernet's, in bytes.
	DefaultMTU = 1500

	// MostQueues is the number of queues of a large network card.
	MostQueues = 64

	// LeastRate and MostRate bound the rate of a cable, in bits per second.
	LeastRate = 1e6
	MostRate  = 10e9
)

// Config describes the testbed to build.
type Config struct {
	Hosts int     // how many, 1 to MaxHosts
	Loss  float64 // probability that a frame is lost on its way, 0 to 1
	MTU   int     // of every link, in bytes, LeastMTU to MostMTU; 0 means DefaultMTU

	Queues int // of every host's link, each way; 0 means 1

	// Rates are the rates of the hosts' cables, each way, in bits per second: one for each host,
	// or one for all. If there are none, cables are as fast as the machine. A token bucket paces
	// each end of a cable, which then goes to a switch. A frame that finds its cable idle passes
	// at once, so its delay does not include its own time on the cable.
	Rates []int64

	// Delay, Jitter, Duplicate and Reorder change the path of each frame from one host to
	// another. A goroutine of this process is then the switch. It sees each frame once, so a
	// round trip takes twice the delay.
	Delay time.Duration // each frame arrives that much later, 0 to MostDelay
	// Jitter is the most that a frame is delayed in addition, 0 to MostDelay. It is drawn for
	// each frame, so frames overtake one another.
	Jitter    time.Duration
	Duplicate float64 // probability that a frame arrives twice, 0 to 1; the copy has its own jitter
	// Reorder is the probability that the next frame of its sender overtakes a frame, 0 to 1.
	// Without a next one, the frame is 10 ms late.
	Reorder float64
	// Seed is the seed of these draws. The nth frame of a host has the same fate in each run. The
	// kernel draws losses without a seed.
	Seed uint64

	// Lossy attaches the loss programs, and so a switch, even if Loss is 0. SetLoss then works
	// from the start, and runs with and without loss differ only in the loss.
	Lossy bool

	// Apart gives each host an equal share of the processors, which its commands do not leave.
	// Otherwise the kernel sometimes makes programs of two hosts share a processor while another
	// is idle, and that falsifies a measurement. Apart does nothing if there is not one processor
	// for each host.
	Apart bool
}

// Counters are the counts of loss programs.
type Counters struct {
	Dropped, Passed uint64 // frames that hosts sent: lost, and passed on
}

func (c *Config) validate() error {
	switch {
	case c.Hosts < 1 || c.Hosts > MaxHosts:
		return fmt.Errorf("testbed: Hosts is %d, expected 1 to %d", c.Hosts, MaxHosts)
	case !(c.Loss >= 0 && c.Loss <= 1): // also a NaN
		return fmt.Errorf("testbed: Loss is %v, expected 0 to 1", c.Loss)
	case c.Queues < 0 || c.Queues > MostQueues:
		return fmt.Errorf("testbed: Queues is %d, expected 0 to %d", c.Queues, MostQueues)
	case len(c.Rates) > 1 && len(c.Rates) != c.Hosts:
		return fmt.Errorf("testbed: %d Rates of %d hosts, expected one for each, or one for all", len(c.Rates), c.Hosts)
	case slices.ContainsFunc(c.Rates, func(r int64) bool { return r < LeastRate || r > MostRate }):
		return fmt.Errorf("testbed: Rates are %d, expected %d to %d bits per second", c.Rates,
			int64(LeastRate), int64(MostRate))
	case c.MTU != 0 && (c.MTU < LeastMTU || c.MTU > MostMTU):
		return fmt.Errorf("testbed: MTU is %d, expected 0 or %d to %d", c.MTU, LeastMTU, MostMTU)
	}
	return c.validateShape()
}

// direct reports whether the two hosts share one cable.
func (c *Config) direct() bool { return c.Hosts == 2 && !c.cuts() && len(c.Rates) == 0 }

// cuts reports whether ports have loss programs. With such a program, the kernel of the host cuts
// its sends into frames, and a shaped switch sees each of them.
func (c *Config) cuts() bool { return c.Loss > 0 || c.Lossy || c.shaped() }

// rate returns the rate of a host's cable, or 0 if it is not bounded.
func (c *Config) rate(host int) int64 {
	switch len(c.Rates) {
	case 0:
		return 0
	case 1:
		return c.Rates[0]
	}
	return c.Rates[host]
}

func (c *Config) queues() int { return max(c.Queues, 1) }

func (c *Config) mtu() int {
	if c.MTU == 0 {
		return DefaultMTU
	}
	return c.MTU
}
