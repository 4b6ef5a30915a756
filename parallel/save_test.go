package parallel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// shelf is a Store in memory that can break.
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
				return m.Barrier(context.Background()) // the machine goes on
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
	u := savedVar{name: "u", size: 8, lengths: []int{5, 6}, sums: []uint32{1, 2, 3}}
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
