package netmem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// The client records the outcome of each answer to a write.
func TestEachAnswerToAWriteIsNoted(t *testing.T) {
	for what, x := range map[string]struct {
		change  func(k *call)
		has     bool
		full    bool
		issued  uint64
		damaged uint64
	}{
		"the version":                   {func(*call) {}, true, false, 10, 0},
		"no answer":                     {func(k *call) { k.failed = errSilent }, false, false, 10, 0},
		"another version":               {func(k *call) { k.answer.version++ }, false, false, 10, 0},
		"a full server":                 {func(k *call) { k.answer.status = statusFull }, false, true, 10, 0},
		"a quota":                       {func(k *call) { k.answer.status = statusQuota }, false, true, 10, 0},
		"no shelves":                    {func(k *call) { k.answer.status = statusUnshelved }, false, true, 10, 0},
		"a damaged request":             {func(k *call) { k.answer.status = statusBad }, false, false, 10, 1},
		"a restarted server":            {func(k *call) { k.answer.status = statusEpoch }, false, false, 10, 0},
		"a page of a shelf":             {func(k *call) { k.record.shelved = true }, true, false, 10, 0},
		"a newer one of another client": {func(k *call) { k.record.shelved = true; k.answer.version = 15 }, false, false, 16, 0},
		"other bytes of this version":   {func(k *call) { k.record.shelved = true; k.answer.crc++ }, false, false, 11, 0},
		"an older one of another":       {func(k *call) { k.record.shelved = true; k.answer.version = 9 }, false, false, 10, 0},
	} {
		c, s, p := &Client{code: Code{Data: 1}}, &server{}, &page{issued: 10}
		c.port = &port{}
		k := &call{to: s, answer: record{version: 10, epoch: 3}}
		k.done.Store(true)
		x.change(k)
		full := c.tookOut(p, k, 10, target{to: s})
		if (p.on(s) != nil) != x.has || full != x.full || p.issued != x.issued || c.stats.Damaged != x.damaged {
			t.Errorf("%s: %+v, full %v, issued %d, %d damaged; expected %+v", what, p.copies, full, p.issued, c.stats.Damaged, x)
		}
		if full != (s.refusal != 0) {
			t.Errorf("%s: the refusal is %d", what, s.refusal)
		}
		c.servers = []*server{s}
		s.Name = weft.Name{App: "memory", Index: 7}
		named := full && k.answer.status != statusFull
		if err := c.fullAt(map[*server]bool{s: true}); !errors.Is(err, ErrFull) || strings.Contains(err.Error(), "memory/7") != named {
			t.Errorf("%s: %v; the server is named: %v", what, err, named)
		}
		if err := c.fullAt(nil); err != ErrFull {
			t.Errorf("%s: a server that was not tried is named: %v", what, err)
		}
	}
}

// The table covers the copies of a version that count for a write, and the servers that get the
// missing copies.
func TestAWriteGoesToServersThatLackIt(t *testing.T) {
	for what, x := range map[string]struct {
		change func(s *server, k *copyOf)
		have   bool
		next   int // servers that get a copy
	}{
		"it has it":      {func(*server, *copyOf) {}, true, 1},
		"an old version": {func(_ *server, k *copyOf) { k.version-- }, false, 2},
		"a newer one":    {func(_ *server, k *copyOf) { k.version++ }, false, 2},
		"it is down":     {func(s *server, _ *copyOf) { s.up = false }, false, 2},
		"it leaves":      {func(s *server, _ *copyOf) { s.gone = true }, false, 2},
		"it restarted":   {func(s *server, _ *copyOf) { s.epoch++ }, false, 2},
		"it is doubted":  {func(_ *server, k *copyOf) { k.doubted = true }, false, 2},
	} {
		c := &Client{code: Code{Data: 1, Parity: 1}}
		for i := range 4 {
			c.servers = append(c.servers, &server{up: true, ServerRef: ServerRef{Weight: 1}, seed: uint64(i * 77)})
		}
		s, p := c.servers[2], &page{}
		p.has(s, 0, 10, 0)
		x.change(s, &p.copies[0])
		have, missing := c.placed(p, 10)
		l := c.candidates(p, 1, nil, have, missing)
		if slices.Contains(have, s) != x.have || len(missing) != x.next || len(l) != x.next {
			t.Errorf("%s: %d servers have it, %d copies are missing, and %d servers get one; expected %d", what, len(have), len(missing), len(l), x.next)
		}
		if i := slices.IndexFunc(l, func(t target) bool { return t.to == s }); i != 0 && s.up && !s.gone && !x.have || i >= 0 && (x.have || !s.up || s.gone) {
			t.Errorf("%s: the server with a copy is number %d of those that get one", what, i)
		}
		tried := map[*server]bool{l[0].to: true}
		if again := c.candidates(p, 1, tried, have, missing); slices.ContainsFunc(again, func(t target) bool { return tried[t.to] }) {
			t.Errorf("%s: a server that was tried is tried again", what)
		}
	}
	c, s := &Client{code: Code{Data: 2, Parity: 1}}, &server{up: true}
	p := &page{copies: []copyOf{{server: s, version: 10, shard: 1}, {server: s, version: 9, shard: 0}}}
	if _, missing := c.placed(p, 10); !slices.Equal(missing, []uint8{0, 2}) {
		t.Errorf("shards %d are missing; expected 0 and 2", missing)
	}
}

// The test covers the bounds of a volume, and which of its pages were written.
func TestTheBoundsOfAVolumeAreItsOwn(t *testing.T) {
	v := &Volume{bytes: 8192}
	for _, x := range []struct {
		offset, n int64
		ok        bool
	}{{0, 0, true}, {0, 8192, true}, {8192, 0, true}, {8191, 1, true}, {8191, 2, false}, {8193, 0, false}, {-1, 1, false}, {0, -1, false}, {0, 8193, false}, {1, 1<<63 - 1, false}} {
		if err := v.within("test", x.offset, x.n); (err == nil) != x.ok || err != nil && !errors.Is(err, weft.ErrBadArgument) {
			t.Errorf("%d bytes at %d: %v", x.n, x.offset, err)
		}
	}
	c := &Client{port: &port{}, pages: map[uint64]*page{3: {version: 1}, 4: {}, 5: {version: 1}, 9: {version: 1}}}
	for _, x := range []struct {
		first, end uint64
		want       []uint64
	}{{3, 6, []uint64{3, 5}}, {3, 5, []uint64{3}}, {4, 5, nil}, {0, 100, []uint64{3, 5, 9}}, {3, 9, []uint64{3, 5}}, {4, 10, []uint64{5, 9}}, {0, 3, nil}, {5, 5, nil}} {
		if got := c.among(x.first, x.end); !slices.Equal(got, x.want) {
			t.Errorf("from %d to %d, pages %d were written; expected %d", x.first, x.end, got, x.want)
		}
	}
}

// A volume has room for the copies that fit on different servers: one server can have at most one
// copy of each page.
func TestAVolumeCountsEachServerOnce(t *testing.T) {
	const page = 4096
	for _, x := range []struct {
		copies int
		rooms  []uint64
		want   int64
	}{{1, []uint64{3, 5}, 8}, {2, []uint64{3, 5}, 3}, {2, []uint64{3, 3, 100}, 6}, {2, []uint64{5, 5, 5}, 7}, {3, []uint64{9, 9, 2}, 2}, {1, nil, 0}} {
		c := &Client{port: &port{}, code: Code{Data: 1, Parity: x.copies - 1}, cfg: ClientConfig{PageBytes: page}}
		for _, room := range x.rooms {
			c.servers = append(c.servers, &server{up: true, room: room * page})
		}
		c.servers = append(c.servers, &server{up: false, room: 1000 * page}, &server{up: true, gone: true, room: 1000 * page})
		if got := c.capacity(); got != x.want*page {
			t.Errorf("%d copies on servers with room for %d pages: %d bytes; expected %d pages", x.copies, x.rooms, got, x.want)
		}
	}
}

// The first error ends concurrent work. No call begins after it, and the whole work returns this
// error.
func TestWorkEndsWithItsFirstError(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, _ *sim.Fabric, c *Client) (err error) {
		first := errors.New("the first error")
		for _, n := range []int{0, 1, 2, 3, 50} {
			begun, most, running := 0, 0, 0
			failed := c.parallel(context.Background(), 3, n, func(ctx context.Context, i int) error {
				begun, running = begun+1, running+1
				most = max(most, running)
				defer func() { running-- }()
				if i == 2 {
					return first
				}
				if c.p.Runtime().Sleep(ctx, 1) != nil {
					return errors.New("a later error")
				}
				return nil
			})
			if want := n > 2; (failed == first) != want || !want && (failed != nil || begun != n) || most > 3 || begun > 6 || running != 0 {
				err = errors.Join(err, fmt.Errorf("%d calls: %w; %d have begun, %d of them at once", n, failed, begun, most))
			}
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if failed := c.parallel(ended, 3, 0, nil); !errors.Is(failed, context.Canceled) {
			err = errors.Join(err, fmt.Errorf("no call under a context that has ended: %w", failed))
		}
		return err
	})
}
