package daemon

import (
	"errors"
	"fmt"
	"sync"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/refusal"
)

// Segments are memory that programs in the NIC and processes share, known by a number (PANIC-23).
// The daemon makes the memory when the first process asks for a number, and gives it to other
// processes of the same user. It frees the memory when the last process releases it or dies. A
// segment that a tool makes stays until a tool deletes it (segmenttools_linux.go). If programs
// can reside in the driver of the link, a segment is memory that they reach too
// (internal/resident).
type segments struct {
	making sync.Mutex          // held while a segment is made or freed
	all    map[uint32]*segment // changed with both this lock and the loop's
}

// segment is one existing segment.
type segment struct {
	mem   *memory
	close func() error
	bytes int64 // of data
	uid   int   // of the user whose processes may share it
	users map[*session]int

	others string // what other users may do: ctl.OthersNone, …
	kept   bool   // made by a tool: it stays without users
}

// share finds or makes a segment for a process, and answers with its memory.
func (s *session) share(c *ctl.Client, r *ctl.SharedSegment) error {
	if r.Bytes < 1 || r.Bytes > limits.SegmentBytes {
		return fmt.Errorf("%w: segment of %d bytes; expected 1 to %d", ctl.ErrBadRequest, r.Bytes, limits.SegmentBytes)
	}
	size := (r.Bytes + 7) / 8 * 8
	if quota := s.d.settings.config.RegionBytes; size > quota-s.bytes {
		return fmt.Errorf("%w: segment of %d bytes: %v has %d registered, and its quota is %d (region_bytes)",
			ctl.ErrNoMemory, size, s.name, s.bytes, quota)
	}
	all := &s.d.segments
	all.making.Lock()
	defer all.making.Unlock()
	g := all.all[r.ID]
	if g == nil {
		var err error
		if g, err = s.d.makeSegment(r.ID, size, s.uid); err != nil {
			return err
		}
	}
	switch {
	case g.uid != s.uid && s.uid != 0 && g.others != ctl.OthersWrite:
		return fmt.Errorf("%w: segment %d is user %d's", ctl.ErrRefused, r.ID, g.uid)
	case g.bytes != size:
		return fmt.Errorf("%w: segment %d has %d bytes, not %d", ctl.ErrBadRequest, r.ID, g.bytes, size)
	}
	var err error
	s.d.loop.Do(func(clock.Time) {
		if s.expelled.Load() || !s.d.engine.ShareSegment(s.slot, s.gen, r.ID, true) {
			err = ctl.ErrNICGone
			return
		}
		g.users[s]++
		s.bytes += size
	})
	if err != nil {
		return errors.Join(err, s.d.dropSegment(r.ID))
	}
	return c.Reply(&ctl.Reply{Segment: &ctl.SharedSegment{ID: r.ID, Bytes: size + program.SegmentTail}}, g.mem.fd)
}

// makeSegment makes a segment that no process shares yet. The caller holds the lock.
func (d *Daemon) makeSegment(id uint32, size int64, uid int) (*segment, error) {
	g := &segment{bytes: size, uid: uid, users: make(map[*session]int), others: ctl.OthersNone}
	total := int(size) + program.SegmentTail
	var apart error // why programs in the driver do not reach it
	if d.resident != nil {
		m, err := d.resident.AddSegment(id, int(size))
		if apart = err; err == nil {
			g.mem, g.close = &memory{fd: m.Fd, mem: m.Bytes[:total:total]}, m.Close
		} else {
			d.log.Warn("programs in the driver of the link cannot reach a segment", "error", err)
		}
	}
	if g.mem == nil {
		if err := refusal.Memory(int64(total)); err != nil {
			return nil, fmt.Errorf("%w: segment: %w", ctl.ErrNoMemory, err)
		}
		m, err := newMemory("segment", total, false)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ctl.ErrNoMemory, explainFiles(err))
		}
		g.mem, g.close = m, m.close
	}
	var err error
	d.loop.Do(func(clock.Time) {
		if err = d.engine.Programs().AddSegment(id, g.mem.mem); err == nil {
			d.engine.Programs().KeepApart(id, apart)
			d.segments.all[id] = g
		}
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ctl.ErrNoMemory, err), g.close())
	}
	return g, nil
}

// dropSegment frees a segment if no process shares it and no tool keeps it. The caller holds the
// lock.
func (d *Daemon) dropSegment(id uint32) (err error) {
	g := d.segments.all[id]
	if g == nil || len(g.users) > 0 || g.kept {
		return nil
	}
	d.loop.Do(func(clock.Time) {
		err = d.engine.Programs().RemoveSegment(id)
		delete(d.segments.all, id)
	})
	return errors.Join(err, g.close())
}

// unshare releases a segment for a process.
func (s *session) unshare(c *ctl.Client, r *ctl.SharedSegment) error {
	all := &s.d.segments
	all.making.Lock()
	defer all.making.Unlock()
	g := all.all[r.ID]
	if g == nil || g.users[s] == 0 {
		return fmt.Errorf("%w: %v does not share segment %d", ctl.ErrBadRequest, s.name, r.ID)
	}
	s.d.loop.Do(func(clock.Time) {
		s.bytes -= g.bytes
		if g.users[s]--; g.users[s] == 0 {
			delete(g.users, s)
			s.d.engine.ShareSegment(s.slot, s.gen, r.ID, false)
		}
	})
	return errors.Join(s.d.dropSegment(r.ID), c.Reply(&ctl.Reply{}))
}

// unshareAll releases all segments of a process that has gone.
func (s *session) unshareAll() error {
	all := &s.d.segments
	all.making.Lock()
	defer all.making.Unlock()
	var errs []error
	for id, g := range all.all {
		if g.users[s] > 0 {
			s.d.loop.Do(func(clock.Time) { delete(g.users, s) })
			errs = append(errs, s.d.dropSegment(id))
		}
	}
	return errors.Join(errs...)
}
