package netmem

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/sim"
)

// guests are clients of one name that enter a world one after another, store some pages, and end.
// They end with their process, or within it, so that another guest begins in the same process.

const (
	guestLives = 3
	guestPages = 70 // more than are dropped when another page arrives
)

// guest begins a guest's life, and further lives after it.
func (w *world) guest(life int) {
	w.guests++
	w.f.Process(0, "guest/0", func(sp *sim.Process) error {
		err := w.keeps(sp)
		if life == 1 { // once more in this process
			err = errors.Join(err, w.keeps(sp))
		}
		if life < guestLives {
			w.f.After(5*time.Millisecond, func() { w.guest(life + 1) })
		}
		w.guests--
		return err
	})
}

// keeps stores some pages with a new client. It ignores failures that the network and the servers
// cause, because another client checks for these.
func (w *world) keeps(sp *sim.Process) error {
	ctx, cancel := sp.Runtime().WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := NewClient(ctx, sp.Weft(), ClientConfig{Servers: []ServerRef{{Name: w.hosts[0].name}, {Name: w.hosts[1].name}}, PageBytes: hsn.HalfPage, Dead: worldDead, defect: w.defect})
	if err != nil {
		return nil // a server is down
	}
	defer c.Close()
	page, got := make([]byte, hsn.HalfPage), make([]byte, hsn.HalfPage)
	for i := range uint64(guestPages) {
		page[0] = byte(i)
		if c.WritePage(ctx, i, page) != nil {
			return nil
		}
		if err := c.ReadPage(ctx, i, got); err == nil && got[0] != page[0] {
			return fmt.Errorf("page %d of a guest begins with %d", i, got[0])
		}
	}
	w.counts.guests++
	return nil
}

// left waits until no server has pages or lives of guests.
func (w *world) left(ctx context.Context, sp *sim.Process) error {
	for {
		what := ""
		for _, h := range w.hosts {
			if h.server == nil {
				continue
			}
			if n := h.server.store.used(weft.Name{App: "guest"}); n > 0 {
				what = fmt.Sprintf("%v has %d bytes of a client that has ended", h.name, n)
			}
		}
		if what == "" && w.guests == 0 {
			return nil
		}
		if err := sp.Runtime().Sleep(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// lone runs one server on a quiet network, and the functions in clients that use the server.
func lone(t *testing.T, cfg ServerConfig, clients map[string]func(sp *sim.Process, s *Server) error) {
	t.Helper()
	f := sim.New(sim.Config{Seed: 1, NICs: 3})
	var s *Server
	f.Serve(0, "memory/0", func(sp *sim.Process) (err error) {
		if s, err = Serve(sp.Weft(), cfg); err != nil {
			return err
		}
		return sleep(sp, 24*time.Hour)
	})
	for name, do := range clients {
		f.Process(1, name, func(sp *sim.Process) error {
			if _, err := sp.Weft().WaitName(context.Background(), weft.Name{App: "memory"}); err != nil {
				return err
			}
			return do(sp, s)
		})
	}
	if err := f.Run(24 * time.Hour); err != nil {
		t.Error(err)
	}
}

// open makes a client of the lone server and writes pages.
func open(sp *sim.Process, pages uint64) (*Client, error) {
	c, err := NewClient(context.Background(), sp.Weft(), ClientConfig{Servers: []ServerRef{{Name: weft.Name{App: "memory"}}}})
	if err != nil {
		return nil, err
	}
	for i := range pages {
		if err := c.WritePage(context.Background(), i, make([]byte, hsn.HalfPage)); err != nil {
			return nil, fmt.Errorf("page %d: %w", i, err)
		}
	}
	return c, nil
}

// A client opens a volume as large as the server has room for. Then another client opens another
// one: a process of the same name, a process of another name, or the same process.
func TestTheRoomOfAClientThatHasEndedIsThereForTheNext(t *testing.T) {
	const pages = 512
	var ended uint64
	lone(t, ServerConfig{Bytes: pages * hsn.HalfPage}, map[string]func(sp *sim.Process, s *Server) error{"client/0": func(sp *sim.Process, s *Server) error {
		for range 2 {
			c, err := open(sp, pages)
			if err != nil {
				return err
			}
			if err := c.WritePage(context.Background(), pages, make([]byte, hsn.HalfPage)); !errors.Is(err, ErrFull) {
				return fmt.Errorf("a page more than there is room for: %v", err)
			}
			if st := s.Stats(); st.Pages != pages || st.Clients != 1 || st.UsedBytes != st.Bytes {
				return fmt.Errorf("full: %+v", st)
			}
			c.Close()
		}
		ended = s.Stats().Ended
		return nil
	}, "other/0": func(sp *sim.Process, s *Server) error {
		for s.Stats().Ended < 2 { // both have ended
			sleep(sp, time.Millisecond)
		}
		if st := s.Stats(); st.Clients != 0 || st.UsedBytes != 0 || st.Pages != 0 || len(st.Volumes) != 0 {
			return fmt.Errorf("of clients that have ended there is %+v", st)
		}
		_, err := open(sp, pages)
		return err
	}})
	if ended != 2 {
		t.Errorf("%d clients had ended when the second of a process was closed; expected 2", ended)
	}
}

// A client that is cut off for too long loses its pages and notices the loss: the server looks
// restarted to the client. The client reads no stale page and can continue.
func TestAClientThatIsSilentForTooLongFindsItsServerRestarted(t *testing.T) {
	if testing.Short() {
		t.Skip("five minutes of a fabric, a minute of these under the race detector: not in short tests")
	}
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	var s *Server
	f.Serve(0, "memory/0", func(sp *sim.Process) (err error) {
		if s, err = Serve(sp.Weft(), ServerConfig{Bytes: 64 * hsn.MaxPage, Keep: KeepLeast}); err != nil {
			return err
		}
		return sleep(sp, time.Hour)
	})
	f.Process(1, "client/0", func(sp *sim.Process) error {
		c, err := open(sp, 8)
		if err != nil {
			return err
		}
		sleep(sp, 3*KeepLeast) // it asks meanwhile whether the server is there
		if st := s.Stats(); st.Pages != 8 || st.Ended != 0 {
			return fmt.Errorf("of a client that lives: %+v", st)
		}
		f.Stall(1, 2*KeepLeast)
		sleep(sp, time.Second)
		ctx, cancel := sp.Runtime().WithTimeout(context.Background(), 3*KeepLeast)
		defer cancel()
		if err := c.ReadPage(ctx, 3, make([]byte, hsn.HalfPage)); !errors.Is(err, ErrLost) {
			return fmt.Errorf("a page that has gone is read: %v", err)
		}
		if st := s.Stats(); st.Pages != 0 || st.Ended != 1 {
			return fmt.Errorf("of a client that was silent: %+v", st)
		}
		if err := c.WritePage(context.Background(), 3, make([]byte, hsn.HalfPage)); err != nil {
			return err
		}
		if st := c.Stats(); st.Restarts == 0 {
			return fmt.Errorf("the client has not noticed: %+v", st)
		}
		return c.ReadPage(context.Background(), 3, make([]byte, hsn.HalfPage))
	})
	if err := f.Run(time.Hour); err != nil {
		t.Error(err)
	}
}

// While a client lives, no other client takes its name, whatever requests arrive.
func TestOneLifeOfAClientEndsBeforeTheNextBegins(t *testing.T) {
	lone(t, ServerConfig{Bytes: 64 * hsn.MaxPage}, map[string]func(sp *sim.Process, s *Server) error{"client/0": func(sp *sim.Process, s *Server) error {
		c, err := open(sp, 4)
		if err != nil {
			return err
		}
		s.port.mu.Lock()
		defer s.port.mu.Unlock()
		name := weft.Name{App: "client"}
		l := *s.lives[name]
		other := l.at
		other.Gen++
		asks := func(what string, q request, want bool) {
			q.owner = name
			if got := s.lifeOf(&q); (got != nil) != want {
				err = errors.Join(err, fmt.Errorf("%s: life %+v", what, got))
			}
		}
		asks("another process opens", request{record: record{op: opOpen, version: l.begun + 1}, from: other}, false)
		asks("another process writes", request{record: record{op: opPageOut, epoch: l.epoch}, from: other}, false)
		asks("an earlier client of the process opens", request{record: record{op: opOpen, version: l.begun - 1}, from: l.at}, false)
		asks("a request has an earlier epoch", request{record: record{op: opPageIn, epoch: l.epoch - 1}, from: l.at}, false)
		asks("it opens again", request{record: record{op: opOpen, version: l.begun}, from: l.at}, true)
		asks("it writes", request{record: record{op: opPageOut, epoch: l.epoch}, from: l.at}, true)
		if n := s.store.count(); n != 4 {
			err = errors.Join(err, fmt.Errorf("%d pages are left of 4", n))
		}
		s.heed(&weft.Event{Kind: weft.EventUnreachable, Addr: weft.Address{NIC: weft.NICID(l.at.NIC)}})
		asks("another process opens while its NIC is silent", request{record: record{op: opOpen, version: 1}, from: other}, true)
		if n, e := s.store.count(), s.lives[name].epoch; n != 0 || e == l.epoch {
			err = errors.Join(err, fmt.Errorf("%d pages are left, in epoch %d behind %d", n, e, l.epoch))
		}
		for what, kind := range map[string]weft.EventKind{"restarted": weft.EventRestarted, "closed": weft.EventClosed, "gone": weft.EventProcessGone} {
			e := weft.Event{Kind: kind, Addr: weft.Address{NIC: weft.NICID(other.NIC), Slot: other.Slot, Generation: other.Gen}}
			s.heed(&e)
			if s.lives[name] != nil {
				err = errors.Join(err, fmt.Errorf("it lives on, though it is %s", what))
			}
			asks("a request to open comes late", request{record: record{op: opOpen, version: 1}, from: other}, false)
			other.Gen++
			asks("another opens", request{record: record{op: opOpen, version: 1}, from: other}, true)
		}
		_ = c
		return err
	}})
}

// When a client is closed, its pages are dropped, although its process lives on.
func TestWhatAClientHadGoesWhenItIsClosed(t *testing.T) {
	lone(t, ServerConfig{Bytes: 64 * hsn.MaxPage}, map[string]func(sp *sim.Process, s *Server) error{"client/0": func(sp *sim.Process, s *Server) error {
		c, err := open(sp, 8)
		if err != nil {
			return err
		}
		c.Close()
		if st := s.Stats(); st.Pages != 0 || st.Clients != 0 || st.UsedBytes != 0 || st.Ended != 1 || len(s.lives) != 0 {
			return fmt.Errorf("of a client that was closed: %+v, %d lives", st, len(s.lives))
		}
		if _, err := open(sp, 8); err != nil {
			return fmt.Errorf("the next of its process: %w", err)
		}
		if st := s.Stats(); st.Pages != 8 {
			return fmt.Errorf("of the next client: %+v", st)
		}
		return nil
	}})
}

// A client removes a server and uses it again. The pages that it had there before are dropped. No
// request of that time ends the life that it has now.
func TestWhatAClientHadGoesFromAServerThatItRemoves(t *testing.T) {
	const pages = 16
	f := sim.New(sim.Config{Seed: 1, NICs: 3})
	var refs []ServerRef
	all := make([]*Server, 2)
	for i := range all {
		refs = append(refs, ServerRef{Name: weft.Name{App: "memory", Index: uint32(i)}})
		f.Serve(1+i, refs[i].Name.String(), func(sp *sim.Process) (err error) {
			if all[i], err = Serve(sp.Weft(), ServerConfig{Bytes: 64 * hsn.MaxPage}); err != nil {
				return err
			}
			return sleep(sp, time.Hour)
		})
	}
	f.Process(0, "client/0", func(sp *sim.Process) error {
		ctx := context.Background()
		c, err := NewClient(ctx, sp.Weft(), ClientConfig{Servers: refs})
		if err != nil {
			return err
		}
		for i := range uint64(pages) {
			if err := c.WritePage(ctx, i, make([]byte, hsn.HalfPage)); err != nil {
				return err
			}
		}
		before := *all[0].lives[sp.Weft().Name()]
		if had := all[0].Stats().Pages; had == 0 {
			return errors.New("the server has no page")
		}
		if err := c.RemoveServer(ctx, refs[0].Name); err != nil {
			return err
		}
		sleep(sp, time.Second)
		if st := all[0].Stats(); st.Pages != 0 || len(all[0].lives) != 0 {
			return fmt.Errorf("of a client that has removed the server: %+v, %d lives", st, len(all[0].lives))
		}
		if err := c.AddServer(ctx, refs[0]); err != nil {
			return err
		}
		for i := range uint64(pages) {
			if err := c.WritePage(ctx, pages+i, make([]byte, hsn.HalfPage)); err != nil {
				return err
			}
		}
		for _, op := range []op{opLeave, opOpen} { // late
			all[0].port.mu.Lock()
			all[0].serve(&request{owner: sp.Weft().Name(), from: before.at, record: record{op: op, epoch: before.epoch, version: before.begun}})
			all[0].port.mu.Unlock()
		}
		if st := all[0].Stats(); st.Pages == 0 || st.Ended != 1 || c.Stats().Restarts != 0 {
			return fmt.Errorf("of a client that uses the server again: %+v", st)
		}
		c.port.mu.Lock()
		// as if an earlier removal ended only now
		c.leaveServer(&server{ServerRef: refs[0], addr: c.servers[1].addr, up: true, epoch: c.servers[1].epoch})
		c.port.mu.Unlock()
		sleep(sp, time.Second)
		for i := range uint64(2 * pages) {
			if err := c.ReadPage(ctx, i, make([]byte, hsn.HalfPage)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := f.Run(time.Hour); err != nil {
		t.Error(err)
	}
}

// A client opens while the server knows another client of the same name that was heard just now.
// The server tells the new client so. When the other client falls silent, the new client takes
// over the name.
func TestAClientIsToldThatAnotherOfItsNameIsAlive(t *testing.T) {
	lone(t, ServerConfig{Bytes: 64 * hsn.MaxPage}, map[string]func(sp *sim.Process, s *Server) error{"client/0": func(sp *sim.Process, s *Server) error {
		c, err := open(sp, 4)
		if err != nil {
			return err
		}
		c.Close()
		s.port.mu.Lock()
		s.lives[sp.Weft().Name()] = &life{at: hsn.Host{NIC: 9, Slot: 9, Gen: 9}, begun: 1, epoch: 9, heard: s.port.now()}
		s.port.mu.Unlock()
		cfg := ClientConfig{Servers: []ServerRef{{Name: weft.Name{App: "memory"}}}}
		short, cancel := sp.Runtime().WithTimeout(context.Background(), silentFor/2)
		defer cancel()
		if _, err := NewClient(short, sp.Weft(), cfg); err == nil || err.Error() != "netmem: server memory/0: another client of this name is still alive at the server" {
			return fmt.Errorf("while another is alive: %v", err)
		}
		_, err = NewClient(context.Background(), sp.Weft(), cfg)
		return err
	}})
}

// The second of two clients of a process has the larger number, although the time of day was set
// back by an hour between them.
func TestTheClientsOfAProcessCountUpThoughItsClockGoesBack(t *testing.T) {
	first := time.Now()
	second := first.Add(time.Minute)
	// This changes the seconds of the time of day. The seconds of the monotonic clock are stored
	// elsewhere.
	(*struct{ wall uint64 })(unsafe.Pointer(&second)).wall -= 3600 << 30
	if second.Sub(first) != time.Minute || !second.Round(0).Before(first.Round(0)) {
		t.Fatalf("%v is not %v with the time of day set back", second, first)
	}
	if a, b := moment(first), moment(second); a >= b {
		t.Errorf("the second client begins at %d, the first at %d", b, a)
	}
}

// A client with pages in memory and in the file ends. No other page arrives, and the statistics
// of the server are consistent nevertheless.
func TestWhatAClientHadGoesThoughNoOtherPageComes(t *testing.T) {
	const pages = 3 * swept * sweepMany
	var s *Server
	lone(t, ServerConfig{Bytes: 8 * hsn.MaxPage, Spill: filepath.Join(t.TempDir(), "spill"), SpillBytes: pages * hsn.MaxPage}, map[string]func(sp *sim.Process, s *Server) error{
		"client/0": func(sp *sim.Process, its *Server) error {
			s = its
			_, err := open(sp, pages)
			return err
		},
		"keeper/0": func(sp *sim.Process, its *Server) error {
			for its.Stats().Ended == 0 {
				sleep(sp, time.Second)
			}
			sleep(sp, time.Second)
			if st := its.Stats(); st.Pages != 0 || st.UsedBytes != 0 || st.SpillUsed != 0 || len(its.store.out) != 0 || its.store.frames != 0 {
				return fmt.Errorf("%d pages are left of a client that has ended, %d bytes, %d of the file, and %d frames", st.Pages, st.UsedBytes, st.SpillUsed, its.store.frames)
			}
			return nil
		},
	})
	if n := s.store.spill.out; n == 0 {
		t.Error("nothing went to the file")
	}
}

// A partition ends the session between the NICs of a server and a client, and heals. The client's
// pages are dropped nevertheless when its process ends.
func TestAServerLearnsOfTheEndOfAClientBehindAPartition(t *testing.T) {
	for _, cut := range []time.Duration{0, time.Second, 20 * time.Second, 3 * time.Minute} {
		// If Dead is 10 minutes, the client does not notice the partition.
		for _, dead := range []time.Duration{0, 10 * time.Minute} {
			f := sim.New(sim.Config{Seed: 1, NICs: 2})
			var s *Server
			f.Serve(1, "memory/0", func(sp *sim.Process) (err error) {
				if s, err = Serve(sp.Weft(), ServerConfig{Bytes: 64 * hsn.MaxPage, Keep: time.Hour}); err != nil {
					return err
				}
				return sleep(sp, 24*time.Hour)
			})
			f.Process(0, "client/0", func(sp *sim.Process) error {
				ctx := context.Background()
				c, err := NewClient(ctx, sp.Weft(), ClientConfig{Servers: []ServerRef{{Name: weft.Name{App: "memory"}}}, Dead: dead})
				if err != nil {
					return err
				}
				heal := f.Partition(0)
				sleep(sp, cut)
				heal()
				sleep(sp, time.Minute)
				return c.WritePage(ctx, 3, make([]byte, hsn.HalfPage))
			})
			f.Process(1, "keeper/0", func(sp *sim.Process) error {
				sleep(sp, cut+2*time.Minute)
				if st := s.Stats(); st.PageOuts != 1 || st.Ended != 1 || st.Pages != 0 {
					return fmt.Errorf("a client that was cut off for %v, and has ended: %+v", cut, st)
				}
				return nil
			})
			if err := f.Run(time.Hour); err != nil {
				t.Error(err)
			}
		}
	}
}

// A process ends, and then one of its requests to open arrives late or for the second time. If
// the process was no client here, the request may be its first.
func TestAClientThatHasEndedIsNotRevivedByARequestThatComesLate(t *testing.T) {
	lone(t, ServerConfig{Bytes: 64 * hsn.MaxPage}, map[string]func(sp *sim.Process, s *Server) error{"client/0": func(sp *sim.Process, s *Server) (err error) {
		if _, err := open(sp, 4); err != nil {
			return err
		}
		s.port.mu.Lock()
		defer s.port.mu.Unlock()
		name, stranger := weft.Name{App: "client"}, weft.Name{App: "stranger"}
		l := *s.lives[name]
		ends := func(at hsn.Host) {
			s.heed(&weft.Event{Kind: weft.EventProcessGone, Addr: weft.Address{NIC: weft.NICID(at.NIC), Slot: at.Slot, Generation: at.Gen}})
		}
		opens := func(what string, owner weft.Name, at hsn.Host, begun uint64, want bool) {
			if got := s.lifeOf(&request{owner: owner, record: record{op: opOpen, version: begun}, from: at}); (got != nil) != want {
				err = errors.Join(err, fmt.Errorf("%s: life %+v", what, got))
			}
		}
		ends(l.at)
		opens("the one that has ended", name, l.at, l.begun, false)
		next := l.at
		next.Gen++
		opens("its successor", name, next, 1, true)
		other := l.at
		other.Slot++
		ends(other)
		opens("one that has ended before it opened", stranger, other, 1, false)
		for range 2 * maxEndings {
			other.Gen++
			ends(other)
		}
		if n := len(s.endings); n != maxEndings {
			err = errors.Join(err, fmt.Errorf("%d endings are remembered; expected %d", n, maxEndings))
		}
		return err
	}})
}

// A client's host reboots, and the next client of the same name stores pages before the server's
// goroutine for events has run.
func TestTheEndOfAHostEndsNoClientThatHasBegunSince(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	var s *Server
	f.Serve(1, "memory/0", func(sp *sim.Process) (err error) {
		if s, err = Serve(sp.Weft(), ServerConfig{Bytes: 64 * hsn.MaxPage}); err != nil {
			return err
		}
		s.bell.Close() // that goroutine ends
		return sleep(sp, time.Hour)
	})
	first, done := true, false
	f.Serve(0, "client/0", func(sp *sim.Process) error {
		c, err := open(sp, 8)
		if err != nil {
			return err
		}
		if first {
			first = false
			s.heed(&weft.Event{Kind: weft.EventUnreachable, Addr: weft.Address{NIC: sp.Weft().Address().NIC}})
			f.After(time.Millisecond, func() { f.Reboot(0, 0) })
			return sleep(sp, time.Hour)
		}
		s.port.mu.Lock()
		s.heedAll()
		s.port.mu.Unlock()
		if st := s.Stats(); st.Pages != 8 || st.Ended != 1 {
			return fmt.Errorf("of the client that lives: %+v", st)
		}
		done = true
		return c.ReadPage(context.Background(), 3, make([]byte, hsn.HalfPage))
	})
	f.Process(1, "keeper/0", func(sp *sim.Process) error {
		sleep(sp, time.Minute)
		return nil
	})
	if err := f.Run(time.Hour); err != nil || !done {
		t.Errorf("the second client came to its end: %v; %v", done, err)
	}
}

func TestAServerThatKeepsTooShortlyIsRefused(t *testing.T) {
	n := weft.NewSwitch()
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "memory"}, Link: n.Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := Serve(p, ServerConfig{Bytes: hsn.MaxPage, Keep: time.Second}); err == nil || err.Error() != "netmem: a server that keeps pages of silent clients for 1s; expected 1m0s or more, or 0 for 10m0s" {
		t.Errorf("%v", err)
	}
}
