package netmem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

const shelfKey = "a key that no other knows"

// library is a fabric with page servers that store shelves, on the NICs from 1 on.
type library struct {
	f       *sim.Fabric
	refs    []ServerRef
	procs   []*sim.Process
	servers []*Server
	visits  int
}

func newLibrary(t *testing.T, seed uint64, n int, cfg ServerConfig, faults sim.Faults) *library {
	l := &library{f: sim.New(sim.Config{Seed: seed, NICs: n + 2, Faults: faults}), servers: make([]*Server, n)}
	for i := range n {
		l.refs = append(l.refs, ServerRef{Name: weft.Name{App: "memory", Index: uint32(i)}})
		l.procs = append(l.procs, nil)
		l.serve(i, cfg)
	}
	t.Cleanup(func() {
		if err := l.f.Run(1000 * time.Hour); err != nil { // ends the servers
			t.Error(err)
		}
	})
	return l
}

func (l *library) serve(i int, cfg ServerConfig) {
	l.procs[i] = l.f.Serve(1+i, l.refs[i].Name.String(), func(sp *sim.Process) (err error) {
		if l.servers[i], err = Serve(sp.Weft(), cfg); err != nil {
			return err
		}
		return sleep(sp, 1000*time.Hour)
	})
}

// config returns the configuration of a shelf with two copies.
func (l *library) config() ShelfConfig {
	return ShelfConfig{ClientConfig: ClientConfig{Servers: l.refs, Copies: min(2, len(l.refs))}, Key: shelfKey}
}

// visit runs one process that opens the shelf, uses it, and ends.
func (l *library) visit(t *testing.T, use func(ctx context.Context, sp *sim.Process, s *Shelf) error) {
	t.Helper()
	l.visits++
	l.client(t, fmt.Sprintf("visitor/%d", l.visits), func(ctx context.Context, sp *sim.Process) error {
		s, err := OpenShelf(ctx, sp.Weft(), l.config())
		if err != nil {
			return err
		}
		defer s.Close()
		return use(ctx, sp, s)
	})
}

// run advances time until a process has ended. In contrast to Run, the servers continue.
func (l *library) run(t *testing.T, ended *bool) {
	t.Helper()
	for i := 0; !*ended; i++ {
		l.f.After(10*time.Millisecond, func() {}) // time passes only with events
		if err := l.f.Settle(10 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if i == 1_000_000 {
			t.Fatal("the process has not ended")
		}
	}
}

// client runs one process.
func (l *library) client(t *testing.T, name string, main func(ctx context.Context, sp *sim.Process) error) {
	t.Helper()
	ended := false
	l.f.Process(0, name, func(sp *sim.Process) error {
		defer func() { ended = true }()
		return main(context.Background(), sp)
	})
	l.run(t, &ended)
}

// patterned returns n bytes that depend on a number.
func patterned(n int, number byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) ^ number
	}
	return b
}

func shelfHolds(ctx context.Context, s *Shelf, object string, want []byte, offset int64) error {
	got := make([]byte, len(want))
	if err := s.ReadAt(ctx, object, got, offset); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		return fmt.Errorf("object %q reads with another byte at %d", object, offset+int64(i))
	}
	return nil
}

var roomy = ServerConfig{Bytes: 1 << 20, Shelve: KeepLeast}

var badNetwork = sim.Faults{Loss: 0.03, Duplicate: 0.05, Reorder: 0.05, Corrupt: 0.01, Delay: 0.005, DelayMax: 20 * time.Millisecond}

// A process writes and ends. Processes of other names read and change what it wrote, also after a
// server has died.
func TestAShelfOutlivesItsWriterAndAServer(t *testing.T) {
	for seed := range uint64(6) {
		l := newLibrary(t, seed, 3, roomy, badNetwork)
		a, b := patterned(50_000, 1), patterned(10_001, 2)
		l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
			return errors.Join(s.WriteAt(ctx, "data", a, 123), s.Replace(ctx, "head", b))
		})
		l.f.Kill(l.procs[seed%3])
		l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
			got, err := s.Read(ctx, "head", 1<<20)
			if err == nil && !bytes.Equal(got, b) {
				err = errors.New("another head than was written")
			}
			return errors.Join(err, shelfHolds(ctx, s, "data", a, 123), s.WriteAt(ctx, "data", b, 4090))
		})
		l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
			copy(a[4090-123:], b)
			return shelfHolds(ctx, s, "data", a, 123)
		})
	}
}

func TestAShelfIsReadByItsKeyOnly(t *testing.T) {
	l := newLibrary(t, 1, 2, roomy, sim.Faults{})
	l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
		return errors.Join(s.WriteAt(ctx, "data", []byte("secret"), 0), s.Replace(ctx, "head", []byte("secret")))
	})
	l.client(t, "other/0", func(ctx context.Context, sp *sim.Process) error {
		cfg := l.config()
		cfg.Key += "."
		s, err := OpenShelf(ctx, sp.Weft(), cfg)
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.ReadAt(ctx, "data", make([]byte, 6), 0); !errors.Is(err, ErrMissing) {
			return fmt.Errorf("with another key: %w; expected ErrMissing", err)
		}
		if _, err := s.Read(ctx, "head", 100); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("with another key: %w; expected fs.ErrNotExist", err)
		}
		return s.Clear(ctx) // its own shelf, which is empty
	})
	l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
		return shelfHolds(ctx, s, "data", []byte("secret"), 0)
	})
}

func TestAServerThatStoresNoShelvesIsNamed(t *testing.T) {
	l := newLibrary(t, 1, 2, roomy, sim.Faults{})
	l.f.Kill(l.procs[1])
	l.serve(1, ServerConfig{Bytes: 1 << 20})
	l.client(t, "client/0", func(ctx context.Context, sp *sim.Process) error {
		_, err := OpenShelf(ctx, sp.Weft(), l.config())
		if err == nil || !strings.Contains(err.Error(), "memory/1") || !strings.Contains(err.Error(), "--shelve") {
			return fmt.Errorf("%w; expected memory/1 and a cure", err)
		}
		// The refused shelf has left nothing behind, so the process may open another one.
		cfg := l.config()
		cfg.Servers, cfg.Copies = l.refs[:1], 1
		s, err := OpenShelf(ctx, sp.Weft(), cfg)
		if err != nil {
			return fmt.Errorf("a shelf after the refused one: %w", err)
		}
		s.Close()
		return nil
	})
}

// A shelf stays while a client that has used it lives, however long, and for the time Shelve after
// that. Then its room is free.
func TestAnUnusedShelfIsDropped(t *testing.T) {
	l := newLibrary(t, 1, 2, roomy, sim.Faults{})
	data := patterned(30_000, 3)
	write := func(ctx context.Context, sp *sim.Process, s *Shelf) error { return s.WriteAt(ctx, "data", data, 0) }
	l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
		return errors.Join(write(ctx, sp, s), sleep(sp, 5*time.Minute), shelfHolds(ctx, s, "data", data, 0))
	})
	l.client(t, "gap/0", func(ctx context.Context, sp *sim.Process) error { return sleep(sp, 45*time.Second) })
	l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
		if err := sleep(sp, 30*time.Second); err != nil {
			return err
		}
		return shelfHolds(ctx, s, "data", data, 0) // it is used again
	})
	st := l.servers[0].Stats()
	if st.Shelves != 1 || st.ShelvedBytes == 0 || st.ShelvedBytes != st.UsedBytes || st.Clients != 0 || len(st.Volumes) != 0 {
		t.Errorf("%+v; expected one shelf and no client", st)
	}
	l.client(t, "late/0", func(ctx context.Context, sp *sim.Process) error { return sleep(sp, 2*time.Minute) })
	if st := l.servers[0].Stats(); st.Shelves != 0 || st.UsedBytes != 0 || st.Pages != 0 {
		t.Errorf("%+v after the time Shelve; expected no shelf", st)
	}
	l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
		if err := s.ReadAt(ctx, "data", make([]byte, 1), 0); !errors.Is(err, ErrMissing) {
			return fmt.Errorf("%w; expected ErrMissing", err)
		}
		return errors.Join(write(ctx, sp, s), s.Clear(ctx), sleep(sp, time.Second))
	})
	for i, s := range l.servers {
		if st := s.Stats(); st.Shelves != 0 || st.UsedBytes != 0 {
			t.Errorf("server %d: %+v after Clear; expected no shelf", i, st)
		}
	}
}

// A server that counts a client as ended answers it nothing, and may have the page all the same.
// The client neither takes the page for missing nor fills the rest of it with zeros.
func TestAPageOfAServerThatHasForgottenTheClientIsNotMissing(t *testing.T) {
	l := newLibrary(t, 1, 3, roomy, sim.Faults{})
	data := patterned(5_000, 1)
	forget := func(sp *sim.Process) {
		for _, s := range l.servers {
			s.port.mu.Lock()
			s.end(sp.Weft().Name())
			s.port.mu.Unlock()
		}
	}
	l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
		if err := s.WriteAt(ctx, "data", data, 0); err != nil {
			return err
		}
		forget(sp)
		if err := shelfHolds(ctx, s, "data", data, 0); err != nil {
			return err
		}
		forget(sp)
		copy(data[100:], "other bytes")
		if err := s.WriteAt(ctx, "data", data[100:111], 100); err != nil {
			return err
		}
		return shelfHolds(ctx, s, "data", data, 0)
	})
}

// Each client in a series has a clock that is behind the clock of the client before.
func TestAWriterWithASlowClockReplacesWhatOthersWrote(t *testing.T) {
	for seed := range uint64(10) {
		l := newLibrary(t, seed, 3, roomy, sim.Faults{Loss: 0.05, Duplicate: 0.05})
		for i := range byte(4) {
			data := patterned(20_000, i)
			l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
				s.c.version -= uint64(i) * uint64(time.Hour)
				return errors.Join(s.WriteAt(ctx, "data", data, 5), shelfHolds(ctx, s, "data", data, 5))
			})
		}
	}
}

// Requests for pages of several objects wait for one server, and leave together.
func TestConcurrentReadsOfTwoObjectsAreNotMixed(t *testing.T) {
	l := newLibrary(t, 1, 1, ServerConfig{Bytes: 4 << 20, Shelve: KeepLeast}, sim.Faults{})
	l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
		names := []string{"a", "b"}
		left, failed := len(names), error(nil)
		for i, name := range names {
			if err := s.WriteAt(ctx, name, patterned(400_000, byte(i)), 0); err != nil {
				return err
			}
		}
		for i, name := range names {
			sp.Start("reader", func(sp *sim.Process) error {
				failed = errors.Join(failed, shelfHolds(ctx, s, name, patterned(400_000, byte(i)), 0))
				left--
				sp.Runtime().Wake()
				return nil
			})
		}
		err := sp.Runtime().WaitUntil(ctx, func() bool { return left == 0 })
		if s.Stats().Waited == 0 {
			err = errors.Join(err, errors.New("no request has waited"))
		}
		return errors.Join(err, failed)
	})
}

// A server is cut off while an object is rewritten, and comes back with old pages.
func TestAServerThatComesBackGivesNoOldPage(t *testing.T) {
	for seed := range uint64(3) {
		l := newLibrary(t, seed, 3, roomy, sim.Faults{})
		heal := func() {}
		l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
			if err := errors.Join(s.WriteAt(ctx, "data", patterned(40_000, 1), 0), s.Replace(ctx, "head", []byte("old"))); err != nil {
				return err
			}
			heal = l.f.Partition(1 + int(seed))
			return errors.Join(s.WriteAt(ctx, "data", patterned(40_000, 2), 0), s.Replace(ctx, "head", []byte("new")))
		})
		heal()
		l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
			got, err := s.Read(ctx, "head", 3)
			if err == nil && string(got) != "new" {
				err = fmt.Errorf("the head is %q", got)
			}
			return errors.Join(err, shelfHolds(ctx, s, "data", patterned(40_000, 2), 0))
		})
	}
}

// A process ends at a random moment of a Replace. Then the object is the old one or the new one.
func TestReplaceIsAtomic(t *testing.T) {
	torn := map[byte]int{}
	for seed := range uint64(40) {
		l := newLibrary(t, seed, 3, roomy, sim.Faults{Loss: 0.01})
		l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
			return s.Replace(ctx, "head", patterned(20_000, 1))
		})
		var dying *sim.Process
		dying = l.f.Serve(0, "dying/0", func(sp *sim.Process) error {
			ctx := context.Background()
			s, err := OpenShelf(ctx, sp.Weft(), l.config())
			if err != nil {
				return err
			}
			l.f.After(time.Duration(seed*seed)*2*time.Microsecond, func() { l.f.Kill(dying) })
			return errors.Join(s.Replace(ctx, "head", patterned(30_000, 2)), sleep(sp, time.Hour))
		})
		l.client(t, "wait/0", func(ctx context.Context, sp *sim.Process) error { return sleep(sp, 5*time.Second) })
		l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
			got, err := s.Read(ctx, "head", 1<<20)
			switch {
			case err != nil:
				return err
			case bytes.Equal(got, patterned(20_000, 1)):
				torn[1]++
			case bytes.Equal(got, patterned(30_000, 2)):
				torn[2]++
			default:
				return fmt.Errorf("seed %d: neither the old object nor the new one", seed)
			}
			return nil
		})
	}
	if torn[1] == 0 || torn[2] == 0 {
		t.Errorf("%d times the old object and %d times the new one; expected both", torn[1], torn[2])
	}
}

func TestAFullShelfNamesItsServer(t *testing.T) {
	cfg := roomy
	cfg.QuotaBytes = 64 << 10
	l := newLibrary(t, 1, 2, cfg, sim.Faults{})
	l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
		err := s.WriteAt(ctx, "data", patterned(100_000, 1), 0)
		if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "memory/") || !strings.Contains(err.Error(), "quota") {
			return fmt.Errorf("over the quota: %w; expected ErrFull with a server and its quota", err)
		}
		return s.WriteAt(ctx, "data", patterned(10_000, 1), 0) // pages that exist
	})
}

// With too few servers, a call fails after a while and names the servers that are down.
func TestAShelfOfTooFewServersFailsWithTheirNames(t *testing.T) {
	l := newLibrary(t, 1, 3, roomy, sim.Faults{})
	l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) error {
		data := patterned(20_000, 1)
		if err := s.WriteAt(ctx, "data", data, 0); err != nil {
			return err
		}
		l.f.Kill(l.procs[0])
		l.f.Kill(l.procs[2])
		for _, err := range []error{s.WriteAt(ctx, "data", data, 0), s.ReadAt(ctx, "nothing", make([]byte, 1), 0)} {
			if !errors.Is(err, ErrFew) || !strings.Contains(err.Error(), "memory/0, memory/2") {
				return fmt.Errorf("%w; expected ErrFew with memory/0 and memory/2", err)
			}
		}
		return nil
	})
	l.client(t, "client/0", func(ctx context.Context, sp *sim.Process) error {
		_, err := OpenShelf(ctx, sp.Weft(), l.config())
		if err == nil || !strings.Contains(err.Error(), "memory/2") {
			return fmt.Errorf("open: %w; expected an error that names memory/2", err)
		}
		return nil
	})
}

func TestABadShelfIsRefused(t *testing.T) {
	l := newLibrary(t, 1, 2, roomy, sim.Faults{})
	l.client(t, "client/0", func(ctx context.Context, sp *sim.Process) error {
		for what, change := range map[string]func(c *ShelfConfig){
			"a short key":      func(c *ShelfConfig) { c.Key = "short" },
			"a long key":       func(c *ShelfConfig) { c.Key = strings.Repeat("k", ShelfKeyMost+1) },
			"shards":           func(c *ShelfConfig) { c.Copies, c.Coding = 0, Code{2, 1} },
			"a volume":         func(c *ShelfConfig) { c.Volume = 1 },
			"too many copies":  func(c *ShelfConfig) { c.Copies = 3 },
			"a page of 1 byte": func(c *ShelfConfig) { c.PageBytes = 1 },
			"one server twice": func(c *ShelfConfig) { c.Servers = []ServerRef{l.refs[0], l.refs[0]} },
		} {
			cfg := l.config()
			change(&cfg)
			if _, err := OpenShelf(ctx, sp.Weft(), cfg); !errors.Is(err, weft.ErrBadArgument) {
				return fmt.Errorf("%s: %w; expected ErrBadArgument", what, err)
			}
		}
		s, err := OpenShelf(ctx, sp.Weft(), l.config())
		if err != nil {
			return err
		}
		for _, err := range []error{
			s.WriteAt(ctx, "data", []byte{1}, -1),
			s.WriteAt(ctx, "data", []byte{1}, maxObjectBytes),
			s.ReadAt(ctx, "data", []byte{1}, 1<<62),
		} {
			if !errors.Is(err, weft.ErrBadArgument) {
				return fmt.Errorf("%w; expected ErrBadArgument", err)
			}
		}
		if err := s.Replace(ctx, "head", make([]byte, 10)); err != nil {
			return err
		}
		if _, err := s.Read(ctx, "head", 9); err == nil || errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("10 bytes with a limit of 9: %w", err)
		}
		return nil
	})
	if _, err := Serve(nil, ServerConfig{Bytes: 1 << 20, Shelve: time.Second}); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("Shelve of a second: %v; expected ErrBadArgument", err)
	}
}

// Clients cannot fill a server with an unlimited number of shelves.
func TestAServerStoresAtMostItsNumberOfShelves(t *testing.T) {
	s := &Server{cfg: roomy, port: &port{}, shelves: map[shelfID]*shelved{}}
	for i := range shelfID(maxShelves) {
		s.shelves[i] = &shelved{}
	}
	l := &life{shelves: map[shelfID]bool{maxShelves + 1: true}}
	if _, st := s.onShelf(&record{op: opPageOut, room: maxShelves + 2, shelved: true}, l); st != statusFull {
		t.Errorf("one shelf more: %v; expected %v", st, statusFull)
	}
	if _, st := s.onShelf(&record{op: opPageOut, room: 7, shelved: true}, l); st != statusOK || len(l.shelves) != 1 {
		t.Errorf("a shelf that is there: %v, and %d shelves of the client; expected 1", st, len(l.shelves))
	}
}
