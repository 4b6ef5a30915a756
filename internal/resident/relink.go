package resident

import (
	"errors"
	"maps"

	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/pdl/ebpf"
)

// setSegment makes all programs find a segment by its number, also those in the driver already.
// nil removes the segment. If one program cannot be compiled with the segment, none finds it.
func (p *Programs) setSegment(id uint32, s *ebpf.Segment) error {
	p.linking.Lock()
	defer p.linking.Unlock()
	p.mu.Lock()
	segments, closed := maps.Clone(p.segments), p.closed
	p.mu.Unlock()
	if delete(segments, id); s != nil {
		segments[id] = *s
	}
	if !closed {
		if err := p.relink(segments); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.segments = segments
	p.mu.Unlock()
	return nil
}

// relink makes the existing programs find other segments. The engine goes on while they are
// compiled.
func (p *Programs) relink(segments map[uint32]ebpf.Segment) (err error) {
	var links []*ebpf.Relink
	defer func() {
		for _, l := range links {
			err = errors.Join(err, l.Close())
		}
	}()
	if links, err = p.relinks(segments); err != nil {
		return err
	}
	for _, l := range links {
		if err := l.Load(); err != nil {
			return err
		}
	}
	if len(links) > 0 {
		p.cfg.Do(func(*program.Table) {
			for _, l := range links {
				err = errors.Join(err, l.Enter())
			}
		})
	}
	return err
}

// relinks begins the relink of all programs that use segments.
func (p *Programs) relinks(segments map[uint32]ebpf.Segment) (links []*ebpf.Relink, err error) {
	p.listing.Lock()
	some := len(p.all) > 0
	p.listing.Unlock()
	if !some {
		return nil, nil
	}
	p.cfg.Do(func(*program.Table) { // programs come and go only while the engine is ours
		p.listing.Lock()
		defer p.listing.Unlock()
		for r := range p.all {
			l, e := r.r.Relink(segments)
			if err = errors.Join(err, e); l != nil {
				links = append(links, l)
			}
		}
	})
	return links, err
}
