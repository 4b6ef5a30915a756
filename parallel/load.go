package parallel

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/weftnet/weft/internal/mutate"
)

// Load sets variables from the newest complete checkpoint of a store, and returns its step. The
// number of ranks may differ from that of Save. If blocks of the newest checkpoint are damaged or
// missing, Load takes the one before. If neither is complete, Load fails with [ErrNoCheckpoint]
// at every rank, with the reasons that this rank knows. Then Load changes no variable, and the
// machine stays usable. If Load can read no manifest from the store, it fails with the error of
// the store.
//
// If a variable has other lengths, another divided axis or another element type than in the
// checkpoint, Load fails with [ErrBadArgument]. The checkpoint may have more variables.
func Load(ctx context.Context, m *Machine, store Store, vars ...Saved) (step uint64, err error) {
	if err := m.begin(ctx, describeSaved(opLoad, 0, 0, vars)); err != nil {
		return 0, err
	}
	plan, err := planCheckpoint(m, 1, vars)
	found, why := false, error(nil)
	if err == nil {
		step, found, why, err = load(ctx, m, store, plan, vars)
	}
	if err = m.end(ctx, err); err != nil {
		return 0, err
	}
	if !found {
		return 0, &RankError{-1, "Load", noCheckpoint(why)}
	}
	return step, nil
}

// noCheckpoint returns ErrNoCheckpoint, with a reason if there is one.
func noCheckpoint(why error) error {
	if why == nil {
		return ErrNoCheckpoint
	}
	return fmt.Errorf("%w: %w", ErrNoCheckpoint, why)
}

// load loads the newest complete checkpoint. If there is none, why holds the reasons of this
// rank.
func load(
	ctx context.Context, m *Machine, store Store, plan *manifest, vars []Saved,
) (step uint64, found bool, why, err error) {
	list, err := tellManifests(ctx, m, store)
	if err != nil {
		return 0, false, nil, err
	}
	for _, c := range list {
		places, err := c.find(plan)
		if err != nil {
			return 0, false, nil, err
		}
		parts := make([][]byte, len(vars))
		intact := byte(1)
		for i, s := range vars {
			if parts[i], err = readBlocks(ctx, m, store, slotNames[c.slot]+".data", places[i], s); err != nil {
				why = errors.Join(why, fmt.Errorf("step %d: %w", c.step, err))
				intact = 0
				break
			}
		}
		answers, err := allTell(ctx, m, intact)
		if err != nil {
			return 0, false, nil, err
		}
		if bytesAll(answers) || m.defect == mutate.ParallelLoadAlone && intact == 1 {
			for i, s := range vars {
				setBlocks(m, parts[i], s)
			}
			return c.step, true, nil, nil
		}
	}
	return 0, false, why, nil
}

// candidate is a checkpoint of a store.
type candidate struct {
	manifest
	slot int
}

// tellManifests returns the checkpoints of the store as rank 0 sees them, the newest first.
func tellManifests(ctx context.Context, m *Machine, store Store) (list []candidate, err error) {
	var b []byte
	if m.rank == 0 {
		files, slots, err := readManifests(ctx, store)
		if err != nil && len(files) == 0 {
			return nil, err
		}
		for i, f := range files {
			e := f.encode()
			b = binary.LittleEndian.AppendUint32(append(b, byte(slots[i])), uint32(len(e)))
			b = append(b, e...)
		}
		if err := rootSays(ctx, m, b); err != nil {
			return nil, err
		}
	} else {
		wants := []want{{from: 0, open: true, limit: 2 * (maxManifest + 5)}}
		if err := m.exchange(ctx, nil, wants); err != nil {
			return nil, err
		}
		b = wants[0].buf
	}
	for r := (reader{b: b}); len(r.b) > 0; {
		c := candidate{slot: int(r.bytes(1)[0] & 1)}
		if err := c.decode(r.bytes(int(r.u32()))); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.serial, a.serial) })
	return list, nil
}

// find returns the variables of a checkpoint that a plan names.
func (c *candidate) find(plan *manifest) ([]*savedVar, error) {
	places := make([]*savedVar, len(plan.vars))
	for i := range plan.vars {
		want := &plan.vars[i]
		k := slices.IndexFunc(c.vars, func(v savedVar) bool { return v.name == want.name })
		if k < 0 {
			return nil, badArgument("the checkpoint has no variable %q", want.name)
		}
		if err := c.vars[k].fits(want); err != nil {
			return nil, err
		}
		places[i] = &c.vars[k]
	}
	return places, nil
}

var errSum = errors.New("a block has another checksum than in the manifest")

// readBlocks reads the blocks of this rank and checks them.
func readBlocks(
	ctx context.Context, m *Machine, store Store, object string, place *savedVar, saved Saved,
) ([]byte, error) {
	_, v := saved.info()
	first, last := v.s.first[m.rank], v.s.first[m.rank+1]
	from := v.blockBytes(first)
	b := make([]byte, v.blockBytes(last)-from)
	for i, p := range place.parts {
		end := len(place.sums)
		if i+1 < len(place.parts) {
			end = place.parts[i+1].first
		}
		lo, hi := max(p.first, first), min(end, last)
		if lo >= hi {
			continue
		}
		part := b[v.blockBytes(lo)-from : v.blockBytes(hi)-from]
		if err := readChunks(ctx, store, object, part, v.offsetIn(place, lo)); err != nil {
			return nil, err
		}
	}
	for i := first; i < last; i++ {
		if crc32.Checksum(b[v.blockBytes(i)-from:v.blockBytes(i+1)-from], castagnoli) != place.sums[i] &&
			m.defect != mutate.ParallelSumsUnread {
			return nil, errSum
		}
	}
	return b, nil
}

// readChunks reads bytes from an offset on.
func readChunks(ctx context.Context, store Store, object string, b []byte, offset int64) error {
	for at := 0; at < len(b); at += chunkBytes {
		chunk := b[at:min(at+chunkBytes, len(b))]
		if err := store.ReadAt(ctx, object, chunk, offset+int64(at)); err != nil {
			return err
		}
	}
	return nil
}

// setBlocks sets the blocks of this rank.
func setBlocks(m *Machine, b []byte, saved Saved) {
	_, v := saved.info()
	from := v.blockBytes(v.s.first[m.rank])
	for i := v.s.first[m.rank]; i < v.s.first[m.rank+1]; i++ {
		x := v.s.block(i)
		saved.read(b[v.blockBytes(i)-from:v.blockBytes(i+1)-from], &x)
	}
}

// allTell exchanges one byte per rank, and returns the bytes of all ranks.
func allTell(ctx context.Context, m *Machine, x byte) ([]byte, error) {
	all, own := make([]byte, m.size), []byte{x}
	pieces, wants := make([]piece, m.size), make([]want, m.size)
	for i := range m.size {
		r := (m.rank + i) % m.size
		pieces[i], wants[i] = piece{to: r, data: own}, want{from: r, buf: all[r : r+1]}
	}
	return all, m.exchange(ctx, pieces, wants)
}

func bytesAll(b []byte) bool {
	for _, x := range b {
		if x == 0 {
			return false
		}
	}
	return true
}
