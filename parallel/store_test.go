package parallel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// unread is a Store in which some objects cannot be read.
type unread struct {
	*shelf
	objects string
}

var errUnread = errors.New("a medium error")

func (u unread) Read(ctx context.Context, object string, most int) ([]byte, error) {
	if strings.Contains(u.objects, object) {
		return nil, errUnread
	}
	return u.shelf.Read(ctx, object, most)
}

// If rank 0 cannot read the newest manifest, a Save must not replace this checkpoint. It must not
// restart at the lowest serial number either: a later Load would then take an old checkpoint.
func TestASaveThatCannotReadAManifestChangesNothing(t *testing.T) {
	axes := []Axis{{Len: 20}}
	for _, objects := range []string{"a.manifest", "b.manifest", "a.manifest b.manifest"} {
		store := newShelf()
		onRanks(t, 2, func(m *Machine) error {
			return firstError(saveStep(m, store, axes, 1), saveStep(m, store, axes, 2), saveStep(m, store, axes, 3))
		})
		for r, err := range each(t, 2, func(m *Machine) error { return saveStep(m, unread{store, objects}, axes, 4) }) {
			if err == nil || !strings.Contains(err.Error(), errUnread.Error()) {
				t.Errorf("%s cannot be read, rank %d: %v; expected %v", objects, r, err, errUnread)
			}
		}
		onRanks(t, 3, func(m *Machine) error {
			step, err := loadStep(m, store, axes)
			if err == nil && step != 3 {
				err = fmt.Errorf("step %d; expected 3", step)
			}
			return err
		})
	}
}

func TestALoadThatCannotReadAManifestTakesTheOtherOrFails(t *testing.T) {
	axes := []Axis{{Len: 20}}
	store := newShelf()
	onRanks(t, 2, func(m *Machine) error { return firstError(saveStep(m, store, axes, 1), saveStep(m, store, axes, 2)) })
	onRanks(t, 2, func(m *Machine) error {
		step, err := loadStep(m, unread{store, "b.manifest"}, axes)
		if err == nil && step != 1 {
			err = fmt.Errorf("step %d; expected 1", step)
		}
		return err
	})
	for r, err := range each(t, 2, func(m *Machine) error {
		_, err := loadStep(m, unread{store, "a.manifest b.manifest"}, axes)
		return err
	}) {
		if errors.Is(err, ErrNoCheckpoint) || err == nil || !strings.Contains(err.Error(), errUnread.Error()) {
			t.Errorf("rank %d: %v; expected %v", r, err, errUnread)
		}
	}
}

// log is a Store that records the order of calls.
type log struct {
	*shelf
	mu    sync.Mutex
	calls []string
}

func (l *log) note(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call)
}

func (l *log) WriteAt(ctx context.Context, object string, b []byte, offset int64) error {
	l.note("write " + object)
	return l.shelf.WriteAt(ctx, object, b, offset)
}

func (l *log) Sync(ctx context.Context, object string) error {
	l.note("sync " + object)
	return l.shelf.Sync(ctx, object)
}

func (l *log) Replace(ctx context.Context, object string, b []byte) error {
	l.note("replace " + object)
	return l.shelf.Replace(ctx, object, b)
}

func TestEachRankSyncsItsDataBeforeTheManifestIsReplaced(t *testing.T) {
	store := &log{shelf: newShelf()}
	onRanks(t, 3, func(m *Machine) error { return saveStep(m, store, []Axis{{Len: 20}}, 1) })
	all := strings.Join(store.calls, ", ")
	if n := len(store.calls); n != 10 || store.calls[9] != "replace a.manifest" ||
		strings.Count(all, "sync a.data") != 3 || strings.LastIndex(all, "write") > strings.LastIndex(all, "sync") {
		t.Errorf("the calls are %s; expected 6 writes, 3 syncs, and then the manifest", all)
	}
}

func TestBadArgumentsOfASave(t *testing.T) {
	ctx := context.Background()
	for name, vars := range map[string]func(m *Machine, v *Var[int]) []Saved{
		"no variable":     func(*Machine, *Var[int]) []Saved { return nil },
		"no name":         func(_ *Machine, v *Var[int]) []Saved { return []Saved{Named("", v)} },
		"a long name":     func(_ *Machine, v *Var[int]) []Saved { return []Saved{Named(strings.Repeat("x", 33), v)} },
		"a name with NUL": func(_ *Machine, v *Var[int]) []Saved { return []Saved{Named("x\x00y", v)} },
		"two of one name": func(_ *Machine, v *Var[int]) []Saved { return []Saved{Named("x", v), Named("x", v)} },
		"another machine": func(_ *Machine, v *Var[int]) []Saved {
			s := must(NewShape(ctx, newMachine(nil, nil, nil, 0), Axis{Len: 5}))
			return []Saved{Named("x", must(New[int](s)))}
		},
		"257 variables": func(_ *Machine, v *Var[int]) (list []Saved) {
			for i := range 257 {
				list = append(list, Named(fmt.Sprint(i), v))
			}
			return list
		},
	} {
		store := newShelf()
		for r, err := range each(t, 2, func(m *Machine) error {
			v := must(New[int](must(NewShape(ctx, m, Axis{Len: 5}))))
			err := Save(ctx, m, store, 1, vars(m, v)...)
			if _, again := Load(ctx, m, store, vars(m, v)...); !errors.Is(again, ErrBadArgument) {
				return fmt.Errorf("Load: %w", again)
			}
			return err
		}) {
			if !errors.Is(err, ErrBadArgument) || len(store.objects) != 0 {
				t.Errorf("%s, rank %d: %v, %d objects; expected %v", name, r, err, len(store.objects), ErrBadArgument)
			}
		}
	}
}

func TestRanksThatSaveDifferentStepsOrVariablesAreAMismatch(t *testing.T) {
	ctx := context.Background()
	for name, save := range map[string]func(m *Machine, u, v *Var[int]) error{
		"step": func(m *Machine, u, v *Var[int]) error { return Save(ctx, m, newShelf(), uint64(m.rank), Named("u", u)) },
		"name": func(m *Machine, u, v *Var[int]) error {
			return Save(ctx, m, newShelf(), 1, Named(fmt.Sprint(m.rank), u))
		},
		"shape": func(m *Machine, u, v *Var[int]) error {
			return Save(ctx, m, newShelf(), 1, Named("u", []*Var[int]{u, v}[m.rank]))
		},
		"order": func(m *Machine, u, v *Var[int]) error {
			list := []Saved{Named("u", u), Named("v", v)}
			if m.rank == 1 {
				list[0], list[1] = list[1], list[0]
			}
			return Save(ctx, m, newShelf(), 1, list...)
		},
	} {
		for r, err := range each(t, 2, func(m *Machine) error {
			u := must(New[int](must(NewShape(ctx, m, Axis{Len: 5}))))
			return save(m, u, must(New[int](must(NewShape(ctx, m, Axis{Len: 5})))))
		}) {
			if !errors.Is(err, ErrMismatch) {
				t.Errorf("another %s, rank %d: %v; expected %v", name, r, err, ErrMismatch)
			}
		}
	}
}

// With another divided axis, the blocks lie in another order.
func TestACheckpointWithAnotherDividedAxisIsAnError(t *testing.T) {
	store := newShelf()
	onRanks(t, 2, func(m *Machine) error { return saveStep(m, store, []Axis{{Len: 6}, {Len: 6}}, 1) })
	for r, err := range each(t, 2, func(m *Machine) error {
		_, err := loadStep(m, store, []Axis{{Len: 6, Whole: true}, {Len: 6}})
		return err
	}) {
		if !errors.Is(err, ErrBadArgument) || !strings.Contains(err.Error(), "axis 0 divided") {
			t.Errorf("rank %d: %v; expected %v", r, err, ErrBadArgument)
		}
	}
}

// The part of each rank is longer than one write.
func TestALongCheckpoint(t *testing.T) {
	const length = 3*chunkBytes/8 + 12_345
	store := newShelf()
	at := func(i int) int { return i*i ^ 77 }
	onRanks(t, 2, func(m *Machine) error {
		s := must(NewShape(context.Background(), m, Axis{Len: length}))
		u := must(on(s, func(pos []int) int { return at(pos[0]) }))
		v := must(on(s, func(pos []int) bool { return pos[0]%3 == 0 }))
		return Save(context.Background(), m, store, 1, Named("v", v), Named("u", u))
	})
	onRanks(t, 3, func(m *Machine) error {
		s := must(NewShape(context.Background(), m, Axis{Len: length, Halo: 1}))
		u, v := must(New[int](s)), must(New[bool](s))
		must(Load(context.Background(), m, store, Named("u", u), Named("v", v)))
		return firstError(expect(u, at), expect(v, func(i int) bool { return i%3 == 0 }))
	})
}

// A failed Load does not change the variables, not even at ranks whose parts are complete.
func TestALoadThatFindsNoWholeCheckpointChangesNothing(t *testing.T) {
	axes := []Axis{{Len: 30}}
	store := newShelf()
	onRanks(t, 3, func(m *Machine) error { return saveStep(m, store, axes, 1) })
	store.objects["a.data"][len(store.objects["a.data"])-1] ^= 1 // in the part of rank 2
	onRanks(t, 3, func(m *Machine) error {
		s := must(NewShape(context.Background(), m, axes...))
		u, n := must(on(s, func([]int) float64 { return -5 })), must(on(s, func([]int) uint16 { return 9 }))
		step, err := Load(context.Background(), m, store, Named("u", u), Named("n", n))
		if step != 0 || !errors.Is(err, ErrNoCheckpoint) {
			return fmt.Errorf("step %d, %w; expected %w", step, err, ErrNoCheckpoint)
		}
		return firstError(expect(u, func(int) float64 { return -5 }), expect(n, func(int) uint16 { return 9 }),
			m.Barrier(context.Background()))
	})
}

// sealed returns a manifest with a correct checksum.
func sealed(b []byte) []byte {
	sum := crc32.Checksum(b, castagnoli)
	return append(b, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
}

// An attacker can compute a correct checksum.
func TestManifestsWithWrongNumbersDoNoHarm(t *testing.T) {
	sum := crc32.Checksum(make([]byte, 8), castagnoli)
	u := savedVar{name: "u", size: 8, lengths: []int{5}, sums: []uint32{sum, sum, sum, sum, sum}, parts: []part{{0, 0}}}
	copy(u.typeName[:], "int")
	whole := (&manifest{step: 3, serial: 4, vars: []savedVar{u}}).encode()
	// A step may be any number, and a name ends with a zero.
	const afterName = len(manifestMagic) + 8 + 8 + 4 + maxNameLen
	for i := len(manifestMagic); i+4 <= len(whole)-4; i++ {
		for _, x := range []string{"\xff\xff\xff\xff", "\xff\xff\xff\x7f", "\x00\x00\x00\x00", "\x00\x00\x00\x80"} {
			b := append([]byte(nil), whole[:len(whole)-4]...)
			copy(b[i:], x)
			store := newShelf()
			store.objects["a.manifest"] = sealed(b)
			store.objects["a.data"] = make([]byte, 40)
			m := newMachine(nil, nil, nil, 0)
			v := must(New[int](must(NewShape(context.Background(), m, Axis{Len: 5}))))
			_, err := Load(context.Background(), m, store, Named("u", v))
			if same := bytes.Equal(b, whole[:len(b)]); same && err != nil || !same && i >= afterName && err == nil {
				t.Errorf("bytes %d to %d of a manifest are %x: %v", i, i+3, x, err)
			}
		}
	}
	for _, many := range []func(f *manifest){
		func(f *manifest) { f.vars[0].sums, f.vars[0].parts = make([]uint32, mostBlocks+1), []part{{0, 0}} },
		func(f *manifest) { f.vars[0].lengths = make([]int, MaxAxes+1) },
		func(f *manifest) { f.vars = make([]savedVar, maxSaved+1) },
		func(f *manifest) { f.serial = math.MaxUint64 },
	} {
		g := manifest{serial: 4, vars: []savedVar{{name: "u"}}}
		many(&g)
		if err := new(manifest).decode(g.encode()); err == nil {
			t.Errorf("a manifest with too large numbers is accepted: %.100v", g)
		}
	}
}

func TestDirReplacesAnObjectAtOnce(t *testing.T) {
	ctx, d := context.Background(), Dir(filepath.Join(t.TempDir(), "new", "dir"))
	if err := d.Replace(ctx, "a.manifest", []byte("the first")); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(d.path("a.manifest"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := d.Replace(ctx, "a.manifest", []byte("the other")); err != nil {
		t.Fatal(err)
	}
	old := make([]byte, 9)
	if _, err := f.ReadAt(old, 0); err != nil || string(old) != "the first" {
		t.Errorf("an open file of the old object reads %q, %v", old, err)
	}
	b, err := d.Read(ctx, "a.manifest", 9)
	names, _ := os.ReadDir(string(d))
	if err != nil || string(b) != "the other" || len(names) != 1 {
		t.Errorf("%q, %v, %d files; expected the other object and one file", b, err, len(names))
	}
	if b, err := d.Read(ctx, "a.manifest", 8); err == nil {
		t.Errorf("a Read of at most 8 bytes returns %q", b)
	}
	if _, err := d.Read(ctx, "b.manifest", 8); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that does not exist: %v; expected %v", err, fs.ErrNotExist)
	}
	if err := d.ReadAt(ctx, "a.manifest", make([]byte, 5), 6); err == nil {
		t.Error("a ReadAt beyond the end is no error")
	}
}

// A pipe has no end, and opening a pipe waits for a writer.
func TestAPipeInADirIsAnError(t *testing.T) {
	d := Dir(t.TempDir())
	if err := syscall.Mkfifo(d.path("a.manifest"), 0o600); err != nil {
		t.Skip(err)
	}
	if err := os.Mkdir(d.path("b.manifest"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, object := range []string{"a.manifest", "b.manifest"} {
		if _, err := d.Read(context.Background(), object, 100); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Read of %s: %v", object, err)
		}
		if err := d.ReadAt(context.Background(), object, make([]byte, 1), 0); err == nil {
			t.Errorf("ReadAt of %s succeeds", object)
		}
	}
}

// Nothing can be written to the files of the directory. All ranks get the reason.
func TestADirThatCannotBeWrittenIsAnErrorOfAllRanks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for r, err := range each(t, 3, func(m *Machine) error {
		return saveStep(m, Dir(filepath.Join(file, "dir")), []Axis{{Len: 20}}, 1)
	}) {
		if err == nil || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
