package parallel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io/fs"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/mutate"
)

// Saved is a variable of a checkpoint with its name. [Named] makes one.
type Saved interface {
	info() (name string, v *varInfo)
	write(to []byte, b *box) []byte // appends the elements of a box of this rank
	read(from []byte, b *box)       // sets the elements of a box of this rank
}

type named[T any] struct {
	name string
	v    *Var[T]
}

// Named gives a variable the name that it has in a checkpoint: 1 to 32 bytes.
func Named[T any](name string, v *Var[T]) Saved { return named[T]{name, v} }

func (n named[T]) info() (string, *varInfo) { return n.name, &n.v.varInfo }

func (n named[T]) write(to []byte, b *box) []byte {
	n.v.s.rows(b, false, func(r *row) { to = append(to, bytesOf(n.v.mem[r.off:r.off+r.n])...) })
	return to
}

func (n named[T]) read(from []byte, b *box) {
	n.v.version++
	n.v.s.rows(b, false, func(r *row) { from = from[copy(bytesOf(n.v.mem[r.off:r.off+r.n]), from):] })
}

// chunkBytes is the number of bytes of a variable in one write or read, unless a block has more.
const chunkBytes = 4 << 20

// Save writes a checkpoint of variables to a store. The argument step is a number that the
// program chooses and that Load returns. The store keeps this checkpoint and the one before. If
// Save does not complete at every rank, for example because a rank dies, the one before stays
// complete. When Save returns nil, the checkpoint survives a crash.
//
// The checkpoint does not depend on the number of ranks. Halos and masks are not saved. A
// checkpoint has at most 256 variables, all on shapes of the machine m.
func Save(ctx context.Context, m *Machine, store Store, step uint64, vars ...Saved) error {
	align := alignOf(store)
	if err := m.begin(ctx, describeSaved(opSave, step, align, vars)); err != nil {
		return err
	}
	f, err := planCheckpoint(m, align, vars)
	if err == nil {
		f.step = step
		err = save(ctx, m, store, f, vars)
	}
	return m.end(ctx, err)
}

func save(ctx context.Context, m *Machine, store Store, f *manifest, vars []Saved) error {
	slot, err := chooseSlot(ctx, m, store, f)
	if err != nil {
		return err
	}
	data := slotNames[slot] + ".data"
	var own []uint32
	for i, v := range vars {
		sums, err := writeBlocks(ctx, m, store, data, &f.vars[i], v)
		if err != nil {
			return fmt.Errorf("write %q: %w", f.vars[i].name, err)
		}
		own = append(own, sums...)
	}
	if len(own) > 0 {
		if err := store.Sync(ctx, data); err != nil {
			return err
		}
	}
	if err := gatherSums(ctx, m, f, vars, own); err != nil {
		return err
	}
	if m.rank == 0 {
		if err := store.Replace(ctx, slotNames[slot]+".manifest", f.encode()); err != nil {
			return err
		}
	}
	return rootSays(ctx, m, nil) // the manifest is stored
}

var slotNames = [2]string{"a", "b"}

// alignOf returns a number of bytes: a rank may begin to write to a store only at its multiples.
func alignOf(store Store) int {
	if a, ok := store.(interface{ Align() int }); ok {
		return a.Align()
	}
	return 1
}

// planCheckpoint returns the manifest of variables, without their checksums.
func planCheckpoint(m *Machine, align int, vars []Saved) (*manifest, error) {
	if len(vars) == 0 || len(vars) > maxSaved {
		return nil, badArgument("%d variables; expected 1 to %d", len(vars), maxSaved)
	}
	if align < 1 || align > 1<<30 {
		return nil, badArgument("the store aligns to %d bytes; expected 1 to %d", align, 1<<30)
	}
	f, seen := new(manifest), map[string]bool{}
	offset := int64(0)
	for _, s := range vars {
		name, v := s.info()
		switch {
		case name == "" || len(name) > maxNameLen || strings.ContainsRune(name, 0):
			return nil, badArgument("the name %q of a variable; expected 1 to %d bytes", name, maxNameLen)
		case seen[name]:
			return nil, badArgument("two variables with the name %q", name)
		case v.s.m != m:
			return nil, badArgument("%q is a variable of another machine", name)
		}
		seen[name] = true
		sv := savedVar{name: name, typeName: v.typeName, size: v.size, div: v.s.div}
		for _, a := range v.s.axes {
			sv.lengths = append(sv.lengths, a.Len)
		}
		sv.sums = make([]uint32, v.s.blocks)
		offset = sv.place(v, m.size, offset, int64(align))
		f.vars = append(f.vars, sv)
	}
	return f, nil
}

// place plans the parts of a variable from an offset on, and returns the offset of their end.
func (sv *savedVar) place(v *varInfo, ranks int, offset, align int64) int64 {
	for r := range ranks {
		first, last := v.s.first[r], v.s.first[r+1]
		if first == last {
			continue
		}
		up := (offset + align - 1) / align * align
		if len(sv.parts) == 0 || up != offset {
			sv.parts = append(sv.parts, part{first, up})
		}
		offset = up + v.blockBytes(last) - v.blockBytes(first)
	}
	return offset
}

// describeSaved returns the description of Save or Load.
func describeSaved(code byte, step uint64, align int, vars []Saved) description {
	h, names := fnv.New64a(), make([]string, 0, len(vars))
	for _, s := range vars {
		name, v := s.info()
		fmt.Fprintf(h, "%q %s %d %d\n", name, v.typeName, v.size, v.s.number)
		names = append(names, name)
	}
	fmt.Fprint(h, step, align)
	d := describe(code, noAxis, 0, 0)
	binary.LittleEndian.PutUint64(d[16:], h.Sum64())
	copy(d[24:], strings.Join(names, ", "))
	return d
}

// readManifests returns the complete manifests of a store, the newest first, and the slot of
// each. If the store cannot read an object, readManifests also returns its error. A missing or
// damaged manifest is no error.
func readManifests(ctx context.Context, store Store) (list []*manifest, slots []int, err error) {
	for slot, name := range slotNames {
		f := new(manifest)
		b, unread := store.Read(ctx, name+".manifest", maxManifest)
		switch {
		case unread == nil && f.decode(b) == nil:
			list, slots = append(list, f), append(slots, slot)
		case unread != nil && !errors.Is(unread, fs.ErrNotExist):
			err = errors.Join(err, fmt.Errorf("read %s.manifest: %w", name, unread))
		}
	}
	if len(list) == 2 && list[1].serial > list[0].serial {
		slices.Reverse(list)
		slices.Reverse(slots)
	}
	return list, slots, err
}

// chooseSlot returns the slot of the older checkpoint, and gives the new one its serial number.
// Rank 0 reads the manifests, and tells the others. If the store cannot read a manifest,
// chooseSlot fails: otherwise the new checkpoint could replace the newest one, or look older than
// it.
func chooseSlot(ctx context.Context, m *Machine, store Store, f *manifest) (int, error) {
	b := make([]byte, 9)
	if m.rank == 0 {
		list, slots, err := readManifests(ctx, store)
		if err != nil {
			return 0, err
		}
		if len(list) > 0 {
			b[0] = byte(1 - slots[0])
			if m.defect == mutate.ParallelSlotNewest {
				b[0] = byte(slots[0])
			}
			binary.LittleEndian.PutUint64(b[1:], list[0].serial+1)
		}
	}
	err := rootSays(ctx, m, b)
	f.serial = binary.LittleEndian.Uint64(b[1:])
	return int(b[0] & 1), err
}

// rootSays copies the bytes of rank 0 to all ranks.
func rootSays(ctx context.Context, m *Machine, b []byte) error {
	if m.rank != 0 {
		return m.exchange(ctx, nil, []want{{from: 0, buf: b}})
	}
	pieces := make([]piece, 0, m.size)
	for r := 1; r < m.size; r++ {
		pieces = append(pieces, piece{to: r, data: b})
	}
	return m.exchange(ctx, pieces, nil)
}

// blockBytes returns the offset of a block in the data of a variable.
func (v *varInfo) blockBytes(block int) int64 {
	return int64(v.s.coord(block)) * int64(v.s.total/v.s.axes[v.s.div].Len) * int64(v.size)
}

// offsetIn returns the offset of a block in the data of a checkpoint.
func (v *varInfo) offsetIn(place *savedVar, block int) int64 {
	at := int64(0)
	for _, p := range place.parts {
		if p.first <= block {
			at = p.offset + v.blockBytes(block) - v.blockBytes(p.first)
		}
	}
	return at
}

// writeBlocks writes the blocks of this rank, and returns their checksums.
func writeBlocks(
	ctx context.Context, m *Machine, store Store, object string, place *savedVar, saved Saved,
) ([]uint32, error) {
	_, v := saved.info()
	var sums []uint32
	var chunk []byte
	at := v.offsetIn(place, v.s.first[m.rank])
	for b := v.s.first[m.rank]; b < v.s.first[m.rank+1]; b++ {
		x, from := v.s.block(b), len(chunk)
		chunk = saved.write(chunk, &x)
		sums = append(sums, crc32.Checksum(chunk[from:], castagnoli))
		if len(chunk) >= chunkBytes || b == v.s.first[m.rank+1]-1 {
			if err := store.WriteAt(ctx, object, chunk, at); err != nil {
				return nil, err
			}
			at += int64(len(chunk))
			chunk = chunk[:0]
		}
	}
	return sums, nil
}

// gatherSums sends the checksums of all blocks to rank 0.
func gatherSums(ctx context.Context, m *Machine, f *manifest, vars []Saved, own []uint32) error {
	var pieces []piece
	wants, parts := []want(nil), make([][]uint32, m.size)
	parts[m.rank] = own
	if m.rank != 0 {
		pieces = []piece{{to: 0, data: bytesOf(own)}}
	} else {
		for r := 1; r < m.size; r++ {
			n := 0
			for _, s := range vars {
				_, v := s.info()
				n += v.s.first[r+1] - v.s.first[r]
			}
			parts[r] = make([]uint32, n)
			wants = append(wants, want{from: r, buf: bytesOf(parts[r])})
		}
	}
	if err := m.exchange(ctx, pieces, wants); err != nil || m.rank != 0 {
		return err
	}
	for r, sums := range parts {
		for i, s := range vars {
			_, v := s.info()
			n := copy(f.vars[i].sums[v.s.first[r]:v.s.first[r+1]], sums)
			sums = sums[n:]
		}
	}
	return nil
}
