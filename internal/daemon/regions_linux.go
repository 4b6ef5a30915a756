package daemon

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/memory/filemem"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/refusal"
	"golang.org/x/sys/unix"
)

// Regions are memory that a process shares with the NIC, so that its messages need no copy, and
// other processes can PUT and GET. The daemon makes the memory and sends the descriptor, or the
// process makes it and sends the descriptor. Either way no process can make it shorter.

// alloc makes a region, within the quota of the process.
func (s *session) alloc(c *ctl.Client, a *ctl.Alloc) error {
	if a.Bytes < 1 || a.Bytes > limits.MaxRegion {
		return fmt.Errorf("%w: region of %d bytes; expected 1 to %d", ctl.ErrBadRequest, a.Bytes,
			int64(limits.MaxRegion))
	}
	m, err := s.newRegion(a)
	if err != nil {
		return err
	}
	size := int64(len(m.mem))
	r := ctl.Region{Bytes: size}
	s.d.loop.Do(func(clock.Time) {
		if s.expelled.Load() {
			err = ctl.ErrNICGone
		} else if r.ID, r.Key, err = s.d.engine.AddRegion(s.slot, m.mem[:a.Bytes:a.Bytes]); err == nil {
			// The region ends at a.Bytes, and not with its last page.
			s.regions[r.ID] = m
			s.bytes += size
		}
	})
	if err != nil {
		return errors.Join(sentinel(err), m.close())
	}
	return errors.Join(c.Reply(&ctl.Reply{Region: &r}, m.fd), m.shared())
}

// newRegion makes the memory of a region, if the quota of the process allows it.
func (s *session) newRegion(a *ctl.Alloc) (m *memory, err error) {
	size := (a.Bytes + limits.PageBytes - 1) / limits.PageBytes * limits.PageBytes
	refuse := func(size int64) error {
		if quota := s.d.settings.config.RegionBytes; size > quota-s.bytes {
			return s.tooMuch(size)
		}
		return nil
	}
	if err := refuse(size); err != nil {
		return nil, err
	}
	if a.Huge {
		m, err = newHugeMemory("region", int(size))
	} else if err = refusal.Memory(size); err == nil {
		if m, err = newMemory("region", int(size), false); err == nil {
			if err = refusal.Commit(m.mem); err != nil {
				err = errors.Join(err, m.close())
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ctl.ErrNoMemory, explainFiles(err))
	}
	if err := refuse(int64(len(m.mem))); err != nil { // huge pages are more than was asked for
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// take makes a region of memory that the process has made and sent a descriptor of, within the
// quota of the process.
func (s *session) take(c *ctl.Client, a *ctl.Register) error {
	m, err := s.mapGiven(a)
	if err != nil {
		return err
	}
	mem, err := mapped(m.Whole())
	if err != nil {
		return errors.Join(sentinel(err), mem.close())
	}
	size := int64(len(mem.mem))
	if quota := s.d.settings.config.RegionBytes; size > quota-s.bytes {
		return errors.Join(s.tooMuch(size), mem.close())
	}
	r := ctl.Region{Bytes: a.Bytes}
	s.d.loop.Do(func(clock.Time) {
		if s.expelled.Load() {
			err = ctl.ErrNICGone
		} else if r.ID, r.Key, err = s.d.engine.AddMemory(s.slot,
			nic.Memory{Bytes: m.Bytes, Sealed: a.Sealed}); err == nil {
			s.regions[r.ID] = mem
			s.bytes += size
		}
	})
	if err != nil {
		return errors.Join(sentinel(err), mem.close())
	}
	return c.Reply(&ctl.Reply{Region: &r})
}

// mapGiven maps memory that a process has sent. Package ctl has checked that no process can make
// it shorter.
func (s *session) mapGiven(a *ctl.Register) (*filemem.Mapping, error) {
	if a.Bytes < 1 || a.Bytes > limits.MaxRegion {
		return nil, fmt.Errorf("%w: region of %d bytes; expected 1 to %d", ctl.ErrBadRequest, a.Bytes,
			int64(limits.MaxRegion))
	}
	if a.Bytes > s.d.settings.config.RegionBytes-s.bytes {
		return nil, s.tooMuch(a.Bytes)
	}
	m, err := filemem.Map(a.FD, a.Offset, int(a.Bytes), !a.Sealed)
	switch {
	case errors.Is(err, unix.ENOMEM):
		return nil, fmt.Errorf("%w: %w", ctl.ErrNoMemory, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ctl.ErrBadRequest, err)
	}
	return m, nil
}

// tooMuch returns the error for a region of size bytes that exceeds the quota of the process.
func (s *session) tooMuch(size int64) error {
	return fmt.Errorf("%w: region of %d bytes: %v has %d registered, and its quota is %d (region_bytes)",
		ctl.ErrNoMemory, size, s.name, s.bytes, s.d.settings.config.RegionBytes)
}

// part gives a process a handle for a part of one of its regions.
func (s *session) part(c *ctl.Client, a *ctl.Part) (err error) {
	if a.Offset < 0 || a.Bytes < 1 {
		return fmt.Errorf("%w: a part of %d bytes from %d on; expected 1 or more, from 0 or more",
			ctl.ErrBadRequest, a.Bytes, a.Offset)
	}
	r := ctl.Region{Bytes: a.Bytes}
	s.d.loop.Do(func(clock.Time) {
		if s.expelled.Load() {
			err = ctl.ErrNICGone
		} else {
			r.ID, r.Key, err = s.d.engine.AddPart(s.slot, a.Region, uint64(a.Offset), uint64(a.Bytes), a.Sealed)
		}
	})
	if err != nil {
		return sentinel(err)
	}
	return c.Reply(&ctl.Reply{Region: &r})
}

// free takes memory back. The engine refuses while the process's own operations use it. Once the
// engine agrees, it does not touch the memory again.
func (s *session) free(c *ctl.Client, f *ctl.Free) (err error) {
	var m *memory
	s.d.loop.Do(func(now clock.Time) {
		if s.expelled.Load() {
			err = ctl.ErrNICGone
		} else if err = s.d.engine.RemoveRegion(now, s.slot, s.gen, f.Region); err == nil {
			if m = s.regions[f.Region]; m != nil { // else it was a part
				delete(s.regions, f.Region)
				s.bytes -= int64(len(m.mem))
			}
		}
	})
	if err != nil {
		return sentinel(err)
	}
	if m != nil {
		err = m.close()
	}
	return errors.Join(err, c.Reply(&ctl.Reply{}))
}
