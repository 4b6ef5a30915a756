package netmem

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/sim"
)

// The table covers the copies that a client reads, counts and waits for. Each row changes one
// property of a copy.
func TestOnlyGoodCopiesCount(t *testing.T) {
	for what, x := range map[string]struct {
		change     func(s *server, k *copyOf)
		good, kept bool
		read       bool // if there is no good copy
		away       bool
		doubtful   bool
	}{
		"a good copy":             {change: func(*server, *copyOf) {}, good: true, kept: true, read: true},
		"a newer copy":            {change: func(_ *server, k *copyOf) { k.version++ }, good: true, kept: true, read: true},
		"an older copy":           {change: func(_ *server, k *copyOf) { k.version-- }, doubtful: true},
		"a server that is down":   {change: func(s *server, _ *copyOf) { s.up = false }, away: true},
		"a server that restarted": {change: func(s *server, _ *copyOf) { s.epoch++ }, doubtful: true},
		"one restarted and down":  {change: func(s *server, _ *copyOf) { s.epoch++; s.up = false }, doubtful: true},
		"a doubted copy":          {change: func(_ *server, k *copyOf) { k.doubted = true }, read: true, doubtful: true},
		"doubted and down":        {change: func(s *server, k *copyOf) { k.doubted = true; s.up = false }, away: true},
		"a server that leaves":    {change: func(s *server, _ *copyOf) { s.gone = true }, good: true, read: true},
	} {
		c := &Client{code: Code{Data: 1}}
		s := &server{up: true, epoch: 5}
		p := &page{version: 10, copies: []copyOf{{server: s, epoch: 5, version: 10}}}
		x.change(s, &p.copies[0])
		good, kept, doubtful := len(c.good(p, nil)) == 1, c.kept(p) == 1, c.isDoubtful(p)
		l, away := c.sources(p, nil)
		if good != x.good || kept != x.kept || doubtful != x.doubtful || (len(l) == 1) != x.read || away != x.away {
			t.Errorf("%s: good %v, kept %v, doubtful %v, read %v, away %v; expected %+v", what, good, kept, doubtful, len(l) == 1, away, x)
		}
		if p.pending = []byte{}; c.isDoubtful(p) {
			t.Errorf("%s: a page whose content the client has is doubtful", what)
		}
		if l, _ := c.sources(p, map[*server]int{s: maxDoubts - 1}); (len(l) == 1) != x.read {
			t.Errorf("%s: a server that was asked %d times is read: %v", what, maxDoubts-1, !x.read)
		}
		p.copies[0].doubted = true
		if l, _ := c.sources(p, map[*server]int{s: maxDoubts}); len(l) != 0 {
			t.Errorf("%s: a server that was asked %d times is asked again", what, maxDoubts)
		}
	}
	c, s := &Client{code: Code{Data: 2, Parity: 1}}, &server{up: true}
	p := &page{version: 10, copies: []copyOf{{server: s, version: 10}, {server: s, version: 10}, {server: s, version: 10, shard: 2}, {server: s, version: 11, shard: 1}}}
	if n := c.kept(p); n != 2 {
		t.Errorf("%d shards count; expected 2, since two are the same and one has another version", n)
	}
}

// A client records no copy for a server that has left, and records a copy once.
func TestACopyIsNotedOnce(t *testing.T) {
	a, b := &server{}, &server{left: true}
	p := &page{}
	p.has(a, 1, 5, 2)
	p.has(b, 1, 5, 2)
	if len(p.copies) != 1 || !p.stirred {
		t.Errorf("the copies are %+v, stirred %v; expected one", p.copies, p.stirred)
	}
	p.stirred = false
	if p.has(a, 1, 5, 2); p.stirred || len(p.copies) != 1 {
		t.Errorf("the same copy again: %+v, stirred %v", p.copies, p.stirred)
	}
	p.doubt(b, "")
	if p.anew || p.stirred {
		t.Error("a doubt about a server without a copy has changed the page")
	}
	p.doubt(a, "")
	if !p.anew || !p.stirred || !p.copies[0].doubted {
		t.Errorf("a doubt: anew %v, stirred %v, %+v", p.anew, p.stirred, p.copies)
	}
	if p.has(a, 1, 6, 2); p.copies[0].doubted || p.copies[0].version != 6 {
		t.Errorf("after a new copy: %+v", p.copies)
	}
	if p.forget(a); len(p.copies) != 0 {
		t.Errorf("after the server has left: %+v", p.copies)
	}
}

// As many requests are with a server as the window allows. The other requests wait in order, and
// a request to open overtakes them.
func TestARequestLeavesWhenItsWindowHasRoom(t *testing.T) {
	calling(t, ClientConfig{window: 4}, func(c *Client, s *server) (err error) {
		begin := func() *call { return c.begin(s, record{op: opDiscard, page: 3}, nil) }
		var calls []*call
		for range 7 {
			calls = append(calls, begin())
		}
		state := func(what string, with int, waiting ...int) {
			for i, k := range calls {
				if k.waits != slices.Contains(waiting, i) {
					err = errors.Join(err, fmt.Errorf("%s: call %d waits: %v", what, i, k.waits))
				}
			}
			if s.window.with != with {
				err = errors.Join(err, fmt.Errorf("%s: %d requests are with the server; expected %d", what, s.window.with, with))
			}
		}
		state("seven calls", 4, 4, 5, 6)
		if open := c.begin(s, record{op: opOpen}, nil); open.waits || s.window.with != 4 {
			err = errors.Join(err, errors.New("an open waits, or counts in the window"))
		}
		c.forget(calls[5]) // ends while it waits
		state("a call that waits has ended", 4, 4, 6)
		c.forget(calls[0])
		state("a call has ended", 4, 6)
		c.forget(calls[0])
		state("it ends again", 4, 6)
		for _, i := range []int{1, 2, 3, 4, 6} {
			c.forget(calls[i])
		}
		state("all have ended", 0)
		for n, want := range map[int]int{1: 32, 8: leastWindow, 100: leastWindow} {
			wide := &Client{servers: make([]*server, n)}
			if got := wide.most(); got != want {
				err = errors.Join(err, fmt.Errorf("%d requests for each of %d servers; expected %d", got, n, want))
			}
		}
		return err
	})
}

// A call cannot be late while its request has yet to leave, unless its server is down.
func TestACallIsNotLateBeforeItsRequestHasLeft(t *testing.T) {
	up, down := &server{up: true}, &server{}
	for what, x := range map[string]struct {
		calls []*call
		want  bool
	}{
		"sent later":                 {[]*call{{to: up, begun: 11}}, true},
		"sent at the time":           {[]*call{{to: up, begun: 10}}, false},
		"waits":                      {[]*call{{to: up, waits: true}}, true},
		"waits for one that is down": {[]*call{{to: down, waits: true}}, false},
		"one of two was sent":        {[]*call{{to: up, begun: 11}, {to: up, begun: 9}}, false},
		"both were sent later":       {[]*call{{to: up, begun: 11}, {to: up, waits: true}}, true},
	} {
		if got := early(x.calls, clock.Time(10)); got != x.want {
			t.Errorf("%s: early %v", what, got)
		}
	}
}

// The answer timeout is the mean plus four deviations, between its bounds.
func TestTheAnswerTimeoutFollowsTheAnswers(t *testing.T) {
	s := &server{}
	s.took(8 * time.Millisecond)
	if s.usual != 8*time.Millisecond || s.spread != 4*time.Millisecond {
		t.Errorf("after the first answer: %v, %v", s.usual, s.spread)
	}
	s.took(16 * time.Millisecond)
	if s.usual != 9*time.Millisecond || s.spread != 5*time.Millisecond {
		t.Errorf("after a slower answer: %v, %v", s.usual, s.spread)
	}
	for _, x := range []struct{ least, most, want time.Duration }{{time.Millisecond, time.Second, 29 * time.Millisecond}, {time.Second, 2 * time.Second, time.Second}, {0, time.Millisecond, time.Millisecond}} {
		if got := s.patience(x.least, x.most); got != x.want {
			t.Errorf("between %v and %v: %v; expected %v", x.least, x.most, got, x.want)
		}
	}
}

// A deadline passes at its time, the next look is at the next deadline, and an ended call leaves
// no deadline.
func TestADeadlinePassesAtItsTime(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, _ *sim.Fabric, c *Client) error {
		o := &port{p: sp.Weft(), begun: sp.Runtime().Now()}
		o.late.look, o.late.next = sp.Runtime().NewGate(), clock.Never
		var l [3]deadline
		for i := range l {
			o.set(&l[i], time.Duration(i+1)*time.Second)
		}
		passed := func(want ...bool) error {
			for i := range want {
				if l[i].passed.Load() != want[i] {
					return fmt.Errorf("deadline %d of %d has passed: %v", i, len(l), !want[i])
				}
			}
			return nil
		}
		sleep(sp, time.Second-1)
		rest, told := o.tellLate()
		if err := passed(false, false, false); err != nil || told || rest > 1 {
			return fmt.Errorf("a nanosecond before the first: told %v, the next look is in %v (%w)", told, rest, err)
		}
		sleep(sp, 1)
		if rest, told = o.tellLate(); !told || rest > time.Second || passed(true, false, false) != nil {
			return fmt.Errorf("at the first: told %v, the next look is in %v (%w)", told, rest, passed(true, false, false))
		}
		if _, told = o.tellLate(); told {
			return errors.New("a deadline was told twice")
		}
		o.unset(&l[0])
		o.unset(&l[1])
		sleep(sp, 10*time.Second)
		if _, told = o.tellLate(); !told || passed(true, false, true) != nil || len(o.late.list) != 1 {
			return fmt.Errorf("after all: told %v, %d are listed (%w)", told, len(o.late.list), passed(true, false, true))
		}
		o.unset(&l[2])
		o.tellLate()
		if rest, told = o.tellLate(); rest != 0 || told || len(o.late.list) != 0 {
			return fmt.Errorf("without deadlines, the next look is in %v (told %v)", rest, told)
		}
		return nil
	})
}
