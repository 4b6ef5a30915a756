package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/coll"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/poller"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/version"
	"github.com/weftnet/weft/internal/vni"
)

// inform answers requests about this NIC or, through its control process, about another NIC. The
// asker may make the request. For requests about programs, their site decides that.
func (d *Daemon) inform(ctx context.Context, a deploy.Asker, r *ctl.Request) (*ctl.Reply, error) {
	if r.NIC != 0 && r.NIC != uint64(d.id) {
		return d.control.ask(ctx, r)
	}
	switch r.Op {
	case ctl.OpJob:
		reply, rest, err := d.jobAnswer(ctx, a, r)
		if rest != nil {
			return rest()
		}
		return reply, err
	case ctl.OpProgram:
		reply, err := d.programs.Answer(a, r.Program)
		return &ctl.Reply{Program: reply}, err
	case ctl.OpStat:
		return &ctl.Reply{Info: d.info(), Counters: d.counts()}, nil
	case ctl.OpNodes:
		page, next := ctl.Page(d.nodes(), r.From)
		return &ctl.Reply{Nodes: page, Next: next}, nil
	case ctl.OpNames:
		page, next := ctl.Page(d.names(), r.From)
		return &ctl.Reply{Names: page, Next: next}, nil
	case ctl.OpGroups:
		page, next := ctl.Page(d.members(), r.From)
		return &ctl.Reply{Groups: page, Next: next}, nil
	case ctl.OpMemory:
		return &ctl.Reply{Memory: d.memoryMap()}, nil
	case ctl.OpProcesses:
		page, next := ctl.Page(d.processes(), r.From)
		return &ctl.Reply{Processes: page, Next: next}, nil
	}
	return nil, fmt.Errorf("%w: %q of another NIC; "+
		"expected stat, nodes, names, groups, processes, memory, program, or job",
		ctl.ErrBadRequest, r.Op)
}

func (d *Daemon) info() *ctl.Info {
	i := &ctl.Info{NIC: uint64(d.id), Incarnation: d.incarnation, Address: d.Addr().String(),
		Network: d.settings.linkName(), Link: d.link.now(),
		Version: version.Release, Commit: version.Commit(), PID: os.Getpid(), Started: d.started.UnixNano(),
		Goroutines: runtime.NumGoroutine(), Clock: int64(poller.Now()), Reasons: d.reasons,
		Guard: ctl.GuardPlain, Key: d.key.Public().String()}
	if dir, err := filepath.Abs(d.settings.stateDir); err == nil {
		i.StateDir = dir
	}
	if !d.settings.config.Plain {
		i.Guard, i.Fabric = ctl.GuardSealed, d.live.Load().keys.keys[0].Fingerprint()
	}
	return i
}

// counts returns the counters by name, from the page that local tools map.
func (d *Daemon) counts() map[string]uint64 {
	m := map[string]uint64{}
	for i, name := range vni.Names() {
		m[name] = d.page.Load(vni.Counter(i))
	}
	return m
}

// The lists are made anew for each page. An entry that changes meanwhile may be missing or appear
// twice.

func (d *Daemon) known() (all []nic.NodeInfo) {
	d.loop.Do(func(clock.Time) { all = d.engine.Nodes() })
	return all
}

func (d *Daemon) nodes() (l []ctl.Node) {
	listed, named := map[netip.AddrPort]registry.Node{}, map[registry.NICID]string{}
	for _, n := range d.registry.Nodes() {
		for _, a := range n.Addrs() {
			listed[a] = n
		}
		named[n.ID] = n.Name // id 0 is never looked up
	}
	for _, n := range d.known() {
		state := "down"
		if n.Up {
			state = "up"
		}
		c := ctl.Node{ID: registry.NICID(n.ID), Address: n.Addr.String(), State: state, Incarnation: n.Incarnation,
			Processes: n.Processes, RTT: n.RTTNanos, Frame: n.Frame, WholeFrame: n.WholeFrame, Narrow: n.Narrow,
			Guard: guardOf(&n), Suite: n.Suite}
		if n.Elsewhere.IsValid() {
			c.Elsewhere = n.Elsewhere.String()
		}
		if n.Binding != trust.Unbound {
			c.Key, c.Binding = n.Key.String(), n.Binding.String()
		}
		// It may answer from another address than the list has.
		if c.Name = listed[n.Addr].Name; c.Name == "" && n.ID != 0 {
			c.Name = named[c.ID]
		}
		if at := listed[n.Addr].At; n.Position.Width > 0 {
			c.Position = []int{int(n.Position.X), int(n.Position.Y)}
		} else if at.Known { // it has not told its own yet
			c.Position = []int{at.X, at.Y}
		}
		l = append(l, c)
	}
	return l
}

// guardOf returns how the frames of a session with a NIC are guarded, or "" if there is no
// session.
func guardOf(n *nic.NodeInfo) string {
	switch {
	case !n.Up:
		return ""
	case n.Suite != "":
		return ctl.GuardSealed
	case n.Binding != trust.Unbound:
		return ctl.GuardProved
	}
	return ctl.GuardPlain
}

func (d *Daemon) names() (l []ctl.Name) {
	var all []nic.NameInfo
	d.loop.Do(func(clock.Time) { all = d.engine.Names() })
	for _, n := range all {
		l = append(l, ctl.Name{Name: n.Name.String(), NIC: registry.NICID(n.NIC), Slot: n.Slot, Generation: n.Gen,
			Unreachable: !n.Reachable})
	}
	return l
}

func (d *Daemon) members() (l []ctl.Member) {
	var all []coll.Group
	d.loop.Do(func(clock.Time) { all = slices.Concat(d.engine.Applications(), d.engine.Groups().Groups()) })
	for _, g := range all {
		for _, m := range g.Members {
			l = append(l, ctl.Member{Group: g.Name, Epoch: g.Epoch, Size: g.Size, State: g.State,
				Name: m.Name.String(), NIC: registry.NICID(m.NIC),
				Slot: m.Slot, Generation: m.Gen})
		}
	}
	return l
}

// processes leaves out slot 0, which is the daemon itself.
func (d *Daemon) processes() (l []ctl.Process) {
	d.loop.Do(func(clock.Time) {
		for _, p := range d.engine.Processes() {
			if p.Slot == 0 {
				continue
			}
			q := told(&p)
			if s := d.sessions[p.Slot]; s != nil {
				q.Regions, q.RegionBytes = len(s.regions), s.bytes
			}
			l = append(l, q)
		}
	})
	return l
}

// told returns what tools are told about a process.
func told(p *nic.ProcessInfo) ctl.Process {
	q := ctl.Process{
		Name: p.Name.String(), Slot: p.Slot, Generation: p.Generation, PID: int(p.PID),
		Posted: p.Posted, Unexpected: p.Unexpected, Oldest: int64(p.Oldest), Staged: p.Staged, Credit: p.Credit,
		Sending: p.Sending, Rooms: p.Rooms,
		Commands: p.Commands, Turns: p.Turns, Crowded: p.Crowded, Held: p.Held,
		Sent: p.Sent, SentBytes: p.SentBytes, Received: p.Received, ReceivedBytes: p.ReceivedBytes,
		Truncated: p.Truncated, CameUnexpected: p.Account.Unexpected, Memory: p.Memory, Collectives: p.Collectives,
		LongestWait: int64(p.LongestWait),
		Rings:       p.Rings, EmptyRings: p.EmptyRings,
	}
	for status, n := range p.Refused {
		if n > 0 {
			if q.Refused == nil {
				q.Refused = map[string]uint64{}
			}
			q.Refused[vni.Status(status).String()] = n
		}
	}
	return q
}

// checkWithin bounds how long a connectivity check may take. With the default unreachable_after,
// the engine gives up an absent node earlier than that.
const checkWithin = 3 * time.Second

// checkStep is the interval at which a running check is polled.
const checkStep = 10 * time.Millisecond

// check returns how the connectivity checks of all nodes ended. If begin is true, it starts them
// first and waits.
func (d *Daemon) check(begin bool) (l []ctl.Check) {
	if begin {
		d.loop.Do(d.engine.CheckAll)
		for end := time.Now().Add(checkWithin); d.checking() && time.Now().Before(end) && d.ctx.Err() == nil; {
			time.Sleep(checkStep)
		}
	}
	var refused []nic.Refusal
	d.loop.Do(func(now clock.Time) {
		refused = refusedSince(d.engine.Refusals(), now.Add(-d.settings.refusedAgainWithin()))
	})
	for _, n := range d.known() {
		c := ctl.Check{ID: registry.NICID(n.ID), Address: n.Addr.String(), OK: n.Check == rel.CheckOK,
			Text: n.CheckText}
		if n.Check == rel.CheckRunning {
			c.Text = fmt.Sprintf("no answer within %v", checkWithin)
		}
		if why := refusedAt(refused, n.ID, n.Addr); why != "" && !c.OK {
			c.Text, c.Cause = why, causeOf(whyRefused(refused, n.ID, n.Addr))
		}
		l = append(l, c)
	}
	return append(l, d.checkGossip()...)
}

// keyCure tells the user how to compare the fabric keys of two hosts.
const keyCure = "compare what `weft fabric show --fingerprint` prints on both hosts; " +
	"`weft fabric join` gives a host the key"

// checkGossip lists the seeds that have not let this NIC join, and reports whether other NICs
// have another key. A NIC that finds no other NIC by gossip knows no node to check.
func (d *Daemon) checkGossip() (l []ctl.Check) {
	if d.gossip == nil {
		return nil
	}
	for _, s := range d.gossip.Silent() {
		l = append(l, ctl.Check{Address: s.Seed.String(), Cause: ctl.CauseSeed,
			Text: fmt.Sprintf("the seed has not let this NIC join the gossip: %s; if it runs, "+
				"its fabric key may differ: %s",
				s.Why, keyCure)})
	}
	if n := d.gossip.Unopened(); n > 0 && len(l) == 0 { // one cause, one line
		l = append(l, ctl.Check{Address: d.gossip.Addr().String(), Cause: ctl.CauseFabricKey,
			Text: fmt.Sprintf("the gossip of others does not open with the fabric key of this NIC, %d times so far: %s",
				n, keyCure)})
	}
	return l
}

func (d *Daemon) checking() bool {
	for _, n := range d.known() {
		if n.Check == rel.CheckRunning {
			return true
		}
	}
	return false
}
