package netmem

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/sim"
)

// locked runs do at a server with two pages of a client, whose life is l. The port's lock is
// held, so no time passes.
func locked(t *testing.T, do func(s *Server, l *life) error) {
	t.Helper()
	cfg := ServerConfig{Bytes: 8 * hsn.MaxPage, Shelve: 2 * KeepLeast, Keep: 3 * KeepLeast}
	lone(t, cfg, map[string]func(sp *sim.Process, s *Server) error{"client/0": func(sp *sim.Process, s *Server) error {
		c, err := open(sp, 2)
		if err != nil {
			return err
		}
		defer c.Close()
		s.port.mu.Lock()
		defer s.port.mu.Unlock()
		return do(s, s.lives[sp.Weft().Name()])
	}})
}

// Another process may take the name of a client that was silent for silentFor, and not before. A
// request ends the silence, and also the silence of the client's NIC.
func TestANameIsTakenAfterTheTimeOfSilenceOnly(t *testing.T) {
	locked(t, func(s *Server, l *life) (err error) {
		name, now := weft.Name{App: "client"}, s.port.now()
		other := l.at
		other.Gen++
		opens := func(what string, taken bool) {
			got := s.lifeOf(&request{record: record{op: opOpen, version: 1}, from: other, owner: name})
			if (got != nil) != taken || taken && s.store.count() > 0 {
				err = errors.Join(err, fmt.Errorf("%s: the other process has the life %+v, and %d pages are left", what, got, s.store.count()))
			}
		}
		nic := weft.Event{Kind: weft.EventUnreachable, Addr: weft.Address{NIC: weft.NICID(l.at.NIC)}}
		away := weft.Event{Kind: weft.EventUnreachable, Addr: weft.Address{NIC: weft.NICID(l.at.NIC + 1)}}
		l.heard = now.Add(-silentFor + 1)
		opens("just before the time", false)
		l.heard = now.Add(-silentFor)
		if s.lifeOf(&request{record: record{op: opPageIn, epoch: l.epoch}, from: l.at, owner: name}) != l {
			err = errors.Join(err, errors.New("the client has lost its life"))
		}
		opens("a request has ended the silence", false)
		s.heed(&away)
		opens("another NIC is unreachable", false)
		s.heed(&nic)
		s.heed(&away)
		if !l.cut {
			err = errors.Join(err, errors.New("an event about another NIC has ended the silence"))
		}
		s.lifeOf(&request{record: record{op: opOpen, version: l.begun}, from: l.at, owner: name})
		opens("a request has ended the silence of the NIC", false)
		l.heard = now.Add(-silentFor)
		opens("after the time", true)
		return err
	})
}

// An event ends the clients that it concerns, and no other.
func TestAnEventEndsNoOtherClient(t *testing.T) {
	locked(t, func(s *Server, l *life) (err error) {
		at := weft.Address{NIC: weft.NICID(l.at.NIC), Slot: l.at.Slot, Generation: l.at.Gen}
		for what, e := range map[string]weft.Event{
			"another NIC is closed":                {Kind: weft.EventClosed, Addr: weft.Address{NIC: at.NIC + 1}},
			"another NIC has restarted":            {Kind: weft.EventRestarted, Addr: weft.Address{NIC: at.NIC + 1}},
			"a process of another NIC has ended":   {Kind: weft.EventProcessGone, Addr: weft.Address{NIC: at.NIC + 1, Slot: at.Slot, Generation: at.Generation}},
			"another process has ended":            {Kind: weft.EventProcessGone, Addr: weft.Address{NIC: at.NIC, Slot: at.Slot + 1, Generation: at.Generation}},
			"an earlier process of it has ended":   {Kind: weft.EventProcessGone, Addr: weft.Address{NIC: at.NIC, Slot: at.Slot, Generation: at.Generation - 1}},
			"its NIC is unreachable, but may live": {Kind: weft.EventUnreachable, Addr: at},
		} {
			if s.heed(&e); s.lives[weft.Name{App: "client"}] != l || s.store.count() != 2 || s.stats.Ended != 0 {
				err = errors.Join(err, fmt.Errorf("%s: the client has ended", what))
			}
		}
		return err
	})
}

// A server remembers the last maxEndings ends, and refuses requests to open from before them.
func TestTheEndsThatAServerRemembersAreBounded(t *testing.T) {
	s := &Server{}
	from := func(i int) hsn.Host { return hsn.Host{NIC: uint64(i)} }
	const more = 3
	for i := range maxEndings + more {
		s.remember(ending{from(i), 10})
	}
	if len(s.endings) != maxEndings {
		t.Errorf("%d ends are remembered; expected %d", len(s.endings), maxEndings)
	}
	for _, c := range []struct {
		host  int
		begun uint64
		want  bool
	}{{more, 9, true}, {more, 10, true}, {more, 11, false}, {maxEndings + more - 1, 10, true}, {more - 1, 10, false}, {maxEndings + more, 10, false}} {
		if got := s.hasEnded(&request{record: record{op: opOpen, version: c.begun}, from: from(c.host)}); got != c.want {
			t.Errorf("client %d of host %d has ended: %v; expected %v", c.begun, c.host, got, c.want)
		}
	}
}

// A shelf stays for ServerConfig.Shelve after the end of its last client, and while a client that
// has used it lives.
func TestAShelfIsDroppedAfterItsTimeOnly(t *testing.T) {
	locked(t, func(s *Server, l *life) (err error) {
		now := s.port.now()
		add := func(id shelfID, unused time.Duration) {
			s.shelvings++
			s.shelves[id] = &shelved{owner: weft.Name{App: shelfApp, Index: s.shelvings}, used: now.Add(-unused)}
		}
		left := func(what string, want ...shelfID) {
			for _, id := range want {
				if s.shelves[id] == nil {
					err = errors.Join(err, fmt.Errorf("%s: shelf %d is gone", what, id))
				}
			}
			if len(s.shelves) != len(want) {
				err = errors.Join(err, fmt.Errorf("%s: %d shelves are left of %d", what, len(s.shelves), len(want)))
			}
		}
		add(1, s.cfg.Shelve)
		add(2, s.cfg.Shelve+1)
		add(3, s.cfg.Shelve+1)
		add(4, 0)
		l.uses(3, s.shelves)
		s.unshelveUnused()
		left("a client uses shelf 3", 1, 3, 4)
		if err := s.shelve(4, s.cfg.Shelve+1); err != nil {
			return err
		}
		l.uses(5, s.shelves) // a shelf that no longer exists
		s.end(weft.Name{App: "client"})
		s.unshelveUnused()
		left("the client has just ended, and shelf 4 is unused", 1, 3)
		if s.shelves[3].used != now || s.store.leaving == 0 || !s.sweeping || s.store.count() != 0 {
			err = errors.Join(err, fmt.Errorf("shelf 3 is unused since %v, %d bytes leave (%v), and %d pages are left", s.shelves[3].used, s.store.leaving, s.sweeping, s.store.count()))
		}
		s.shelves[3].used = now.Add(-s.cfg.Shelve - 1)
		s.unshelveUnused()
		left("no client uses shelf 3", 1)
		return err
	})
}

// shelve puts a page on a shelf and makes the shelf unused for some time.
func (s *Server) shelve(id shelfID, unused time.Duration) error {
	b := [2]*hsn.Buffer{s.port.pool.Take()}
	m := hsn.Message{Data: b[0].Page[:hsn.HalfPage], Buffers: b}
	defer s.port.driver.Free(&m)
	_, st, _ := s.store.put(pageKey{owner: s.shelves[id].owner}, 1, shape{code: Code{Data: 1}, size: hsn.HalfPage}, 0, &m)
	s.shelves[id].used = s.port.now().Add(-unused)
	if n := s.shelvedBytes(); st != statusOK || n != hsn.HalfPage {
		return fmt.Errorf("a page of a shelf: status %d, and shelves have %d bytes", st, n)
	}
	return nil
}

// A server looks several times within the shortest time for which it must keep pages.
func TestAServerLooksForSilentClientsOften(t *testing.T) {
	for _, c := range []struct{ keep, shelve, want time.Duration }{
		{4 * time.Minute, 0, time.Minute}, {4 * time.Minute, 2 * time.Minute, 30 * time.Second}, {4 * time.Minute, time.Hour, time.Minute},
	} {
		if got := (&Server{cfg: ServerConfig{Keep: c.keep, Shelve: c.shelve}}).forgetEvery(); got != c.want {
			t.Errorf("a server that keeps for %v and %v looks every %v; expected %v", c.keep, c.shelve, got, c.want)
		}
	}
}
