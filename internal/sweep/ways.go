package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// Ways holds the number of times that each way was taken, by the kind of link and the way's name:
// "reliable met". A sweep does not test a way that it never takes.
type Ways map[string]uint64

// ways lists the ways that a message, a piece, a frame or an acknowledgement can take, and the
// links on which it can. The other names in nic.WayNames belong to the ways, too.
var ways = []way{
	// outgoing
	{"command", both, counter(vni.NICCommands)},
	{"local", both, counter(vni.NICMessagesLocal)},
	{"requested", both, counter(vni.NICRequests)},
	{"request_held", both, counter(vni.NICRequestsHeld)},
	{"refilled", both, counter(vni.NICRefills)},
	{"relayed", both, counter(vni.NICRelays)},
	{"relay_missed", both, counter(vni.NICRelaysMissed)},
	{"parts_sent", lossy, counter(vni.RelPartsSent)},
	{"resent_fast", lossy, counter(vni.RelResendsFast)},
	{"resent_tail", lossy, counter(vni.RelResendsTail)},
	{"resent_timeout", lossy, counter(vni.RelResendsTimeout)},
	{"ack", lossy, counter(vni.RelAckSends)},
	{"ack_along", lossy, counter(vni.RelAckPiggybacked)},
	{"credits_full", lossy, counter(vni.RelCreditsFull)},
	// incoming
	{"received", both, counter(vni.NICStraightReceives)},
	{"met", both, counter(vni.NICMet)},
	{"fast", lossy, func(e *nic.Engine, s *rel.Stats) uint64 { return s.FastReceives }},
	{"ahead", lossy, counter(vni.RelReceivedAhead)},
	{"parts", lossy, counter(vni.RelPartsReceived)},
	{"parked", both, counter(vni.NICEarly)},
	{"staged", both, counter(vni.NICUnexpected)},
	{"packed", both, counter(vni.NICPacked)},
	{"returned", both, counter(vni.NICReturned)},
	{"relay", both, counter(vni.NICRelayedMessages)},
	{"relay_again", both, counter(vni.NICDuplicates)},
	{"recalled", both, counter(vni.NICCreditsRecalled)},
}

// wayLinks lists those of nic.WayNames and simulated.Uses that are taken over only one kind of
// link.
var wayLinks = map[string]links{
	"posted": reliable, "posted_kept": lossy, "frame": reliable, "single": lossy, "kept": lossy,
	"run_frame": reliable, "run_kept": lossy,
	"placed": lossy, "placed_run": lossy, // over a reliable link there is no tag to check
	"link_post": lossy, "link_post_lone": reliable,
}

// way is one way.
type way struct {
	name  string
	on    links
	count func(*nic.Engine, *rel.Stats) uint64
}

// links are kinds of links.
type links uint8

const (
	reliable links = 1 << iota
	lossy
	both = reliable | lossy
)

func (l links) String() string { return map[links]string{reliable: "reliable", lossy: "lossy"}[l] }

func linksOf(l sim.Link) links {
	if l.Reliable {
		return reliable
	}
	return lossy
}

func counter(c vni.Counter) func(*nic.Engine, *rel.Stats) uint64 {
	return func(e *nic.Engine, _ *rel.Stats) uint64 { return e.Count(c) }
}

func wayName(l links, name string) string { return l.String() + " " + name }

// allWays lists the names of all ways.
func allWays() (names []string) {
	add := func(on links, name string) {
		for _, l := range []links{reliable, lossy} {
			if on&l != 0 {
				names = append(names, wayName(l, name))
			}
		}
	}
	for _, w := range ways {
		add(w.on, w.name)
	}
	for _, name := range nic.WayNames {
		add(linksFor(name), name)
	}
	for _, u := range (&simulated.Uses{}).List() {
		add(linksFor("link_"+u.Name), "link_"+u.Name)
	}
	return names
}

func linksFor(name string) links {
	if l, ok := wayLinks[name]; ok {
		return l
	}
	return both
}

// count adds the ways that the NICs of a fabric have taken.
func (w Ways) count(f *sim.Fabric, l sim.Link, nics int) {
	on := linksOf(l)
	for host := range nics {
		e := simulated.Engine(f, host)
		if e == nil {
			continue
		}
		s := e.Transport()
		for _, x := range ways {
			w[wayName(on, x.name)] += x.count(e, s)
		}
		for i, n := range e.Ways() {
			w[wayName(on, nic.WayNames[i])] += n
		}
	}
	uses := simulated.UsesOf(f)
	for _, u := range uses.List() {
		w[wayName(on, "link_"+u.Name)] += u.Count
	}
}

// add adds o to w.
func (w *Ways) add(o Ways) {
	if *w == nil {
		*w = Ways{}
	}
	for name, n := range o {
		(*w)[name] += n
	}
}

// Missing lists the ways that were never taken.
func (w Ways) Missing() (names []string) {
	return slices.DeleteFunc(allWays(), func(name string) bool { return w[name] > 0 })
}

// String lists the ways, one kind of link after the other.
func (w Ways) String() string {
	var b strings.Builder
	for _, l := range []links{reliable, lossy} {
		var of []string
		for _, name := range allWays() {
			if way, ok := strings.CutPrefix(name, l.String()+" "); ok {
				of = append(of, fmt.Sprintf("%d %s", w[name], strings.ReplaceAll(way, "_", " ")))
			}
		}
		fmt.Fprintf(&b, "ways over %v links: %s\n", l, strings.Join(of, ", "))
	}
	return b.String()
}
