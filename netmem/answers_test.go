package netmem

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/sim"
)

// calling passes do a client with 16 pages on one server while the network is clogged. The port's
// lock is held.
func calling(t *testing.T, cfg ClientConfig, do func(c *Client, s *server) error) {
	t.Helper()
	cfg.Dead = time.Minute
	withClient(t, cfg, func(_ *sim.Process, f *sim.Fabric, c *Client) error {
		f.Clog(0, 1, time.Second)
		c.port.mu.Lock()
		defer c.port.mu.Unlock()
		return do(c, c.servers[0])
	})
}

// answer passes an answer with a page to the client. It returns the change in the number of free
// buffers.
func (c *Client) answer(from hsn.Host, header, page []byte) (kept int) {
	before := c.port.pool.Len()
	m := hsn.Message{From: from, Header: header}
	if page != nil {
		m.Buffers[0] = c.port.pool.Take()
		m.Data = m.Buffers[0].Page[:copy(m.Buffers[0].Page, page)]
	}
	c.receive(c.port.now(), m)
	return before - c.port.pool.Len()
}

// An answer that belongs to no call is discarded with its page. It ends no call, and says nothing
// about its server.
func TestAnAnswerThatNoCallWaitsForLeavesNothing(t *testing.T) {
	calling(t, ClientConfig{}, func(c *Client, s *server) (err error) {
		for _, x := range []struct {
			what    string
			change  func(r *record, k *call)
			header  func(b []byte) []byte
			damaged uint64
		}{
			{"a short header", nil, func(b []byte) []byte { return b[1:] }, 1},
			{"a long header", nil, func(b []byte) []byte { return append(b, 0) }, 1},
			{"an unknown operation", nil, func(b []byte) []byte { b[0] = byte(ops); return b }, 1},
			{"another request", func(r *record, _ *call) { r.request += 1000 }, nil, 0},
			{"another operation", func(r *record, _ *call) { r.op = opDiscard }, nil, 0},
			{"an open", func(r *record, _ *call) { r.op = opOpen }, nil, 0},
			{"an earlier epoch", func(r *record, _ *call) { r.epoch-- }, nil, 0},
			{"a second answer", func(_ *record, k *call) { k.done.Store(true) }, nil, 0},
			{"an answer to an open of another client", func(r *record, k *call) { k.record.op, r.op, r.version = opOpen, opOpen, k.record.version+1 }, nil, 0},
			{"an answer to an open of another kind", func(_ *record, k *call) { k.record.op = opOpen }, nil, 0},
		} {
			k := c.begin(s, record{op: opPageIn, page: 3}, nil)
			r := k.record
			if x.change != nil {
				x.change(&r, k)
			}
			header := make([]byte, recordLen)
			if r.put(header); x.header != nil {
				header = x.header(header)
			}
			s.heard = 0
			was, damaged := k.done.Load(), c.stats.Damaged
			if kept := c.answer(s.host(), header, make([]byte, hsn.HalfPage)); kept != 0 || k.done.Load() != was || s.heard != 0 || c.stats.Damaged != damaged+x.damaged {
				err = errors.Join(err, fmt.Errorf("%s: %d buffers are held, the call is done: %v, the server was heard at %v, and %d messages are damaged", x.what, kept, k.done.Load(), s.heard, c.stats.Damaged-damaged))
			}
			c.forget(k)
		}
		return err
	})
}

// An answer holds a buffer only if it brings a page. It ends its call, makes room in the window
// of its server, and proves that the server is alive.
func TestAnAnswerHoldsABufferOnlyWithItsPage(t *testing.T) {
	calling(t, ClientConfig{}, func(c *Client, s *server) (err error) {
		for _, x := range []struct {
			op     op
			status status
			held   int
		}{{opPageIn, statusOK, 1}, {opPageIn, statusMissing, 0}, {opPageIn, statusEpoch, 0}, {opPageOut, statusOK, 0}, {opOpen, statusOK, 0}, {opOpen, statusTaken, 0}} {
			free, with := c.port.pool.Len(), s.window.with
			k := c.begin(s, record{op: x.op, page: 3, version: 9}, nil)
			r := k.record
			r.status = x.status
			header := make([]byte, recordLen)
			r.put(header)
			s.heard = 0
			held := c.answer(s.host(), header, make([]byte, hsn.HalfPage))
			if held != x.held || !k.done.Load() || s.heard != c.port.now() || s.window.with != with || k.answer.status != x.status || k.answered() != nil {
				err = errors.Join(err, fmt.Errorf("operation %d, status %d: %d buffers are held, done %v, heard %v, %d requests are with the server", x.op, x.status, held, k.done.Load(), s.heard, s.window.with))
			}
			if c.forget(k); c.port.pool.Len() != free {
				err = errors.Join(err, fmt.Errorf("operation %d, status %d: %d buffers are free after the call, of %d", x.op, x.status, c.port.pool.Len(), free))
			}
		}
		return err
	})
}

// A page is accepted if it is undamaged, not older than the acknowledged version, and not newer
// than any version that was sent.
func TestAPageOfAWrongVersionIsRejected(t *testing.T) {
	withClient(t, ClientConfig{}, func(_ *sim.Process, _ *sim.Fabric, c *Client) (err error) {
		data := pattern(hsn.HalfPage, 7)
		sum := crc32.Checksum(data, castagnoli)
		s := c.servers[0]
		for _, x := range []struct {
			what           string
			version        uint64
			crc            uint32
			page           []byte
			want           bool
			stale, damaged uint64
		}{
			{"the acknowledged version", 10, sum, data, true, 0, 0},
			{"the last version that was sent", 12, sum, data, true, 0, 0},
			{"a version between them", 11, sum, data, true, 0, 0},
			{"an older version", 9, sum, data, false, 1, 0},
			{"a version that was never sent", 13, sum, data, false, 1, 0},
			{"another checksum than the header says", 10, sum + 1, data, false, 0, 1},
			{"no page", 10, sum, nil, false, 0, 1},
		} {
			p, k := &page{version: 10, issued: 12, crc: sum}, &call{to: s}
			k.answer = record{version: x.version, epoch: s.epoch, shape: shape{crc: x.crc}}
			before := c.Stats()
			got := c.accepts(p, k, x.page)
			st := c.Stats()
			has := p.on(s)
			if got != x.want || st.Stale-before.Stale != x.stale || st.Damaged-before.Damaged != x.damaged || (has != nil) != got || got && has.version != x.version {
				err = errors.Join(err, fmt.Errorf("%s: taken %v, and the client believes in %+v", x.what, got, has))
			}
		}
		p, k := &page{version: 10, issued: 12, crc: sum + 1}, &call{to: s}
		k.answer = record{version: 10, shape: shape{crc: sum}}
		if c.accepts(p, k, data) {
			err = errors.Join(err, errors.New("other bytes were taken for those of the acknowledged version"))
		}
		return err
	})
}

// Only silence for Dead makes a server dead, and only an epoch that the request knew makes it
// restarted.
func TestAServerIsSuspectedForAReasonOnly(t *testing.T) {
	calling(t, ClientConfig{}, func(c *Client, s *server) (err error) {
		now, dead := c.port.now(), c.cfg.Dead
		epoch := func(e uint64) *call {
			k := &call{to: s, record: record{op: opPageIn, epoch: e}, answer: record{status: statusEpoch}}
			k.done.Store(true)
			return k
		}
		other := epoch(s.epoch)
		other.answer.status = statusMissing
		for what, x := range map[string]struct {
			heard time.Duration
			call  *call
			up    bool
			died  uint64
		}{
			"silent, but heard just in time":   {dead - 1, &call{to: s, failed: errSilent}, true, 0},
			"silent for Dead":                  {dead, &call{to: s, failed: errSilent}, false, 1},
			"a context that ended":             {dead, &call{to: s, failed: context.Canceled}, true, 0},
			"a server that is down":            {dead, &call{to: s, failed: errDown}, true, 0},
			"another epoch":                    {0, epoch(s.epoch), false, 0},
			"another epoch than it had before": {0, epoch(s.epoch - 1), true, 0},
			"a missing page":                   {0, other, true, 0},
		} {
			s.up, s.heard, c.stats.Deaths = true, now.Add(-x.heard), 0
			c.port.mu.Unlock()
			c.suspect(x.call)
			c.suspect(x.call)
			c.port.mu.Lock()
			if s.up != x.up || c.stats.Deaths != x.died {
				err = errors.Join(err, fmt.Errorf("%s: the server is up: %v, after %d deaths; expected %v, %d", what, s.up, c.stats.Deaths, x.up, x.died))
			}
		}
		s.up = true
		for what, x := range map[string]struct {
			k     *call
			heard time.Duration
			want  bool
		}{
			"asked for Dead":               {&call{to: s, begun: now.Add(-dead)}, dead, true},
			"asked for less":               {&call{to: s, begun: now.Add(-dead + 1)}, dead, false},
			"heard since":                  {&call{to: s, begun: now.Add(-2 * dead)}, dead - 1, false},
			"the request has yet to leave": {&call{to: s, begun: now.Add(-2 * dead), waits: true}, dead, false},
		} {
			if s.heard = now.Add(-x.heard); c.silent(x.k) != x.want {
				err = errors.Join(err, fmt.Errorf("%s: the server is silent: %v", what, !x.want))
			}
		}
		s.heard = now
		return err
	})
}
