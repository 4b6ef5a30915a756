package parallel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// shelf is a Store in memory that can fail.
type shelf struct {
	mu      sync.Mutex
	objects map[string][]byte
	writes  int // calls that still succeed; negative: all
}

var errBroken = errors.New("the shelf is broken")

func newShelf() *shelf { return &shelf{objects: map[string][]byte{}, writes: -1} }

func (s *shelf) may() error {
	if s.writes == 0 {
		return errBroken
	}
	s.writes--
	return nil
}

func (s *shelf) WriteAt(_ context.Context, object string, b []byte, offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.may(); err != nil {
		return err
	}
	o := s.objects[object]
	if need := int(offset) + len(b); need > len(o) {
		o = append(o, make([]byte, need-len(o))...)
	}
	copy(o[offset:], b)
	s.objects[object] = o
	return nil
}

func (s *shelf) ReadAt(_ context.Context, object string, b []byte, offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[object]; int(offset)+len(b) > len(o) {
		return fs.ErrNotExist
	}
	copy(b, s.objects[object][offset:])
	return nil
}

func (s *shelf) Sync(context.Context, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.may()
}

func (s *shelf) Replace(_ context.Context, object string, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.may(); err != nil {
		return err
	}
	s.objects[object] = append([]byte(nil), b...)
	return nil
}

func (s *shelf) Read(_ context.Context, object string, _ int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[object]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return append([]byte(nil), o...), nil
}

// saveStep saves two variables whose elements depend on the step.
func saveStep(m *Machine, store Store, axes []Axis, step int) error {
	ctx := context.Background()
	s, err := NewShape(ctx, m, axes...)
	if err != nil {
		return err
	}
	u := must(on(s, func(pos []int) float64 { return float64(s.Index(pos...)*100 + step) }))
	n := must(on(s, func(pos []int) uint16 { return uint16(s.Index(pos...) ^ step) }))
	return Save(ctx, m, store, uint64(step), Named("u", u), Named("n", n))
}

// loadStep loads the two variables and returns the step to which both belong.
func loadStep(m *Machine, store Store, axes []Axis) (int, error) {
	ctx := context.Background()
	s, err := NewShape(ctx, m, axes...)
	if err != nil {
		return 0, err
	}
	u, n := must(New[float64](s)), must(New[uint16](s))
	step, err := Load(ctx, m, store, Named("n", n), Named("u", u))
	if err != nil {
		return 0, err
	}
	return int(step), firstError(
		expect(u, func(i int) float64 { return float64(i*100 + int(step)) }),
		expect(n, func(i int) uint16 { return uint16(i ^ int(step)) }))
}

func TestACheckpointLoadsOnAnyNumberOfRanks(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := drawWorld(rng)
		var store Store = newShelf()
		if seed%3 == 0 {
			store = Dir(filepath.Join(t.TempDir(), "checkpoint"))
		}
		for step := 1; step < 4; step++ {
			onRanks(t, 1+rng.IntN(8), func(m *Machine) error { return saveStep(m, store, w.axes, step) })
			onRanks(t, 1+rng.IntN(8), func(m *Machine) error {
				got, err := loadStep(m, store, w.axes)
				if err == nil && got != step {
					err = fmt.Errorf("step %d; expected %d", got, step)
				}
				return err
			})
		}
	}
}

func TestATornCheckpointLoadsTheOneBefore(t *testing.T) {
	axes := []Axis{{Len: 37}, {Len: 5}}
	for writes := range 16 {
		store := newShelf()
		onRanks(t, 2, func(m *Machine) error {
			return firstError(saveStep(m, store, axes, 1), saveStep(m, store, axes, 2))
		})
		store.writes = writes
		torn := each(t, 3, func(m *Machine) error { return saveStep(m, store, axes, 3) })
		want := 2
		if torn[0] == nil {
			want = 3
		}
		if (writes < 10) != (torn[0] != nil) {
			t.Errorf("Save with %d writes: %v", writes, torn)
		}
		for r, err := range torn {
			if torn[0] != nil && (err == nil || err.Error() == "") {
				t.Errorf("rank %d: %v though rank 0 failed with %v", r, err, torn[0])
			}
		}
		store.writes = -1
		onRanks(t, 4, func(m *Machine) error {
			step, err := loadStep(m, store, axes)
			if err == nil && step != want {
				err = fmt.Errorf("after %d writes: step %d; expected %d", writes, step, want)
			}
			return err
		})
	}
}

func TestADamagedBlockLoadsTheCheckpointBefore(t *testing.T) {
	axes := []Axis{{Len: 100}}
	dir := Dir(t.TempDir())
	onRanks(t, 3, func(m *Machine) error {
		return firstError(saveStep(m, dir, axes, 1), saveStep(m, dir, axes, 2))
	})
	for i, want := range []int{1, 0} { // b.data has step 2
		object := []string{"b.data", "a.manifest"}[i]
		b, err := os.ReadFile(dir.path(object))
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(dir.path(object), b, 0o644); err != nil {
			t.Fatal(err)
		}
		onRanks(t, 2, func(m *Machine) error {
			step, err := loadStep(m, dir, axes)
			if want == 0 && errors.Is(err, ErrNoCheckpoint) {
				return m.Barrier(context.Background()) // the machine stays usable
			}
			if err == nil && step != want {
				err = fmt.Errorf("%s damaged: step %d; expected %d", object, step, want)
			}
			return err
		})
	}
}

func TestACheckpointOfOtherVariablesIsAnError(t *testing.T) {
	store := newShelf()
	onRanks(t, 2, func(m *Machine) error { return saveStep(m, store, []Axis{{Len: 10}}, 1) })
	for name, load := range map[string]func(m *Machine) error{
		"another length": func(m *Machine) error { _, err := loadStep(m, store, []Axis{{Len: 11}}); return err },
		"another type": func(m *Machine) error {
			s := must(NewShape(context.Background(), m, Axis{Len: 10}))
			_, err := Load(context.Background(), m, store, Named("u", must(New[int64](s))))
			return err
		},
		"another name": func(m *Machine) error {
			s := must(NewShape(context.Background(), m, Axis{Len: 10}))
			_, err := Load(context.Background(), m, store, Named("x", must(New[float64](s))))
			return err
		},
	} {
		for r, err := range each(t, 2, load) {
			if !errors.Is(err, ErrBadArgument) {
				t.Errorf("%s, rank %d: %v", name, r, err)
			}
		}
	}
}

func TestEveryCutAndEveryChangedByteOfAManifestIsRefused(t *testing.T) {
	u := savedVar{name: "u", size: 8, lengths: []int{5, 6}, sums: []uint32{1, 2, 3}, parts: []part{{0, 0}, {2, 4096}}}
	f := manifest{step: 3, serial: 4, vars: []savedVar{u}}
	b := f.encode()
	if err := new(manifest).decode(b); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if new(manifest).decode(b[:i]) == nil {
			t.Errorf("a manifest cut to %d of %d bytes is accepted", i, len(b))
		}
		c := append([]byte(nil), b...)
		c[i] ^= 0x10
		if new(manifest).decode(c) == nil {
			t.Errorf("a manifest with byte %d changed is accepted", i)
		}
	}
}

// pagedShelf is one rank's view of a shelf. If two ranks write one page of an object between two
// manifests, pagedShelf reports an error.
type pagedShelf struct {
	*shelf
	rank   int
	page   int64
	owners map[string]int
}

func (s *pagedShelf) Align() int { return int(s.page) }

func (s *pagedShelf) WriteAt(ctx context.Context, object string, b []byte, offset int64) error {
	s.mu.Lock()
	for at := offset / s.page; at <= (offset+int64(len(b))-1)/s.page; at++ {
		key := fmt.Sprint(object, at)
		if owner, ok := s.owners[key]; ok && owner != s.rank {
			s.mu.Unlock()
			return fmt.Errorf("ranks %d and %d write page %d of %s", owner, s.rank, at, object)
		}
		s.owners[key] = s.rank
	}
	s.mu.Unlock()
	return s.shelf.WriteAt(ctx, object, b, offset)
}

func (s *pagedShelf) Replace(ctx context.Context, object string, b []byte) error {
	s.mu.Lock()
	clear(s.owners)
	s.mu.Unlock()
	return s.shelf.Replace(ctx, object, b)
}

func TestNoTwoRanksWriteOnePageOfAStore(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w := drawWorld(rng)
		store, owners, page := newShelf(), map[string]int{}, int64(1+rng.IntN(100))
		of := func(m *Machine) Store { return &pagedShelf{store, m.Rank(), page, owners} }
		for step := 1; step < 4; step++ {
			onRanks(t, 1+rng.IntN(8), func(m *Machine) error { return saveStep(m, of(m), w.axes, step) })
			onRanks(t, 1+rng.IntN(8), func(m *Machine) error {
				got, err := loadStep(m, of(m), w.axes)
				if err == nil && got != step {
					err = fmt.Errorf("step %d; expected %d", got, step)
				}
				return err
			})
		}
	}
}

func TestRanksWhoseStoresAlignDifferentlyFail(t *testing.T) {
	store := newShelf()
	for r, err := range each(t, 3, func(m *Machine) error {
		return saveStep(m, &pagedShelf{store, m.Rank(), int64(10 + m.Rank()/2), map[string]int{}}, []Axis{{Len: 50}}, 1)
	}) {
		if !errors.Is(err, ErrMismatch) {
			t.Errorf("rank %d: %v; expected ErrMismatch", r, err)
		}
	}
	for r, err := range each(t, 2, func(m *Machine) error {
		return saveStep(m, &pagedShelf{store, m.Rank(), -4, nil}, []Axis{{Len: 50}}, 1)
	}) {
		if !errors.Is(err, ErrBadArgument) {
			t.Errorf("Align of -4, rank %d: %v; expected ErrBadArgument", r, err)
		}
	}
}

// unreadable is a store whose manifests cannot be read at the moment.
type unreadable struct{ *shelf }

func (unreadable) Read(context.Context, string, int) ([]byte, error) { return nil, errBroken }

// A store that fails is not treated as empty. Otherwise the program would start from the
// beginning, or replace its newest checkpoint.
func TestAStoreThatCannotBeReadIsNotAnEmptyOne(t *testing.T) {
	axes, store := []Axis{{Len: 37}}, newShelf()
	onRanks(t, 2, func(m *Machine) error { return saveStep(m, store, axes, 1) })
	for what, use := range map[string]func(m *Machine) error{
		"Save": func(m *Machine) error { return saveStep(m, unreadable{store}, axes, 2) },
		"Load": func(m *Machine) error { _, err := loadStep(m, unreadable{store}, axes); return err },
	} {
		for r, err := range each(t, 3, use) {
			if err == nil || errors.Is(err, ErrNoCheckpoint) || !strings.Contains(err.Error(), errBroken.Error()) {
				t.Errorf("%s, rank %d: %v; expected %v", what, r, err, errBroken)
			}
		}
	}
	onRanks(t, 2, func(m *Machine) error {
		if step, err := loadStep(m, store, axes); err != nil || step != 1 {
			return fmt.Errorf("step %d, %w; expected 1", step, err)
		}
		return nil
	})
}

// Load returns the reason why there is no checkpoint, at the ranks that know it.
func TestANoCheckpointErrorHasItsReason(t *testing.T) {
	axes, store := []Axis{{Len: 37}}, newShelf()
	onRanks(t, 2, func(m *Machine) error { return saveStep(m, store, axes, 1) })
	store.objects["a.data"] = store.objects["a.data"][:37*8] // without n
	told, errs := 0, make([]error, 2)
	onRanks(t, 2, func(m *Machine) error {
		_, errs[m.Rank()] = loadStep(m, store, axes)
		return m.Barrier(context.Background()) // the machine stays usable
	})
	for r, err := range errs {
		if !errors.Is(err, ErrNoCheckpoint) {
			t.Errorf("rank %d: %v; expected ErrNoCheckpoint", r, err)
		} else if strings.Contains(err.Error(), "step 1: ") {
			told++
		}
	}
	if told == 0 {
		t.Error("no rank has told a reason")
	}
}

func TestAManifestWithBlocksInNoPlaceIsRefused(t *testing.T) {
	for what, parts := range map[string][]part{
		"no parts":                 nil,
		"a first block that is 1":  {{1, 0}},
		"two parts of one block":   {{0, 0}, {0, 8}},
		"a part behind the end":    {{0, 0}, {3, 8}},
		"a part before the object": {{0, -1}},
		"a part too far away":      {{0, maxOffset + 1}},
	} {
		f := manifest{vars: []savedVar{{name: "u", size: 8, lengths: []int{5}, sums: []uint32{1, 2, 3}, parts: parts}}}
		if err := new(manifest).decode(f.encode()); err == nil {
			t.Errorf("a manifest with %s is accepted", what)
		}
	}
}
