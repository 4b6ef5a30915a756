package parallel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// A checkpoint has two objects: the data of all variables, and a manifest, which Save writes last.
// A store holds two checkpoints, a and b. Save replaces the older one:
//
//	a.data      a.manifest      b.data      b.manifest
//	block 0 of u, block 1 of u, … block 0 of v, …    elements in the order of blocks and indices
//
//	manifest:  "WEFTCKP2"  step u64  serial u64  variables u32  { variable }  CRC-32C of the rest
//	variable:  name [32]  element type [28]  element size u32  divided axis u32
//	           axes u32  { length u64 }  blocks u32  { CRC-32C of the elements of a block }
//	           parts u32  { first block u32  offset u64 }
//
// A part has consecutive blocks without a gap. A variable has one part, unless the store requires
// each rank to begin at a multiple of some number of bytes. Then each rank that has blocks may
// begin a part.
//
// Numbers are little-endian. Elements have the same layout as in memory.
const manifestMagic = "WEFTCKP2"

const (
	// maxSaved is the largest number of variables of a checkpoint.
	maxSaved = 256

	maxNameLen  = 32
	maxManifest = 64 + maxSaved*(maxNameLen+28+3*4+MaxAxes*8+2*4+mostBlocks*(4+12))
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type manifest struct {
	step, serial uint64
	vars         []savedVar
}

// savedVar describes a variable of a checkpoint.
type savedVar struct {
	name     string
	typeName [28]byte
	size     int
	div      int
	lengths  []int
	sums     []uint32 // of the blocks
	parts    []part
}

// part is a sequence of blocks in the data of a checkpoint.
type part struct {
	first  int // block; the part ends where the next one begins
	offset int64
}

func (f *manifest) encode() []byte {
	b := []byte(manifestMagic)
	b = binary.LittleEndian.AppendUint64(b, f.step)
	b = binary.LittleEndian.AppendUint64(b, f.serial)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.vars)))
	for i := range f.vars {
		v := &f.vars[i]
		var name [maxNameLen]byte
		copy(name[:], v.name)
		b = append(append(b, name[:]...), v.typeName[:]...)
		b = binary.LittleEndian.AppendUint32(b, uint32(v.size))
		b = binary.LittleEndian.AppendUint32(b, uint32(v.div))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(v.lengths)))
		for _, n := range v.lengths {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(len(v.sums)))
		for _, sum := range v.sums {
			b = binary.LittleEndian.AppendUint32(b, sum)
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(len(v.parts)))
		for _, p := range v.parts {
			b = binary.LittleEndian.AppendUint32(b, uint32(p.first))
			b = binary.LittleEndian.AppendUint64(b, uint64(p.offset))
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

var errManifest = errors.New("the manifest is damaged")

// decode reads a manifest and checks it.
func (f *manifest) decode(b []byte) error {
	if len(b) < len(manifestMagic)+24 || string(b[:8]) != manifestMagic {
		return errManifest
	}
	b, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(b, castagnoli) != sum {
		return errManifest
	}
	r := reader{b: b[8:]}
	f.step, f.serial = r.u64(), r.u64()
	n := r.u32()
	if n > maxSaved {
		return errManifest
	}
	for range n {
		v := savedVar{name: text(r.bytes(maxNameLen))}
		copy(v.typeName[:], r.bytes(len(v.typeName)))
		v.size, v.div = int(r.u32()), int(r.u32())
		axes := r.u32()
		if axes > MaxAxes {
			return errManifest
		}
		for range axes {
			v.lengths = append(v.lengths, int(r.u64()))
		}
		blocks := r.u32()
		if blocks > mostBlocks {
			return errManifest
		}
		for range blocks {
			v.sums = append(v.sums, r.u32())
		}
		if !v.decodeParts(&r) {
			return errManifest
		}
		f.vars = append(f.vars, v)
	}
	if r.short || len(r.b) != 0 || f.serial == math.MaxUint64 { // no checkpoint could follow it
		return errManifest
	}
	return nil
}

// decodeParts reads the parts of a variable, and reports whether the parts cover every block.
func (sv *savedVar) decodeParts(r *reader) bool {
	n := r.u32()
	if n > mostBlocks || (n == 0) != (len(sv.sums) == 0) {
		return false
	}
	for i := range int(n) {
		p := part{int(r.u32()), int64(r.u64())}
		follows := i == 0 && p.first == 0 || i > 0 && p.first > sv.parts[i-1].first
		if !follows || p.first >= len(sv.sums) || p.offset < 0 || p.offset > maxOffset {
			return false
		}
		sv.parts = append(sv.parts, p)
	}
	return true
}

// maxOffset is the largest offset of a part. A sum with the length of a variable does not overflow.
const maxOffset = 1 << 61

// reader reads numbers from bytes. After the end it returns zeros.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) bytes(n int) []byte {
	if len(r.b) < n {
		r.b, r.short = nil, true
		return make([]byte, min(n, maxNameLen))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }

// fits returns an error if a program's variable does not match the checkpoint's.
func (sv *savedVar) fits(want *savedVar) error {
	switch {
	case sv.size != want.size || sv.typeName != want.typeName:
		return badArgument("%q has elements of type %s (%d bytes) in the checkpoint, and %s (%d bytes) here",
			sv.name, text(sv.typeName[:]), sv.size, text(want.typeName[:]), want.size)
	case fmt.Sprint(sv.lengths) != fmt.Sprint(want.lengths) || sv.div != want.div || len(sv.sums) != len(want.sums):
		return badArgument("%q has the lengths %v in the checkpoint, with axis %d divided, and %v here, with axis %d",
			sv.name, sv.lengths, sv.div, want.lengths, want.div)
	}
	return nil
}
