package soak

import (
	"context"
	"encoding/json"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

var names = [2]weft.Name{{App: "soak", Index: 0}, {App: "soak", Index: 1}}

// two opens a pair of processes on two NICs with a bad network between them.
func two(t *testing.T) (p [2]*weft.Process) {
	t.Helper()
	return twoOn(t, weft.Config{Link: weft.NewSwitch().Link()})
}

func twoOn(t *testing.T, cfg weft.Config) (p [2]*weft.Process) {
	t.Helper()
	var nodes []weft.Node
	for i := range p {
		var err error
		p[i], err = weft.Open(t.Context(), weft.Config{
			Name: names[i], Link: cfg.Link, Nodes: nodes,
			Faults: &weft.Faults{Loss: 0.05, Duplicate: 0.05, Reorder: 0.05, Corrupt: 0.05, Seed: uint64(i + 1)},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p[i].Close() })
		nodes = []weft.Node{{Addr: p[i].NIC().Addr()}}
	}
	return p
}

// within limits a context, so that the failure of a test that would wait for ever shows the
// place.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestEverythingComesThroughABadNetwork(t *testing.T) {
	links := map[string]weft.Config{"switch": {Link: weft.NewSwitch().Link()}, "udp": {}}
	if runtime.GOOS == "linux" {
		links["shm"] = weft.Config{Link: weft.SharedMemory("")}
	}
	for name, cfg := range links {
		t.Run(name, func(t *testing.T) { comesThrough(t, twoOn(t, cfg)) })
	}
}

func comesThrough(t *testing.T, p [2]*weft.Process) {
	t.Helper()
	var reports [2]*Report
	err := load.Together(within(t), 2, func(ctx context.Context, i int) (err error) {
		reports[i], err = Run(ctx, p[i], names[1-i], Terms{Messages: 300, Longest: 64 << 10, Seed: 7}, &Progress{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	a, b := reports[0], reports[1]
	if a.BytesSent != b.BytesReceived || b.BytesSent != a.BytesReceived || a.BytesSent == a.BytesReceived {
		t.Errorf("sent %d and %d bytes, received %d and %d", a.BytesSent, b.BytesSent, a.BytesReceived, b.BytesReceived)
	}
	if a.Messages != 300 || a.Name != names[0] || a.Peer != names[1] || a.Seconds <= 0 || a.Goodput <= 0 {
		t.Errorf("report %+v", a)
	}
}

func TestTermsThatDifferAreRefused(t *testing.T) {
	p := two(t)
	var errs [2]error
	_ = load.Together(within(t), 2, func(ctx context.Context, i int) error {
		_, errs[i] = Run(ctx, p[i], names[1-i], Terms{Messages: 10, Longest: 100 + i, Seed: 7}, &Progress{})
		return nil
	})
	for i, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "expected those of this side") {
			t.Errorf("side %d says %v", i, err)
		}
	}
}

// broken runs a soak against a peer that breaks a promise: send gets the right messages and may
// send others.
func broken(t *testing.T, send func(p *weft.Process, messages [][]byte) error) error {
	t.Helper()
	p := two(t)
	terms := Terms{Messages: 3, Longest: 1000, Seed: 7}
	var err error
	played := load.Both(within(t),
		func(ctx context.Context) error {
			_, err = Run(ctx, p[0], names[1], terms, &Progress{})
			return nil
		},
		func(ctx context.Context) error {
			if _, err := p[1].WaitName(ctx, names[0]); err != nil {
				return err
			}
			b, err := json.Marshal(terms)
			if err != nil {
				return err
			}
			if err := p[1].Send(ctx, names[0], tagGreeting, b); err != nil {
				return err
			}
			var messages [][]byte
			for plan := terms.plan(names[1]); len(messages) < terms.Messages; {
				size, seed := plan.next()
				m := make([]byte, size)
				load.Fill(m, seed)
				messages = append(messages, m)
			}
			return send(p[1], messages)
		})
	if played != nil {
		t.Fatal(played)
	}
	return err
}

func TestEveryBrokenPromiseIsFound(t *testing.T) {
	// each sends messages by their numbers. A number that does not exist stands for an empty
	// message.
	each := func(order ...weft.Tag) func(p *weft.Process, m [][]byte) error {
		return func(p *weft.Process, m [][]byte) error {
			for _, tag := range order {
				var b []byte
				if tag < weft.Tag(len(m)) {
					b = m[tag]
				}
				if err := p.Send(context.Background(), names[0], tag, b); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, c := range []struct {
		name, want string
		send       func(p *weft.Process, m [][]byte) error
	}{
		{"lost", "tag 2; expected 1: lost, doubled or out of order", each(0, 2)},
		{"doubled", "tag 0; expected 1: lost, doubled or out of order", each(0, 0)},
		{"one more", "tag 3 after its last; expected none", each(0, 1, 2, 3)},
		{"too late", "tag 2 when all was over; expected none", each(0, 1, 2, tagVerified, 2)},
		{"cut off", "message 0 from soak/1 has ", func(p *weft.Process, m [][]byte) error {
			return p.Send(context.Background(), names[0], 0, m[0][1:])
		}},
		{"altered", "message 0 from soak/1: byte 0 of ", func(p *weft.Process, m [][]byte) error {
			m[0][0] ^= 1
			return p.Send(context.Background(), names[0], 0, m[0])
		}},
		{"too long", "message longer than the buffer", func(p *weft.Process, m [][]byte) error {
			return p.Send(context.Background(), names[0], 0, make([]byte, 1001))
		}},
		{"gone", "process gone|no live NIC knows this name", func(p *weft.Process, m [][]byte) error { return p.Close() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := broken(t, c.send); err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestMostMessagesAreShortAndSomeAreLong(t *testing.T) {
	plan := Terms{Longest: 256 << 10, Seed: 1}.plan(names[0])
	short, long := 0, 0
	for range 1000 {
		switch n, _ := plan.next(); {
		case n < 0 || n > 256<<10:
			t.Fatalf("%d bytes", n)
		case n <= 1<<10:
			short++
		case n > 16<<10:
			long++
		}
	}
	if short < 600 || long < 50 {
		t.Errorf("of 1000 messages, %d are short and %d long", short, long)
	}
}
