package daemon

import (
	"cmp"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/coll"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/vni"
)

// stuck lists the ranks of a job on this host, by rank, with their states and where they stand.
// known are the ranks that a keeper has reported. The NIC adds the attached ranks, whichever
// launcher started them.
func (d *Daemon) stuck(job string, known []ctl.RankInfo) []ctl.RankInfo {
	var all []nic.Standing
	d.loop.Do(func(now clock.Time) {
		all = d.engine.Standings(now, func(n vni.Name) bool { return n.Application() == job })
	})
	ranks := slices.Clone(known)
	for i := range all {
		s := &all[i]
		at := slices.IndexFunc(ranks, func(r ctl.RankInfo) bool { return r.Rank == int(s.Name.Index) })
		if at < 0 {
			at = len(ranks)
			ranks = append(ranks, ctl.RankInfo{Rank: int(s.Name.Index), PID: int(s.PID)})
		}
		r := &ranks[at]
		r.Attached, r.Standing = true, standing(s)
		if r.PID != int(s.PID) || r.State == "" { // a rank may be a script that starts the program
			r.State = cmp.Or(processState(int(s.PID)), r.State)
		}
	}
	slices.SortStableFunc(ranks, func(a, b ctl.RankInfo) int { return cmp.Compare(a.Rank, b.Rank) })
	return ranks
}

// standing translates a Standing for tools.
func standing(s *nic.Standing) *ctl.Standing {
	t := &ctl.Standing{Parked: s.Parked, MoreGroups: s.MoreGroups, MoreWaits: s.MoreWaits, MoreUnread: s.MoreUnread}
	for i := range s.Groups {
		t.Groups = append(t.Groups, groupStanding(&s.Groups[i]))
	}
	for i := range s.Waits {
		w := &s.Waits[i]
		t.Waits = append(t.Waits, ctl.Wait{What: w.What, Why: w.Why, Peer: nameText(w.Peer), At: address(w.At),
			Any: w.Any, Unreachable: w.Unreachable,
			Port: uint16(w.Tag >> vni.PortShift), Tag: w.Tag & vni.TagMask, AnyTag: w.AnyTag, Bytes: w.Bytes,
			Left: w.Left, For: int64(w.For)})
	}
	for _, u := range s.Unread {
		t.Unread = append(t.Unread, ctl.Unread{From: nameText(u.From), At: address(u.At),
			Port: uint16(u.Tag >> vni.PortShift), Tag: u.Tag & vni.TagMask,
			Bytes: u.Bytes, For: int64(u.For)})
	}
	return t
}

func groupStanding(g *coll.Standing) ctl.GroupStanding {
	t := ctl.GroupStanding{Group: g.Key.Application(), Index: g.Key.Index, Part: vni.IsPart(&g.Key), State: g.State,
		Size: g.Size, Present: g.Present, Rank: g.Rank,
		Under: g.Under, Done: g.Done, For: int64(g.For), Mismatch: g.Mismatch, Lost: nameText(g.Lost),
		LostAt: address(g.LostAt)}
	if g.In.Kind != "" {
		t.In = &ctl.GroupStep{Number: g.In.Number, Kind: g.In.Kind, Root: nameText(g.In.Name)}
	}
	return t
}

// nameText returns a name as text, or "" if it is not known.
func nameText(n vni.Name) string {
	if n.IsZero() {
		return ""
	}
	return n.String()
}

func address(a vni.Address) *ctl.Address {
	if a.NIC == 0 {
		return nil
	}
	return &ctl.Address{NIC: registry.NICID(a.NIC), Slot: a.Slot, Generation: a.Gen}
}
