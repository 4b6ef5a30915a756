package daemon

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/secure"
)

// Tools make, read, write and delete segments without a process. The kernel tells the tool's
// user. A segment that a tool makes is kept: it stays until a tool deletes it, or the daemon
// ends.
//
//	              owner, root, daemon's user   others, with --others read   with --others write
//	read          yes                          yes                          yes
//	write, share  yes                          no                           yes
//	delete        yes                          no                           no

// answerSegment answers a request of a tool about one segment, and counts a refusal.
func (d *Daemon) answerSegment(c *ctl.Client, r *ctl.SegmentTool) error {
	a, err := d.segmentFor(c, r)
	if err != nil {
		d.countControl((*nic.Engine).SegmentRefused)
		return err
	}
	return c.Reply(&ctl.Reply{Tool: a})
}

func (d *Daemon) segmentFor(c *ctl.Client, r *ctl.SegmentTool) (*ctl.SegmentAnswer, error) {
	all := &d.segments
	all.making.Lock()
	defer all.making.Unlock()
	g := all.all[r.ID]
	if r.Do == ctl.SegmentCreate {
		return d.keepSegment(c, r, g)
	}
	if g == nil {
		return nil, fmt.Errorf("%w: %d; `weft segment list` shows those of this NIC", ctl.ErrNoSegment, r.ID)
	}
	if err := d.mayUse(c, r, g); err != nil {
		return nil, err
	}
	if r.Do == ctl.SegmentDelete {
		return d.deleteSegment(r.ID, g)
	}
	return d.moveSegment(r, g)
}

// keepSegment makes a segment that stays without a process. The caller holds the lock.
func (d *Daemon) keepSegment(c *ctl.Client, r *ctl.SegmentTool, there *segment) (*ctl.SegmentAnswer, error) {
	size := (r.Bytes + 7) / 8 * 8
	kept, bytes := d.keptBy(c.Peer.UID)
	switch quota := d.settings.config.RegionBytes; {
	case !d.allowed(c):
		return nil, fmt.Errorf("%w: user %d only has processes of jobs here; expected the daemon's user, root, "+
			"or one of allow_uids or allow_gids",
			ctl.ErrRefused, c.Peer.UID)
	case there != nil:
		return nil, fmt.Errorf("%w: segment %d exists, with %d bytes, and is %s's", ctl.ErrTaken, r.ID, there.bytes,
			secure.UserName(there.uid))
	case kept >= limits.SegmentsKept:
		return nil, fmt.Errorf("%w: user %d keeps %d segments; at most %d", ctl.ErrNoMemory, c.Peer.UID, kept,
			limits.SegmentsKept)
	case size > quota-bytes:
		return nil, fmt.Errorf("%w: segment of %d bytes: user %d keeps %d bytes in segments, "+
			"and the quota is %d (region_bytes)",
			ctl.ErrNoMemory, size, c.Peer.UID, bytes, quota)
	}
	g, err := d.makeSegment(r.ID, size, c.Peer.UID)
	if err != nil {
		return nil, err
	}
	if r.Others != "" {
		g.others = r.Others
	}
	g.kept = true
	d.log.Info("segment created", "segment", r.ID, "bytes", size, "uid", g.uid, "others", g.others)
	return &ctl.SegmentAnswer{Info: g.info(r.ID)}, nil
}

// keptBy returns how many segments a user keeps, and how many bytes they have.
func (d *Daemon) keptBy(uid int) (n int, bytes int64) {
	for _, g := range d.segments.all {
		if g.kept && g.uid == uid {
			n++
			bytes += g.bytes
		}
	}
	return n, bytes
}

// mayUse returns an error if the user of a client may not do to a segment what r asks.
func (d *Daemon) mayUse(c *ctl.Client, r *ctl.SegmentTool, g *segment) error {
	switch {
	case g.uid == c.Peer.UID || d.owner(c):
		return nil
	case g.others == ctl.OthersWrite && r.Do != ctl.SegmentDelete, g.others == ctl.OthersRead &&
		r.Do == ctl.SegmentRead:
		return nil
	}
	return fmt.Errorf("%w: user %d may not %s segment %d; it is %s's, and other users may %s", ctl.ErrRefused,
		c.Peer.UID, r.Do, r.ID,
		secure.UserName(g.uid), othersText(g.others))
}

// othersText returns, as text, what users other than the owner may do.
func othersText(others string) string {
	switch others {
	case ctl.OthersRead:
		return "only read it"
	case ctl.OthersWrite:
		return "read and write it"
	}
	return "neither read nor write it"
}

// deleteSegment stops keeping a segment, and frees it if no process shares it. The caller holds
// the lock.
func (d *Daemon) deleteSegment(id uint32, g *segment) (*ctl.SegmentAnswer, error) {
	if !g.kept {
		return nil, fmt.Errorf("%w: segment %d was not made by a tool; it goes with the last of its %d processes",
			ctl.ErrInUse, id, len(g.users))
	}
	info := g.info(id)
	g.kept = false
	d.log.Info("segment deleted", "segment", id, "uid", g.uid, "processes", info.Processes)
	return &ctl.SegmentAnswer{Info: info}, d.dropSegment(id)
}

// moveSegment reads or writes a part of a segment. No program runs meanwhile. The caller holds
// the lock.
func (d *Daemon) moveSegment(r *ctl.SegmentTool, g *segment) (*ctl.SegmentAnswer, error) {
	n := r.Bytes
	if r.Do == ctl.SegmentWrite {
		n = int64(len(r.Data)) + r.After
	}
	if r.Offset > g.bytes || n > g.bytes-r.Offset {
		return nil, fmt.Errorf("%w: bytes %d to %d of segment %d; it has %d", ctl.ErrBadRequest, r.Offset,
			r.Offset+n, r.ID, g.bytes)
	}
	a := &ctl.SegmentAnswer{Info: ctl.SegmentInfo{ID: r.ID, Bytes: g.bytes}}
	d.loop.Do(func(clock.Time) {
		if r.Do == ctl.SegmentWrite {
			copy(g.mem.mem[r.Offset:], r.Data)
			return
		}
		a.Data = append(a.Data, g.mem.mem[r.Offset:r.Offset+n]...)
	})
	return a, nil
}

// listSegments describes the segments, by number.
func (d *Daemon) listSegments() (l []ctl.SegmentInfo) {
	all := &d.segments
	all.making.Lock()
	defer all.making.Unlock()
	for _, id := range slices.Sorted(maps.Keys(all.all)) {
		l = append(l, all.all[id].info(id))
	}
	return l
}

// info describes a segment. The caller holds the lock.
func (g *segment) info(id uint32) ctl.SegmentInfo {
	locks, flags := program.SegmentSync(g.mem.mem)
	return ctl.SegmentInfo{
		ID: id, Bytes: g.bytes, Owner: g.uid, User: secure.UserName(g.uid), Others: g.others, Kept: g.kept,
		Processes: len(g.users), Locks: countSet(locks), Flags: countSet(flags),
	}
}

// countSet returns how many words are set. Processes and programs may write them at the same
// time.
func countSet(words []uint32) (n int) {
	for i := range words {
		if atomic.LoadUint32(&words[i]) != 0 {
			n++
		}
	}
	return n
}

// dropKept frees the segments that tools have made. The engine runs no programs any more.
func (d *Daemon) dropKept() error {
	all := &d.segments
	all.making.Lock()
	defer all.making.Unlock()
	var errs []error
	for id, g := range all.all {
		if g.kept {
			g.kept = false
			errs = append(errs, d.dropSegment(id))
		}
	}
	return errors.Join(errs...)
}
