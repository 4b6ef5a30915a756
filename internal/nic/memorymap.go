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

// The NIC Memory Map of QNIX (QNIX-56, QNIX-57), as far as the memory is the engine's. Two of its
// six segments belong to the caller that allocated them: the virtual network interfaces and the
// control program's code. In QNIX a segment is a range of addresses. Here it is the heap memory of
// the tables of that name, counted by their entries. A map counts as its keys and values and a
// quarter more.

// Segment is a part of a NIC's memory.
type Segment struct {
	Name  string
	Parts []SegmentPart
}

// SegmentPart is a table or a pool of a segment.
type SegmentPart struct {
	Name    string
	Entries int   // most entries possible; 0: not counted
	Used    int   // entries in use
	Bytes   int64 // that it takes
	InUse   int64 // bytes of entries in progress or registered
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

// ProcessBytes returns the bytes of the engine's memory that a registered process takes before it
// does anything.
func ProcessBytes(g vni.Geometry) int64 { return tableEntryBytes(g) + operationBytes(g) }

// tableEntryBytes returns the size of a process table entry with the two halves of its VNI.
func tableEntryBytes(g vni.Geometry) int64 {
	const emptyMaps = 2 * 48 // destinations and sources
	return size[process]() + size[region]() + size[vni.NIC]() + size[vni.Segment]() + size[names.Entry]() +
		emptyMaps + 2*int64(g.Contexts)
}

// operationBytes returns the size of the entries that wait for a process's operations, one send
// and one receive for each context.
func operationBytes(g vni.Geometry) int64 {
	return int64(g.Contexts) * (size[send]() + size[receive]())
}

func size[T any]() int64 {
	var t T
	return int64(unsafe.Sizeof(t))
}

// inMap returns the bytes that n entries of a map take.
func inMap[K comparable, V any](n int) int64 { return int64(n) * (size[K]() + size[V]()) * 5 / 4 }

// MemoryMap returns the memory of the engine's tables, segment by segment. It looks at every
// process and group.
func (e *Engine) MemoryMap() []Segment {
	e.begin()
	return []Segment{e.tableSegment(), e.driverSegment(), e.internalSegment(), e.managedSegment()}
}

// tableSegment returns the process table: an array with an entry for each slot, and the memory of
// the entries in use.
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
	queue := SegmentPart{Name: "commands", Entries: of, Used: pending, Bytes: driver.QueueBytes,
		InUse: int64(pending) * driver.QueueBytes / int64(of)}
	return Segment{SegmentDriver, []SegmentPart{queue}}
}

// internalSegment returns the three tables of the fabric, and Driver Info with the driver's part
// of the process table.
func (e *Engine) internalSegment() Segment {
	nodes := SegmentPart{Name: "NIC table", Entries: limits.Peers, Used: len(e.peers.list),
		Bytes: int64(len(e.peers.list)) * (size[peer]() + size[rel.Endpoint]() +
			inMap[uint64, *rel.Endpoint](1) + inMap[link.Addr, *rel.Endpoint](1))}
	for _, pr := range e.peers.list {
		if pr.ep.Stats().Sessions > 0 {
			nodes.Bytes += size[rel.PeerStats]()
		}
	}
	entries, _ := e.names.Len()
	table := SegmentPart{Name: "name table", Used: entries,
		Bytes: int64(entries) * (size[names.Entry]() + inMap[vni.Name, *names.Entry](2) +
			inMap[vni.Address, *names.Entry](1))}
	g := e.groups.Usage()
	groups := SegmentPart{Name: "group table", Used: g.Groups, Bytes: int64(g.Groups) * g.GroupBytes}
	info := SegmentPart{Name: "driver info", Bytes: size[driver.NIC]() + driver.TableBytes(e.cfg.MaxProcesses)}
	parts := []SegmentPart{nodes, table, groups, info}
	for i := range parts {
		parts[i].InUse = parts[i].Bytes
	}
	return Segment{SegmentInternal, parts}
}

// managedSegment returns the memory that operations take and give back.
func (e *Engine) managedSegment() Segment {
	sends := SegmentPart{Name: "scheduling queue entries", Bytes: int64(e.serves.Made()) * size[send](),
		Used: e.serves.InUse()}
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
	staging := SegmentPart{Name: "staging buffers", Bytes: int64(e.staging.inUse + e.staging.kept),
		InUse: int64(e.staging.inUse)}
	transit := SegmentPart{Name: "transit buffers", Bytes: int64(e.transit.inUse + e.transit.kept),
		InUse: int64(e.transit.inUse)}
	seats := SegmentPart{Name: "process list nodes"}
	g := e.groups.Usage()
	seats.add(g.Seats, g.SeatsInUse, g.SeatBytes)
	seats.InUse = int64(seats.Used) * g.SeatBytes
	return Segment{SegmentManaged, []SegmentPart{sends, receives, maps, staging, transit, seats}}
}

// add counts more entries, each of a size.
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
