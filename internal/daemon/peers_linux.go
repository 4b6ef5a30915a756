package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
)

const (
	// lookAtPathsEvery is the interval at which the log may report the frame sizes of paths.
	lookAtPathsEvery = time.Second

	// repeatRefusalAfter is the interval at which the log repeats the refusal of a NIC that still
	// says hello.
	repeatRefusalAfter = 10 * time.Minute
)

// peerLog logs the peers that come and go with the reason, the silent nodes, and the refused
// NICs.
type peerLog struct {
	d *Daemon
	// up holds the peers that are up, each with the longest frame that reaches it if its path is
	// narrow.
	up      map[nic.NodeInfo]int
	silent  map[link.Addr]bool // nodes that the log has called silent
	refused map[refusalKey]toldRefusal
	outside outsiders

	// elsewhere holds, by the address of a peer, the other address from which its frames come and
	// are dropped, as logged.
	elsewhere map[link.Addr]link.Addr
}

type refusalKey struct {
	nic  uint64
	addr link.Addr
	why  string
}

type toldRefusal struct {
	at    time.Time
	times uint64
}

// noticePeers wakes watchPeers when a session has begun or ended. The loop calls it after each
// poll.
func (d *Daemon) noticePeers() {
	if n := d.engine.Changes(); n != d.peerChanges {
		d.peerChanges = n
		select {
		case d.peerNews <- struct{}{}:
		default: // one look finds all the news
		}
	}
}

// watchPeers logs what happens between this NIC and others: sessions at once, paths at each tick.
// For the paths it reads the counters page, which costs the engine nothing.
func (d *Daemon) watchPeers(ctx context.Context, tick <-chan time.Time) {
	l := peerLog{d: d, up: map[nic.NodeInfo]int{}, silent: map[link.Addr]bool{}, refused: map[refusalKey]toldRefusal{},
		elsewhere: map[link.Addr]link.Addr{}}
	var seen, refused uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.peerNews:
		case <-tick:
			paths := d.page.Load(vni.RelPathsNarrowed) + d.page.Load(vni.RelPathsWidened) +
				d.page.Load(vni.RelRoams) + d.page.Load(vni.DropAddress)
			hellos := d.page.Load(vni.DropRefusedHello) + d.page.Load(vni.DropStaleHello)
			if paths == seen && hellos == refused {
				continue
			}
			seen, refused = paths, hellos
		}
		l.look()
	}
}

// look asks the engine for its nodes and refusals, and logs the news.
func (l *peerLog) look() {
	var all []nic.NodeInfo
	var refused []nic.Refusal
	l.d.loop.Do(func(clock.Time) { all, refused = l.d.engine.Nodes(), l.d.engine.Refusals() })
	l.d.seen.Store(&all)
	l.sessions(all)
	l.elsewheres(all)
	l.refusals(refused, all, time.Now())
	l.silence(all)
}

// sessions logs how the peers that are up differ from those before. A restarted peer has another
// incarnation, so it is logged as down and up.
func (l *peerLog) sessions(all []nic.NodeInfo) {
	log := l.d.log
	are, ended, silent := map[nic.NodeInfo]int{}, map[uint64]error{}, map[link.Addr]string{}
	for _, n := range all {
		if n.Up {
			are[nic.NodeInfo{ID: n.ID, Incarnation: n.Incarnation, Addr: n.Addr, WholeFrame: n.WholeFrame,
				Key: n.Key, Binding: n.Binding, Suite: n.Suite}] = n.Narrow
			silent[n.Addr] = n.NoAnswerAt
			ended[n.ID] = rel.ErrRestarted // if another life of it was up
		} else {
			ended[n.ID] = n.Ended
		}
	}
	l.moves(are)
	for n := range l.up {
		if _, is := are[n]; !is {
			why, level := endOf(ended[n.ID])
			log.Log(context.Background(), level, "peer is down", "nic", registry.NICID(n.ID),
				"address", n.Addr, "why", why)
		}
	}
	for n, narrow := range are {
		was, old := l.up[n]
		if !old {
			n.Up = true
			if no := silent[n.Addr]; no != "" {
				log.Warn("a node answers at one address of its host and not at others", "nic", registry.NICID(n.ID),
					"address", n.Addr, "no_answer_at", no)
			}
			log.Info("peer is up", "nic", registry.NICID(n.ID), "address", n.Addr, "incarnation", n.Incarnation,
				"guard", cmp.Or(n.Suite, guardOf(&n)), "id_by", n.Binding)
		}
		switch {
		case narrow == was:
		case narrow > 0:
			log.Warn("the path to a peer carries less than both ends", "nic", registry.NICID(n.ID), "address", n.Addr,
				"frame", narrow, "of", n.WholeFrame,
				"mend", "a network with the MTU of the hosts, or an MTU of the hosts that it carries")
		default:
			log.Info("the path to a peer carries whole frames again", "nic", registry.NICID(n.ID),
				"address", n.Addr, "frame", n.WholeFrame)
		}
	}
	l.up = are
}

// moves logs the peers that are up in the same session at another address than before.
func (l *peerLog) moves(are map[nic.NodeInfo]int) {
	for was, narrow := range maps.Clone(l.up) {
		for is := range are {
			moved := is
			moved.Addr = was.Addr
			if moved != was || is == was {
				continue
			}
			l.d.log.Info("peer has moved", "nic", registry.NICID(is.ID), "from", was.Addr, "address", is.Addr)
			delete(l.up, was)
			l.up[is] = narrow
		}
	}
}

// elsewheres logs peers whose frames come from an address other than the one at which they are
// called. Such frames are dropped.
func (l *peerLog) elsewheres(all []nic.NodeInfo) {
	told := make(map[link.Addr]link.Addr, len(l.elsewhere))
	for _, n := range all {
		if !n.Elsewhere.IsValid() {
			continue
		}
		if told[n.Addr] = n.Elsewhere; l.elsewhere[n.Addr] != n.Elsewhere {
			l.d.log.Warn("frames of a peer come from another address, and are dropped", "nic", registry.NICID(n.ID),
				"address", n.Addr,
				"from", n.Elsewhere, "mend", elsewhereCure)
		}
	}
	l.elsewhere = told
}

// elsewhereCure tells the user the cure.
const elsewhereCure = "sealed links, whose sessions follow a peer, " +
	"or a peer that sends from the address at which it is called: " +
	"an address of its own in listen there, and no translator between"

// endOf returns why a session has ended, and the level at which to log it.
func endOf(why error) (string, slog.Level) {
	var elsewhere *rel.ElsewhereError
	switch {
	case errors.Is(why, rel.ErrGoodbye):
		return "its NIC was closed", slog.LevelInfo
	case errors.Is(why, rel.ErrRestarted):
		return "its NIC has restarted", slog.LevelInfo
	case errors.Is(why, rel.ErrDisplaced):
		return "another NIC has its address", slog.LevelInfo
	case errors.Is(why, rel.ErrForgotten), why == nil:
		return "neither the list of nodes nor the gossip has it any more", slog.LevelInfo
	case errors.As(why, &elsewhere):
		return fmt.Sprintf("it is silent at %v, and its frames come from another address, %v", elsewhere.Addr,
			elsewhere.From), slog.LevelWarn
	case errors.Is(why, rel.ErrUnreachable):
		return "it is silent", slog.LevelWarn
	}
	return why.Error(), slog.LevelWarn
}

// silence logs nodes that were given up because they did not answer. It logs each once until the
// node is up.
func (l *peerLog) silence(all []nic.NodeInfo) {
	for _, n := range all {
		switch {
		case n.Up:
			delete(l.silent, n.Addr)
		case l.outside.has(n.Addr): // its log line says why it does not answer
		case n.Incarnation == 0 && n.Ended != nil && !l.silent[n.Addr]:
			l.silent[n.Addr] = true
			l.d.log.Warn("a node does not answer", "address", n.Addr, "for", l.d.settings.unreachableAfter(),
				"why",
				"no NIC listens there, something on the way filters frames, or it refuses this NIC, "+
					"as its log then says",
				"next", "it is called on")
		}
	}
}

// refusals logs NICs that said hello and were refused.
func (l *peerLog) refusals(refused []nic.Refusal, nodes []nic.NodeInfo, now time.Time) {
	next := make(map[refusalKey]toldRefusal, len(refused))
	for _, r := range refused {
		if outside(r.Why) {
			l.outside.tell(l.d.log, &r, now)
			continue
		}
		k := refusalKey{r.NIC, r.Addr, r.Why.Error()}
		told, old := l.refused[k]
		if !old || r.Times > told.times && now.Sub(told.at) > repeatRefusalAfter {
			l.tellRefusal(&r, nodes)
			told = toldRefusal{now, r.Times}
		}
		next[k] = told
	}
	l.refused = next
}

func (l *peerLog) tellRefusal(r *nic.Refusal, nodes []nic.NodeInfo) {
	id := registry.NICID(r.NIC)
	switch {
	case errors.Is(r.Why, names.ErrOwnID), errors.Is(r.Why, trust.ErrOwnID):
		l.d.log.Error("another NIC has the id of this one: neither lets the other in", "nic", id, "address", r.Addr,
			"own_address", l.d.Addr(),
			"mend", "an id of its own for each: remove nic.key from the state directory of a copied host")
	case errors.Is(r.Why, names.ErrUnknown):
		l.d.log.Warn("a NIC is refused that is not in the configuration, which is static", "nic", id, "address", r.Addr)
	case errors.Is(r.Why, rel.ErrOutdated):
		var before uint64
		for _, n := range nodes {
			if n.ID == r.NIC {
				before = n.Incarnation
			}
		}
		l.d.log.Warn("a NIC is refused, since its incarnation was larger before", "nic", id,
			"address", r.Addr, "before", before,
			"mend",
			"its state directory as it was, or the number before in the file incarnation there: "+
				"its host's clock has gone back")
	case errors.Is(r.Why, names.ErrKnownID):
		l.d.log.Warn("a NIC is refused, since another one with its id is up", "nic", id, "address", r.Addr)
	default: // of package trust, with the cure
		l.d.log.Warn("a NIC is refused, which is not trusted", "nic", id, "address", r.Addr, "why", r.Why)
	}
}

// refusedAgainWithin returns how long a refusal counts as current: a NIC that is still refused
// says hello again within this time.
func (s *settings) refusedAgainWithin() time.Duration {
	return 2*s.unreachableAfter() + limits.RetryAtMost
}

// refusedSince returns the refusals of NICs that have said hello since then. The other NICs have
// ended, or have been let in.
func refusedSince(all []nic.Refusal, then clock.Time) []nic.Refusal {
	return slices.DeleteFunc(all, func(r nic.Refusal) bool { return r.Last < then })
}

// whyRefused returns the reason why this NIC refuses another one, or nil. The refusal of a NIC that
// has moved may name another address than the one that this NIC calls now.
func whyRefused(all []nic.Refusal, id uint64, addr link.Addr) error {
	for _, r := range all {
		if r.Addr == addr || r.NIC == id && errors.Is(r.Why, rel.ErrOutdated) {
			return r.Why
		}
	}
	return nil
}

// refusedAt returns the text of whyRefused, or "".
func refusedAt(all []nic.Refusal, id uint64, addr link.Addr) string {
	why := whyRefused(all, id, addr)
	switch {
	case why == nil:
		return ""
	case errors.Is(why, names.ErrOwnID), errors.Is(why, trust.ErrOwnID):
		return "the NIC there has the id of this one, so neither lets the other in"
	case errors.Is(why, names.ErrUnknown):
		return "the NIC there is refused: it is not in the configuration of this one, which is static"
	case errors.Is(why, rel.ErrOutdated):
		return "the NIC there is refused: its incarnation was larger before"
	case errors.Is(why, names.ErrKnownID):
		return "the NIC there is refused: another one with its id is up"
	case outside(why):
		return "the NIC there is refused: " + outsideText(why)
	}
	return "the NIC there is refused: " + why.Error()
}

// causeOf returns the Check.Cause of a refusal.
func causeOf(why error) string {
	switch {
	case why == nil:
		return ""
	case errors.Is(why, rel.ErrFabric):
		return ctl.CauseFabricKey
	case outside(why):
		return ctl.CausePlain
	case errors.Is(why, names.ErrOwnID), errors.Is(why, trust.ErrOwnID):
		return ctl.CauseOwnID
	case errors.Is(why, names.ErrKnownID):
		return ctl.CauseKnownID
	case errors.Is(why, trust.ErrNotYetValid), errors.Is(why, trust.ErrExpired):
		return ctl.CauseCertificate
	}
	return ctl.CauseRefused
}

// unreachableAfter returns the silence after which a NIC is given up.
func (s *settings) unreachableAfter() time.Duration {
	if d := time.Duration(s.config.UnreachableAfter); d != 0 {
		return d
	}
	return limits.UnreachableAfter
}
