package nic

import (
	"unsafe"

	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// The NIC Memory Map of QNIX (QNIX-56, QNIX-57), as far as the memory is the engine's own: of its six segments the virtual
// network interfaces and the control program's code belong to the caller that allocated them. In QNIX a segment is a range of addresses;
// here it is what the tables of that name take on the heap, counted by what they have in them. Maps are reckoned at their
// keys, values and a quarter more.

// Segment is a part of a NIC's memory.
type Segment struct {
	Name  string
	Parts []SegmentPart
}

// SegmentPart is a table or a pool of a segment.
type SegmentPart struct {
	Name    string
	Entries int   // there can be; 0: no number
	Used    int   // of them
	Bytes   int64 // that it takes
	InUse   int64 // of those: by what is under way, or registered
}

// Names of the segments.
const (
	SegmentVNIs     = "virtual network interfaces"
	SegmentTable    = "process table"
	SegmentDriver   = "driver command queue"
	SegmentProgram  = "control program code"
	SegmentInternal = "internal memory"
	SegmentManaged  = "managed memory"
)

// ProcessBytes is what a registered process takes of the engine's memory before it does anything, in bytes.
func ProcessBytes(g vni.Geometry) int64 { return tableEntryBytes(g) + operationBytes(g) }

// tableEntryBytes is its process table entry with the two halves of its VNI.
func tableEntryBytes(g vni.Geometry) int64 {
	const emptyMaps = 2 * 48 // destinations and sources
	return size[process]() + size[region]() + size[vni.NIC]() + size[vni.Segment]() + size[names.Entry]() + emptyMaps + 2*int64(g.Contexts)
}

// operationBytes is the entries that wait for its operations, one for each context.
func operationBytes(g vni.Geometry) int64 {
	return int64(g.Contexts) * (size[send]() + size[receive]())
}

func size[T any]() int64 {
	var t T
	return int64(unsafe.Sizeof(t))
}

// inMap is what n entries of a map take.
func inMap[K comparable, V any](n int) int64 { return int64(n) * (size[K]() + size[V]()) * 5 / 4 }

// MemoryMap tells how much the tables of the engine take, segment by segment. It looks at every process and group.
func (e *Engine) MemoryMap() []Segment {
	e.begin()
	return []Segment{e.tableSegment(), e.driverSegment(), e.internalSegment(), e.managedSegment()}
}

// tableSegment is the process table: an array of entries of which each belongs to a slot, and what hangs on those in use.
func (e *Engine) tableSegment() Segment {
	entries := SegmentPart{Name: "entries", Entries: e.cfg.MaxProcesses, Used: e.procs.registered,
		Bytes: e.procs.bytes()}
	for p := range e.procs.all {
		entries.InUse += tableEntryBytes(p.vni.Segment().Geometry())
	}
	entries.Bytes += entries.InUse
	return Segment{SegmentTable, []SegmentPart{entries}}
}

func (e *Engine) driverSegment() Segment {
	pending, of := e.driver.other.Pending()
	queue := SegmentPart{Name: "commands", Entries: of, Used: pending, Bytes: driver.QueueBytes, InUse: int64(pending) * driver.QueueBytes / int64(of)}
	return Segment{SegmentDriver, []SegmentPart{queue}}
}

// internalSegment is the three tables of the fabric, and Driver Info with what the driver ties to the process table.
func (e *Engine) internalSegment() Segment {
	nodes := SegmentPart{Name: "NIC table", Entries: limits.Peers, Used: len(e.peers.list),
		Bytes: int64(len(e.peers.list)) * (size[peer]() + size[rel.Endpoint]() + inMap[uint64, *rel.Endpoint](1) + inMap[link.Addr, *rel.Endpoint](1))}
	entries, _ := e.names.Len()
	table := SegmentPart{Name: "name table", Used: entries,
		Bytes: int64(entries) * (size[names.Entry]() + inMap[vni.Name, *names.Entry](2) + inMap[vni.Address, *names.Entry](1))}
	g := e.groups.Usage()
	groups := SegmentPart{Name: "group table", Used: g.Groups, Bytes: int64(g.Groups) * g.GroupBytes}
	info := SegmentPart{Name: "driver info", Bytes: size[driver.NIC]() + driver.TableBytes(e.cfg.MaxProcesses)}
	parts := []SegmentPart{nodes, table, groups, info}
	for i := range parts {
		parts[i].InUse = parts[i].Bytes
	}
	return Segment{SegmentInternal, parts}
}

// managedSegment is what operations take and give back.
func (e *Engine) managedSegment() Segment {
	sends := SegmentPart{Name: "scheduling queue entries", Bytes: int64(e.serves.Made()) * size[send](), Used: e.serves.InUse()}
	receives := SegmentPart{Name: "receive table entries", Bytes: int64(e.inbounds.Made()) * size[inbound]()}
	maps := SegmentPart{Name: "descriptor maps"}
	var r receive
	mapBytes := int64(unsafe.Sizeof(r.space))
	for p := range e.procs.all {
		sends.add(len(p.sends), busySends(p), size[send]())
		receives.add(len(p.recvs)+len(p.straights), p.posted.n, size[receive]()-mapBytes)
		maps.add(len(p.recvs)+len(p.straights), matched(p), mapBytes)
		receives.Used += p.stray.n
	}
	sends.InUse = int64(sends.Used) * size[send]()
	receives.InUse = int64(receives.Used) * (size[receive]() - mapBytes)
	maps.InUse = int64(maps.Used) * mapBytes
	staging := SegmentPart{Name: "staging buffers", Bytes: int64(e.staging.inUse + e.staging.kept), InUse: int64(e.staging.inUse)}
	transit := SegmentPart{Name: "transit buffers", Bytes: int64(e.transit.inUse + e.transit.kept), InUse: int64(e.transit.inUse)}
	seats := SegmentPart{Name: "process list nodes"}
	g := e.groups.Usage()
	seats.add(g.Seats, g.SeatsInUse, g.SeatBytes)
	seats.InUse = int64(seats.Used) * g.SeatBytes
	return Segment{SegmentManaged, []SegmentPart{sends, receives, maps, staging, transit, seats}}
}

// add counts so many more entries of a size.
func (s *SegmentPart) add(entries, used int, each int64) {
	s.Entries += entries
	s.Used += used
	s.Bytes += int64(entries) * each
}

func busySends(p *process) (n int) {
	for i := range p.sends {
		if p.sends[i].state != sendIdle {
			n++
		}
	}
	return n
}

func matched(p *process) (n int) {
	for r := range p.receives {
		if r.state == recvMatched {
			n++
		}
		if r.ring != nil {
			n += len(r.ring.coming)
		}
	}
	return n
}
