package netmem

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/sim"
)

// asked is a request as it arrives at a server: its sender, its header and its data.
type asked struct {
	record
	from   hsn.Host
	owner  weft.Name
	header func(b []byte) []byte // nil: the header of the record
	data   []byte
}

// gets passes a request to the server and returns the answer; nil if there is none. The port's
// lock is held.
func (s *Server) gets(q *asked) *record {
	m := hsn.Message{From: q.from, Header: make([]byte, recordLen)}
	q.record.put(m.Header)
	if q.header != nil {
		m.Header = q.header(m.Header)
	}
	if q.data != nil {
		m.Buffers[0] = s.port.pool.Take()
		m.Data = m.Buffers[0].Page[:copy(m.Buffers[0].Page, q.data)]
	}
	s.port.names[q.from] = q.owner
	i := len(s.answers)
	if n := len(s.free); n > 0 {
		i = s.free[n-1]
		s.answers[i].header = [recordLen]byte{}
	}
	s.receive(s.port.now(), m)
	var r record
	if i == len(s.answers) || r.parse(s.answers[i].header[:]) != nil {
		return nil
	}
	return &r
}

// holdings is the part of a server's state that a request may change.
type holdings struct {
	pages, used, leaving, buffers, shelves, lives, parked int
	full, refused, damaged, strangers, outs, ins          uint64
}

func (s *Server) holdings() holdings {
	return holdings{
		pages: s.store.count(), used: s.cfg.Bytes - s.store.room(), leaving: s.store.leaving, buffers: s.port.pool.Len() + s.store.frames,
		shelves: len(s.shelves), lives: len(s.lives), parked: s.parked,
		full: s.stats.Full, refused: s.stats.Refused, damaged: s.stats.Damaged, strangers: s.stats.Strangers, outs: s.stats.PageOuts, ins: s.stats.PageIns,
	}
}

const quotaOfThree = 3 * hsn.HalfPage

// onRequests passes do a server with a client that has written pages 0 and 1, and a request of
// this client to write page 7, which the server would serve. The port's lock is held.
func onRequests(t *testing.T, cfg ServerConfig, do func(s *Server, good func() *asked) error) {
	t.Helper()
	cfg.Bytes, cfg.QuotaBytes = 8*hsn.MaxPage, quotaOfThree
	lone(t, cfg, map[string]func(sp *sim.Process, s *Server) error{"client/0": func(sp *sim.Process, s *Server) error {
		c, err := open(sp, 2)
		if err != nil {
			return err
		}
		defer c.Close()
		s.port.mu.Lock()
		defer s.port.mu.Unlock()
		l := s.lives[sp.Weft().Name()]
		page := pattern(hsn.HalfPage, 9)
		sum := crc32.Checksum(page, castagnoli)
		r := record{op: opPageOut, request: 1 << 31, page: 7, version: 1 << 62, epoch: l.epoch}
		r.shape = shape{code: Code{Data: 1}, crc: sum, sum: sum, size: hsn.HalfPage, kept: hsn.HalfPage}
		return do(s, func() *asked {
			return &asked{record: r, from: l.at, owner: sp.Weft().Name(), data: bytes.Clone(page)}
		})
	}})
}

// none is the status of a request that gets no answer.
const none = statuses

// Each request that a server refuses is counted once and changes nothing else: no page, life,
// shelf or buffer is held.
func TestARefusedRequestLeavesNothing(t *testing.T) {
	const id = 77
	shelvedAs := func(o op) func(q *asked) { return func(q *asked) { q.op, q.shelved, q.room = o, true, id } }
	at := func(i int, v byte) func(q *asked) {
		return func(q *asked) { q.header = func(b []byte) []byte { b[i] = v; return b } }
	}
	for _, c := range []struct {
		what   string
		change func(q *asked)
		want   status
		counts func(h *holdings)
	}{
		{"a short header", func(q *asked) { q.header = func(b []byte) []byte { return b[:recordLen-1] } }, none, func(h *holdings) { h.damaged++ }},
		{"a long header", func(q *asked) { q.header = func(b []byte) []byte { return append(b, 0) } }, none, func(h *holdings) { h.damaged++ }},
		{"no operation", at(0, 0), none, func(h *holdings) { h.damaged++ }},
		{"an unknown operation", at(0, byte(ops)), none, func(h *holdings) { h.damaged++ }},
		{"an unknown status", at(1, byte(statuses)), none, func(h *holdings) { h.damaged++ }},
		{"an unknown shelf flag", at(63, 2), none, func(h *holdings) { h.damaged++ }},
		{"a sender without a name", func(q *asked) { q.owner = weft.AnyProcess }, none, func(h *holdings) { h.strangers++ }},
		{"a client that is not admitted", func(q *asked) { q.owner = weft.Name{App: "barred"} }, statusRefused, func(h *holdings) { h.refused++ }},
		{"an open of a client that is not admitted", func(q *asked) { q.op, q.owner = opOpen, weft.Name{App: "barred"} }, statusRefused, func(h *holdings) { h.refused++ }},
		{"a client without a life", func(q *asked) { q.owner = weft.Name{App: "other"} }, statusEpoch, nil},
		{"an earlier epoch", func(q *asked) { q.epoch-- }, statusEpoch, nil},
		{"a later epoch", func(q *asked) { q.epoch++ }, statusEpoch, nil},
		{"an earlier process of the slot", func(q *asked) { q.from.Gen-- }, statusEpoch, nil},
		{"another slot", func(q *asked) { q.from.Slot++ }, statusEpoch, nil},
		{"another NIC", func(q *asked) { q.from.NIC++ }, statusEpoch, nil},
		{"a discard in an earlier epoch", func(q *asked) { q.op, q.page, q.epoch, q.data = opDiscard, 1, q.epoch-1, nil }, statusEpoch, nil},
		{"a leave in an earlier epoch", func(q *asked) { q.op, q.epoch, q.data = opLeave, q.epoch-1, nil }, statusEpoch, nil},
		{"an open by another process", func(q *asked) { q.op, q.from.Gen, q.data = opOpen, q.from.Gen+1, nil }, statusTaken, nil},
		{"an open by an earlier client", func(q *asked) { q.op, q.version, q.data = opOpen, 1, nil }, statusTaken, nil},
		{"a damaged page", func(q *asked) { q.data[5] ^= 1 }, statusBad, func(h *holdings) { h.damaged++ }},
		{"no data shard", func(q *asked) { q.code = Code{Parity: 1} }, statusBad, func(h *holdings) { h.damaged++ }},
		{"a shard beyond the last", func(q *asked) { q.code, q.shard = Code{2, 1}, 3 }, statusBad, func(h *holdings) { h.damaged++ }},
		{"a page of no bytes", func(q *asked) { q.size = 0 }, statusBad, func(h *holdings) { h.damaged++ }},
		{"a page that is too long", func(q *asked) { q.size = hsn.MaxPage + 1 }, statusBad, func(h *holdings) { h.damaged++ }},
		{"no data", func(q *asked) { q.data, q.sum = nil, 0 }, statusBad, func(h *holdings) { h.damaged++ }},
		{"a bundle of too few bytes", func(q *asked) { q.op, q.data = opPageIns, q.data[:bundled-1] }, none, func(h *holdings) { h.damaged++ }},
		{"a bundle without data", func(q *asked) { q.op, q.data = opPageIns, nil }, none, func(h *holdings) { h.damaged++ }},
		{"a page beyond the quota", func(q *asked) {
			q.data = pattern(hsn.MaxPage-4, 3)
			q.sum = crc32.Checksum(q.data, castagnoli)
		}, statusQuota, func(h *holdings) { h.full++ }},
		{"a read of a page that was never written", func(q *asked) { q.op, q.data = opPageIn, nil }, statusMissing, nil},
		{"a discard of an older version", func(q *asked) { q.op, q.page, q.version, q.data = opDiscard, 1, 1, nil }, statusOK, nil},
		{"a read of an unknown shelf", shelvedAs(opPageIn), statusMissing, nil},
		{"a discard on an unknown shelf", shelvedAs(opDiscard), statusMissing, nil},
		{"a clear of an unknown shelf", shelvedAs(opLeave), statusMissing, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			cfg := ServerConfig{Shelve: KeepLeast, Admit: func(n weft.Name) bool { return n.App != "barred" }}
			onRequests(t, cfg, func(s *Server, good func() *asked) error {
				want, q := s.holdings(), good()
				if c.counts != nil {
					c.counts(&want)
				}
				c.change(q)
				got := none
				if r := s.gets(q); r != nil {
					got = r.status
				}
				if have := s.holdings(); got != c.want || have != want {
					return fmt.Errorf("status %d and %+v; expected status %d and %+v", got, have, c.want, want)
				}
				return s.store.counted()
			})
		})
	}
}

// The last allowed values are served. An answer says how much room the client still has.
func TestARequestAtEachBoundIsServed(t *testing.T) {
	onRequests(t, ServerConfig{Shelve: KeepLeast}, func(s *Server, good func() *asked) (err error) {
		before := s.holdings()
		for i, c := range []struct {
			what   string
			change func(q *asked)
			room   int
		}{
			{"the last byte of the quota", func(*asked) {}, 0},
			{"the last shard, of the longest page", func(q *asked) { q.code, q.shard, q.size = Code{2, 1}, 2, hsn.MaxPage }, 0},
			{"a read", func(q *asked) { q.op, q.data = opPageIn, nil }, 0},
			{"a discard of the version", func(q *asked) { q.op, q.data, q.version = opDiscard, nil, q.version+1 }, hsn.HalfPage},
			{"a page of a shelf, which has a quota of its own", func(q *asked) { q.shelved, q.room = true, 5 }, hsn.HalfPage},
		} {
			q := good()
			q.version += uint64(min(i, 1))
			c.change(q)
			r := s.gets(q)
			switch {
			case r == nil || r.status != statusOK:
				err = errors.Join(err, fmt.Errorf("%s: the answer is %+v", c.what, r))
			case r.room != uint64(c.room) || r.request != q.request || r.epoch != q.epoch:
				err = errors.Join(err, fmt.Errorf("%s: room for %d bytes, expected %d; %+v", c.what, r.room, c.room, r))
			}
		}
		want := before
		want.pages, want.shelves, want.used = before.pages+1, 1, before.used+hsn.HalfPage
		want.outs, want.ins = before.outs+3, before.ins+1
		have := s.holdings()
		have.used = want.used // answers that are being sent hold their frames
		if have != want {
			err = errors.Join(err, fmt.Errorf("the server has %+v; expected %+v", have, want))
		}
		return errors.Join(err, s.store.counted())
	})
}

// A server without shelves refuses each request for one, and makes none.
func TestAServerWithoutShelvesMakesNone(t *testing.T) {
	onRequests(t, ServerConfig{}, func(s *Server, good func() *asked) (err error) {
		for _, o := range []op{opPageOut, opPageIn, opDiscard, opLeave} {
			q, want := good(), s.holdings()
			q.op, q.shelved = o, true
			if r := s.gets(q); r == nil || r.status != statusUnshelved || s.holdings() != want {
				err = errors.Join(err, fmt.Errorf("operation %d: the answer is %+v and the server has %+v; expected %+v", o, r, s.holdings(), want))
			}
		}
		return err
	})
}
