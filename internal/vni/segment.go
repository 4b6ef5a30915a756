package vni

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftnet/weft/internal/limits"
)

const (
	magic   = 0x31_49_4e_56_74_66_65_57 // "WeftVNI1"
	version = 2
)

// memoryInfo is the start of ro: the kind of segment, the places of its components (QNIX-27), and
// its owner.
type memoryInfo struct {
	magic                                     uint64
	version, colour                           uint32
	commands, contexts, descriptors, poolSize uint32
	rwBytes, roBytes                          uint64
	offsets                                   [15]uint64

	nic, incarnation uint64
	slot, gen, index uint32
	_                uint32
	app              appWords
}

// status is the VNI status (QNIX-28) without the head, which is in ro. Only the process reads and
// writes it, so its words are plain. They are in shared memory for tools that inspect a segment
// from outside.
type status struct {
	tail, send, receive uint32
}

// Segment is the two areas with their components laid over them. Its only other state is direct
// memory.
type Segment struct {
	rw, ro []byte // kept so that heap memory lives as long as the views of it
	geo    Geometry
	lay    layout

	info     *memoryInfo
	commands []commandEntry
	sends    []sendRecord
	receives []receiveRecord
	status   *status
	sleeping *uint32
	waiting  *uint32
	bells    [2][]uint32 // by list: sends, receives

	head, listening, gone *uint32
	published             *uint64
	events                []eventRecord
	done                  [2][]completionRecord

	direct *[2][]gather // nil unless both halves are in one address space
}

// gather is a gather list in ordinary Go memory, for a context of a direct segment.
type gather struct{ parts [][]byte }

// The two lists of contexts, doorbells and completions.
const (
	sendList    = 0
	receiveList = 1
)

func list(receive bool) int {
	if receive {
		return receiveList
	}
	return sendList
}

// NewSegment formats two areas of at least the sizes that g.Sizes returns: the NIC's half of
// making a segment. The areas must be aligned to 8 bytes and all zeros, as they come from the
// kernel or from make: doorbells Free, the queue empty, the listening word 0. It writes only
// memory info, so unused pages are never touched.
func NewSegment(rw, ro []byte, g Geometry) (*Segment, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	s, err := overlay(rw, ro, g)
	if err != nil {
		return nil, err
	}
	*s.info = memoryInfo{
		magic: magic, version: version, colour: uint32(g.Colour), commands: uint32(g.Commands),
		contexts: uint32(g.Contexts), descriptors: uint32(g.Descriptors), poolSize: uint32(g.PoolPages),
		rwBytes: uint64(s.lay.rwBytes), roBytes: uint64(s.lay.roBytes), offsets: s.lay.offsets(),
	}
	return s, nil
}

// OpenSegment lays a formatted segment over its two areas: the process's half. It fails unless
// both halves agree on every size and offset.
func OpenSegment(rw, ro []byte) (*Segment, error) {
	if err := aligned(ro); err != nil {
		return nil, err
	}
	if len(ro) < infoBytes {
		return nil, fmt.Errorf("vni: read-only area has %d bytes, too few for a segment", len(ro))
	}
	info := (*memoryInfo)(unsafe.Pointer(&ro[0]))
	if info.magic != magic {
		return nil, errors.New("vni: not a segment")
	}
	if info.version != version {
		return nil, fmt.Errorf("vni: segment has version %d, this program speaks version %d", info.version, version)
	}
	g := Geometry{
		Commands: int(info.commands), Contexts: int(info.contexts), Descriptors: int(info.descriptors),
		PoolPages: int(info.poolSize), Colour: int(info.colour),
	}
	if err := g.Validate(); err != nil {
		return nil, err
	}
	l := g.layout()
	if info.offsets != l.offsets() || info.rwBytes != uint64(l.rwBytes) || info.roBytes != uint64(l.roBytes) {
		return nil, errors.New("vni: the segment's components are not where this program expects them")
	}
	return overlay(rw, ro, g)
}

func (l layout) offsets() [15]uint64 {
	var o [15]uint64
	for i, n := range []int{l.commands, l.sends, l.receives, l.regions, l.pool, l.status, l.sleeping,
		l.sendBells, l.receiveBells, l.head, l.listening, l.published, l.events, l.sendDone, l.receiveDone} {
		o[i] = uint64(n)
	}
	return o
}

func aligned(b []byte) error {
	if len(b) == 0 {
		return errors.New("vni: empty area")
	}
	if uintptr(unsafe.Pointer(&b[0]))%8 != 0 {
		return errors.New("vni: area is not aligned to 8 bytes")
	}
	return nil
}

func overlay(rw, ro []byte, g Geometry) (*Segment, error) {
	if err := errors.Join(aligned(rw), aligned(ro)); err != nil {
		return nil, err
	}
	l := g.layout()
	if len(rw) < l.rwBytes || len(ro) < l.roBytes {
		return nil, fmt.Errorf("vni: areas of %d and %d bytes, expected %d and %d", len(rw), len(ro), l.rwBytes,
			l.roBytes)
	}
	rw, ro = rw[:l.rwBytes:l.rwBytes], ro[:l.roBytes:l.roBytes]
	return &Segment{
		rw: rw, ro: ro, geo: g, lay: l,
		info:     at[memoryInfo](ro, 0),
		commands: array[commandEntry](rw, l.commands, g.Commands),
		sends:    array[sendRecord](rw, l.sends, g.Contexts),
		receives: array[receiveRecord](rw, l.receives, g.Contexts),
		status:   at[status](rw, l.status),
		sleeping: at[uint32](rw, l.sleeping),
		waiting:  at[uint32](rw, l.waiting),
		bells: [2][]uint32{array[uint32](rw, l.sendBells, g.Contexts),
			array[uint32](rw, l.receiveBells, g.Contexts)},

		head: at[uint32](ro, l.head), listening: at[uint32](ro, l.listening), gone: at[uint32](ro, l.listening+4),
		published: at[uint64](ro, l.published),
		events:    array[eventRecord](ro, l.events, Events),
		done: [2][]completionRecord{array[completionRecord](ro, l.sendDone, g.Contexts),
			array[completionRecord](ro, l.receiveDone, g.Contexts)},
	}, nil
}

// at and array view bytes as records. Their offsets come from layout, whose bounds overlay has
// checked.
func at[T any](b []byte, off int) *T {
	return &array[T](b, off, 1)[0]
}

func array[T any](b []byte, off, n int) []T {
	var t T
	piece := b[off : off+n*int(unsafe.Sizeof(t))]
	return unsafe.Slice((*T)(unsafe.Pointer(&piece[0])), n)
}

// EnableDirect gives the segment gather lists in ordinary Go memory, so that payloads are neither
// staged nor copied. Both halves must be in one address space, and neither may be in use yet.
func (s *Segment) EnableDirect() {
	s.direct = &[2][]gather{make([]gather, s.geo.Contexts), make([]gather, s.geo.Contexts)}
}

// Direct reports whether EnableDirect was called.
func (s *Segment) Direct() bool { return s.direct != nil }

// Geometry returns the sizes of the segment's parts.
func (s *Segment) Geometry() Geometry { return s.geo }

// Pool returns the buffer pool (QNIX-25): region 0 of the process, which manages it.
func (s *Segment) Pool() []byte {
	end := s.lay.pool + s.geo.PoolPages*limits.PageBytes
	return s.rw[s.lay.pool:end:end]
}

// region returns the context region of context i of a list (QNIX-21). The regions of the send
// contexts come first.
func (s *Segment) region(list, i int) []byte {
	off := s.lay.regions + (list*s.geo.Contexts+i)*s.lay.regionBytes
	return s.rw[off : off+s.lay.regionBytes : off+s.lay.regionBytes]
}

func (s *Segment) descriptors(list, i int) []descriptorRecord {
	return array[descriptorRecord](s.region(list, i), 0, s.geo.Descriptors)
}

// Identity names the owner of a segment.
type Identity struct {
	NIC         uint64
	Incarnation uint64 // of the NIC
	Slot        uint16
	Gen         uint32
	Name        Name
}

// AlignedBytes returns n zeroed bytes of heap memory that begin at a cache line, for areas that no
// other process maps. make([]byte, n) guarantees no alignment.
func AlignedBytes(n int) []byte {
	b := make([]byte, n+lineBytes-1)
	pad := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (lineBytes - 1)
	return b[pad : pad+n : pad+n]
}
