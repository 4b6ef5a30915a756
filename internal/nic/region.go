package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A region is memory of a process that the NIC may reach. The process's own sends and receives
// name it in descriptors. Other processes with its handle PUT into it and GET from it (USNIC-55).
// The caller of the engine ensures that the memory stays (decision 10).
type region struct {
	owner   *process
	id      uint32
	key     uint64
	mem     []byte
	whole   *region // the region of which it is a part; nil: none
	sealed  bool    // read-only
	reach   func(mem []byte, writes bool) bool
	busy    list[inbound] // PUTs arriving in it
	serving list[send]    // GETs that are answered from it
}

// Memory describes the memory of a region.
type Memory struct {
	Bytes  []byte
	Sealed bool // other processes may only GET

	// Reach reports whether a part can be read or written, for memory that its owner may unmap. It
	// is called before others' operations, which are refused if it returns false. Nil: the memory
	// can always be reached.
	Reach func(part []byte, writes bool) bool
}

// AddRegion lets the NIC reach memory on behalf of the process at slot. Descriptors name it by id,
// handles by id and key.
func (e *Engine) AddRegion(slot uint16, mem []byte) (id uint32, key uint64, err error) {
	return e.AddMemory(slot, Memory{Bytes: mem})
}

// AddMemory is AddRegion for memory with limits.
func (e *Engine) AddMemory(slot uint16, m Memory) (id uint32, key uint64, err error) {
	e.begin()
	p := e.process(slot)
	if p == nil || !p.served() {
		return 0, 0, fmt.Errorf("%w at slot %d", ErrNoProcess, slot)
	}
	r := &region{owner: p, mem: m.Bytes, sealed: m.Sealed, reach: m.Reach}
	err = e.openRegion(r)
	return r.id, r.key, err
}

// AddPart lets others reach n bytes of a region of the process at slot by a separate id and key,
// which give no access to the rest of the region. If sealed, others may only GET. The part ends
// with its region at the latest.
func (e *Engine) AddPart(slot uint16, of uint32, offset, n uint64, sealed bool) (id uint32, key uint64, err error) {
	e.begin()
	p := e.process(slot)
	if p == nil || !p.served() {
		return 0, 0, fmt.Errorf("%w at slot %d", ErrNoProcess, slot)
	}
	if of == 0 || int(of) >= len(p.regions) || p.regions[of] == nil || p.regions[of].whole != nil {
		return 0, 0, fmt.Errorf("%w: a part of region %d of slot %d", ErrNoRegion, of, slot)
	}
	mem, err := p.region(of, offset, n, false)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrNoRegion, err)
	}
	whole := p.regions[of]
	r := &region{owner: p, mem: mem, whole: whole, sealed: sealed || whole.sealed, reach: whole.reach}
	err = e.openRegion(r)
	return r.id, r.key, err
}

// openRegion gives a region its id and its key.
func (e *Engine) openRegion(r *region) error {
	p, id := r.owner, uint32(1)
	for int(id) < len(p.regions) && p.regions[id] != nil {
		id++
	}
	if id > limits.Regions {
		return fmt.Errorf("%w: %v has %d regions and shares open, which is the limit", ErrRegions, p, limits.Regions)
	}
	if int(id) == len(p.regions) {
		p.regions = append(p.regions, nil)
	}
	r.id, r.key = id, e.cfg.Secrets.Uint64(secret.RegionKey)
	if e.cfg.Defect == mutate.RegionKeyKept {
		r.key = uint64(id)
	}
	p.regions[id] = r
	return nil
}

// RemoveRegion removes a region. PUTs and GETs of others that are in progress there are refused.
// If operations of the process itself use the memory, including commands in its queue, it fails
// with ErrRegionBusy and the region stays. Otherwise the engine does not touch the memory after it
// returns. A process that has ended has no region: another process may have its slot, and the id.
func (e *Engine) RemoveRegion(now clock.Time, slot uint16, gen, id uint32) error {
	e.beginAt(now)
	p := e.process(slot)
	if p != nil && p.gen == gen {
		// This makes all memory that queued commands name count as in use; the next Poll does the
		// rest.
		e.takeCommands(p, p.vni.Segment().Geometry().Commands)
	}
	if p == nil || p.gen != gen || id == 0 || int(id) >= len(p.regions) || p.regions[id] == nil {
		return fmt.Errorf("%w: region %d of slot %d", ErrNoRegion, id, slot)
	}
	if p.regions[id].whole == nil && p.uses(p.regions[id].mem) {
		return fmt.Errorf("%w: region %d of slot %d", ErrRegionBusy, id, slot)
	}
	e.closeRegion(p.regions[id])
	return nil
}

func (e *Engine) closeRegion(r *region) {
	for inb := r.busy.front(); inb != nil && e.cfg.Defect != mutate.RegionFilledOn; inb = r.busy.front() {
		e.refuse(inb.peer, inb.id, inb.env.SrcSlot, inb.env.Token, wire.ReasonRegion)
		e.freeInbound(inb)
	}
	for s := r.serving.front(); s != nil && e.cfg.Defect != mutate.RegionServedOn; s = r.serving.front() {
		e.refuse(s.peer, 0, s.remote.Asker, s.remote.Token, wire.ReasonRegion)
		e.dropServe(s)
	}
	r.owner.regions[r.id] = nil
	for _, part := range r.owner.regions {
		if part != nil && part.whole == r {
			e.closeRegion(part)
		}
	}
}

// region returns a piece of one of the process's own regions, for an operation that reads it, or
// writes it.
func (p *process) region(id uint32, offset, n uint64, writes bool) ([]byte, error) {
	if int(id) >= len(p.regions) || p.regions[id] == nil {
		return nil, fmt.Errorf("%w: descriptor names region %d, which is not open", errBadRegion, id)
	}
	if writes && p.regions[id].sealed {
		return nil, fmt.Errorf("%w: descriptor names region %d to be written, which may be read only", errBadRegion, id)
	}
	mem := p.regions[id].mem
	if offset > uint64(len(mem)) || n > uint64(len(mem))-offset {
		return nil, fmt.Errorf("%w: descriptor names bytes %d to %d of region %d, which has %d", errOutOfRange,
			offset, offset+n, id, len(mem))
	}
	return mem[offset : offset+n : offset+n], nil
}

// remoteMemory returns the bytes that a PUT (writes) or a GET names, or the reason to refuse it. n
// of them, from at on, are about to be read or written. A GET that only asks whether its process
// lives needs no memory. The NIC answers it even while the process is stopped.
func (e *Engine) remoteMemory(p *process, m *wire.Remote, writes bool, at, n uint64) ([]byte, *region, wire.Reason) {
	switch {
	case p == nil || !p.served():
		return nil, nil, wire.ReasonProcessGone
	case p.gen != m.Gen:
		return nil, nil, wire.ReasonStaleGeneration
	case m.Asks() && !writes:
		return nil, nil, wire.ReasonNone
	case m.Region == 0 || int(m.Region) >= len(p.regions) || p.regions[m.Region] == nil:
		return nil, nil, wire.ReasonRegion
	case p.regions[m.Region].key != m.Key: // a guess at keys must not learn that the region exists
		e.counts[vni.NICRefusedKey]++
		return nil, nil, wire.ReasonRegion
	case writes && p.regions[m.Region].sealed:
		e.counts[vni.NICRefusedKey]++
		return nil, nil, wire.ReasonRegion
	}
	r := p.regions[m.Region]
	if (m.Offset > uint64(len(r.mem)) || m.Length > uint64(len(r.mem))-m.Offset) &&
		(e.cfg.Defect != mutate.RangeWraps || m.Offset+m.Length > uint64(len(r.mem))) {
		return nil, nil, wire.ReasonRange
	}
	mem := r.mem[m.Offset : m.Offset+m.Length : m.Offset+m.Length]
	if r.reach != nil && !r.reach(mem[at:at+n], writes) {
		return nil, nil, wire.ReasonRegion
	}
	return mem, r, wire.ReasonNone
}
