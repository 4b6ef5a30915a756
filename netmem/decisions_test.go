package netmem

import (
	"errors"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/sim"
)

// An answer brings a shard only if it is undamaged and has the requested version, code and
// number. Every other answer is counted, and the shards that have arrived stay.
func TestAShardOfAnotherPageIsRejected(t *testing.T) {
	const kept = hsn.HalfPage
	onSeveral(t, []int{64, 64, 64}, 1, ClientConfig{Coding: Code{Data: 2, Parity: 1}}, func(w *several) (err error) {
		c, s := w.Client, w.Client.servers[0]
		good := func() *call {
			data := pattern(kept/2, 5)
			k := &call{to: s, msg: hsn.Message{Data: data}}
			k.answer = record{version: 10, shape: shape{code: c.code, crc: 99, sum: crc32.Checksum(data, castagnoli), size: kept, kept: kept, shard: 1}}
			k.done.Store(true)
			return k
		}
		for _, x := range []struct {
			what    string
			change  func(k *call)
			want    bool
			damaged bool
		}{
			{"the shard", func(*call) {}, true, false},
			{"an older version", func(k *call) { k.answer.version-- }, false, false},
			{"a newer version", func(k *call) { k.answer.version++ }, false, false},
			{"another page", func(k *call) { k.answer.crc++ }, false, false},
			{"another shard", func(k *call) { k.answer.shard = 0 }, false, false},
			{"another code", func(k *call) { k.answer.code.Parity++ }, false, false},
			{"a damaged shard", func(k *call) { k.msg.Data[3]++ }, false, true},
			{"a page of no bytes", func(k *call) { k.answer.kept = 0 }, false, true},
			{"a page that is too long", func(k *call) { k.answer.kept = uint16(c.cfg.PageBytes) + 2 }, false, true},
			{"a whole shard of a page that is too long", func(k *call) {
				k.answer.kept = uint16(c.cfg.PageBytes) + 8
				k.msg.Data = pattern(c.code.shardBytes(int(k.answer.kept)), 5)
				k.answer.sum = crc32.Checksum(k.msg.Data, castagnoli)
			}, false, true},
			{"a shard that is too short", func(k *call) { k.answer.kept -= 2 }, false, true},
		} {
			p := &page{version: 10, issued: 10, crc: 99}
			g := &gathered{c: c, p: p, mem: c.borrow()}
			k := good()
			x.change(k)
			before := c.Stats()
			got := g.accepts(k, 1)
			st := c.Stats()
			if got != x.want || (st.Damaged > before.Damaged) != x.damaged || (st.Stale > before.Stale) != (!x.want && !x.damaged) || (g.kept == kept) != got {
				err = errors.Join(err, fmt.Errorf("%s: taken %v, of a page of %d bytes", x.what, got, g.kept))
			}
			c.giveBack(g.mem)
		}
		g := &gathered{c: c, p: &page{version: 10, issued: 10, crc: 99}, mem: c.borrow()}
		defer c.giveBack(g.mem)
		second := good()
		second.answer.kept -= 1 // its shards have the same length
		if !g.accepts(good(), 1) || g.accepts(second, 1) || len(g.shards[1]) != kept/2 || len(g.shards[0]) != 0 {
			err = errors.Join(err, errors.New("a shard of a page of another length was taken"))
		}
		return err
	})
}

// The bytes of an answer say how long the page is. Bytes that say another length are no page, and
// the client allocates nothing for them.
func TestBytesThatSayAnotherLengthAreNoPage(t *testing.T) {
	withClient(t, ClientConfig{Compress: true}, func(_ *sim.Process, _ *sim.Fabric, c *Client) error {
		for n, want := range map[int]bool{0: false, 1: false, c.cfg.PageBytes - 1: false, c.cfg.PageBytes: true, c.cfg.PageBytes + 1: false, 8 * c.cfg.PageBytes: false} {
			page, mem := c.page(s2.Encode(nil, make([]byte, n)))
			if (page != nil) != want || len(page) > c.cfg.PageBytes {
				t.Errorf("a page of %d bytes that says %d has %d", c.cfg.PageBytes, n, len(page))
			}
			c.giveBack(mem)
		}
		return nil
	})
}

// The table gives the work of a repair for a page: each row changes one property of the page or
// its copies.
func TestARepairLooksAtEachProperty(t *testing.T) {
	for what, x := range map[string]struct {
		change  func(p *page, s []*server)
		lacks   bool
		surplus int
	}{
		"two good copies":               {func(*page, []*server) {}, false, 0},
		"a third copy":                  {func(p *page, s []*server) { p.has(s[2], 0, 10, 0) }, false, 1},
		"a third copy, which is old":    {func(p *page, s []*server) { p.has(s[2], 0, 9, 0) }, false, 1},
		"a third copy, which is away":   {func(p *page, s []*server) { p.has(s[2], 0, 10, 0); s[2].up = false }, false, 0},
		"a third copy, which was lost":  {func(p *page, s []*server) { p.has(s[2], 7, 10, 0) }, false, 0},
		"a copy is away":                {func(_ *page, s []*server) { s[0].up = false }, true, 0},
		"a copy is doubted":             {func(p *page, _ []*server) { p.copies[0].doubted = true }, true, 0},
		"a copy is old":                 {func(p *page, _ []*server) { p.copies[0].version-- }, true, 0},
		"a server leaves":               {func(_ *page, s []*server) { s[0].gone = true }, true, 0},
		"a server leaves, and is spare": {func(p *page, s []*server) { s[0].gone = true; p.has(s[2], 0, 10, 0) }, false, 1},
		"no copy is good":               {func(_ *page, s []*server) { s[0].up, s[1].up = false, false }, false, 0},
		"a page that was never written": {func(p *page, _ []*server) { p.version, p.copies = 0, nil }, false, 0},
		"a failed write":                {func(p *page, s []*server) { p.issued++; p.has(s[2], 0, 10, 0) }, false, 0},
		"content waits":                 {func(p *page, _ []*server) { p.pending = []byte{1} }, true, 0},
		"content waits for servers":     {func(p *page, s []*server) { p.pending = []byte{1}; s[0].up, s[1].up = false, false }, false, 0},
	} {
		c := &Client{code: Code{Data: 1, Parity: 1}}
		for range 3 {
			c.servers = append(c.servers, &server{up: true})
		}
		p := &page{version: 10, issued: 10}
		p.has(c.servers[0], 0, 10, 0)
		p.has(c.servers[1], 0, 10, 0)
		x.change(p, c.servers)
		if lacks, surplus := c.lacks(p, len(c.live())), c.surplus(p); lacks != x.lacks || len(surplus) != x.surplus {
			t.Errorf("%s: lacks copies %v, and has %d too many; expected %v, %d", what, lacks, len(surplus), x.lacks, x.surplus)
		}
	}
}

// Refused pages are retried after a pause that doubles up to its bound, at once when there may be
// room, and soon after a success.
func TestRefusedPagesAreTriedAgainAfterAPause(t *testing.T) {
	l, now := &look{}, clock.Time(time.Hour)
	l.refuse(3)
	for i, want := range []time.Duration{fullLeast, 2 * fullLeast, 4 * fullLeast} {
		l.begun(true)
		if l.ended(now, false); l.again != now.Add(want) || l.stuck != i+1 {
			t.Errorf("round %d: the next is in %v, and the last that was stuck is %d; expected %v", i+1, l.again.Sub(now), l.stuck, want)
		}
	}
	for range 20 {
		l.ended(now, false)
	}
	if l.again != now.Add(fullMost) {
		t.Errorf("after many rounds, the next is in %v; expected %v", l.again.Sub(now), fullMost)
	}
	stuck := l.stuck
	l.begun(true)
	if l.ended(now, true); l.again != now.Add(fullLeast) || l.stuck != stuck {
		t.Errorf("after a repair, the next is in %v, and stuck is %d; expected %v", l.again.Sub(now), l.stuck, fullLeast)
	}
	if l.free(); l.again != 0 {
		t.Errorf("when there may be room, the next is at %v", l.again)
	}
	l.begun(false) // it does not try all pages
	if l.ended(now, false); l.again != 0 {
		t.Errorf("room that was freed during a round of all pages: the next is at %v", l.again)
	}
	l.begun(true)
	if l.ended(now, false); l.again == 0 {
		t.Error("a round of all pages after the room was freed has not ended the haste")
	}
	if !l.refuses(3) || l.refuses(4) {
		t.Error("another page than page 3 counts as refused")
	}
	clear(l.refused)
	if l.ended(now, false); l.again != now || l.wait != 0 {
		t.Errorf("without refused pages, the next round is in %v", l.again.Sub(now))
	}
	l.lose(5)
	if l.note(5); len(l.lost) != 0 || len(l.pages) != 1 {
		t.Error("a page that changes still counts as lost")
	}
	s := &server{up: true}
	for what, change := range map[string]func(){"up": func() { s.up = false }, "gone": func() { s.gone = true }, "epoch": func() { s.epoch++ }} {
		l.changed([]*server{s})
		if l.changed([]*server{s}) {
			t.Errorf("%s: no server has changed", what)
		}
		if change(); !l.changed([]*server{s}) {
			t.Errorf("%s: a server has changed", what)
		}
	}
}
