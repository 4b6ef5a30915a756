package netmem_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
	"github.com/weftnet/weft/sim"
)

// sleep sleeps for d of virtual time.
func sleep(p interface{ Runtime() weft.Runtime }, d time.Duration) error {
	return p.Runtime().Sleep(context.Background(), d)
}

// servers starts page servers with the given number of pages on the NICs from 1 on.
func servers(f *sim.Fabric, many, pages int) (refs []netmem.ServerRef, running []*sim.Process) {
	for i := range many {
		name := weft.Name{App: "memory", Index: uint32(i)}
		refs = append(refs, netmem.ServerRef{Name: name})
		running = append(running, startServer(f, 1+i, name, pages))
	}
	return refs, running
}

func startServer(f *sim.Fabric, host int, name weft.Name, pages int) *sim.Process {
	return f.Serve(host, name.String(), func(p *sim.Process) error {
		s, err := netmem.Serve(p.Weft(), netmem.ServerConfig{Bytes: pages * 8192})
		if err != nil {
			return err
		}
		defer s.Close()
		return sleep(p, time.Hour)
	})
}

// fill writes the content that the owner gave a page with its n-th write.
func fill(b []byte, page, n uint64) {
	r := rand.New(rand.NewPCG(page, n))
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
}

// fabric runs life with a client of four servers on a bad network. Again and again a server dies
// with its content and starts anew. The next one dies when all pages have their copies again, so
// fewer servers are down at the same time than a page has copies.
func fabric(seed uint64, size int, life func(ctx context.Context, sp *sim.Process, c *netmem.Client) error) (st netmem.ClientStats, err error) {
	f := sim.New(sim.Config{Seed: seed, NICs: 5, Faults: sim.Faults{Loss: 0.03, Duplicate: 0.05, Reorder: 0.05, Corrupt: 0.01, Delay: 0.002, DelayMax: 20 * time.Millisecond,
		Stalls: sim.Episodes{Every: time.Second, Lasting: 50 * time.Millisecond}}})
	refs, running := servers(f, 4, 100)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		p, ctx := sp.Weft(), context.Background()
		c, err := netmem.NewClient(ctx, p, netmem.ClientConfig{Servers: refs, Copies: 2, PageBytes: size})
		if err != nil {
			return err
		}
		defer c.Close()
		over := false
		p.Runtime().Go(func() {
			kills := uint64(0)
			for i := 0; p.Runtime().Sleep(ctx, 300*time.Millisecond) == nil && !over; {
				if st := c.Stats(); st.Lacking == 0 && st.ServersUp == len(refs) && st.Restarts == kills {
					kills++
					i = (i + 1 + sp.Rand().IntN(3)) % len(refs)
					f.Kill(running[i])
					f.After(time.Duration(sp.Rand().IntN(int(time.Second))), func() { running[i] = startServer(f, 1+i, refs[i].Name, 100) })
				}
			}
		})
		const callers = 3
		left, failed := callers, error(nil)
		for range callers {
			sp.Start("caller", func(*sim.Process) error {
				failed = errors.Join(failed, life(ctx, sp, c))
				left--
				p.Runtime().Wake()
				return nil
			})
		}
		err = p.Runtime().WaitUntil(ctx, func() bool { return left == 0 })
		over, st = true, c.Stats()
		return errors.Join(err, failed)
	})
	return st, f.Run(5 * time.Minute)
}

// An acknowledged page can be read again, whatever the network does, as long as fewer servers are
// down than a page has copies.
func TestPagesThatWereAcknowledgedAreReadAgain(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 1
	}
	var total netmem.ClientStats
	for seed := range seeds {
		size, first := []int{4096, 8192}[seed%2], uint64(0)
		st, err := fabric(seed, size, func(ctx context.Context, sp *sim.Process, c *netmem.Client) error {
			first += 1000 // pages of its own
			return exercise(ctx, sp, c, size, first)
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		total.Repeated += st.Repeated
		total.Hedged += st.Hedged
		total.Repaired += st.Repaired
		total.Deaths += st.Deaths
		total.Restarts += st.Restarts
	}
	if total.Repeated == 0 || total.Hedged == 0 || total.Repaired == 0 || total.Deaths == 0 || total.Restarts < seeds {
		t.Errorf("%+v: something that should have happened has not", total)
	}
}

// exercise writes, reads and discards pages for some seconds, and compares the pages that it
// reads with those that it wrote.
func exercise(ctx context.Context, sp *sim.Process, c *netmem.Client, size int, first uint64) error {
	r, p := sp.Rand(), sp.Weft()
	type state struct {
		wrote  uint64
		failed []uint64 // since then
	}
	pages := make([]state, 12)
	buf, want := make([]byte, size), make([]byte, size)
	n := first
	for begun := p.Runtime().Now(); p.Runtime().Now().Sub(begun) < 8*time.Second; {
		i := r.IntN(len(pages))
		s, page := &pages[i], first+uint64(i)
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			n++
			fill(buf, page, n)
			within, cancel := p.Runtime().WithTimeout(ctx, 5*time.Millisecond<<r.IntN(8))
			err := c.WritePage(within, page, buf)
			cancel()
			switch {
			case err == nil:
				*s = state{wrote: n}
			case errors.Is(err, context.DeadlineExceeded):
				s.failed = append(s.failed, n)
			default:
				return err
			}
			clear(buf) // it is the caller's again
		case 4:
			if err := c.DiscardPage(ctx, page); err != nil {
				return err
			}
			*s = state{}
		default:
			err := c.ReadPage(ctx, page, buf)
			if errors.Is(err, netmem.ErrMissing) && s.wrote == 0 {
				break
			}
			if err != nil {
				return fmt.Errorf("page %d, written %d: %w", page, s.wrote, err)
			}
			reads := uint64(0)
			for _, n := range append(s.failed, s.wrote) {
				if fill(want, page, n); n > 0 && bytes.Equal(buf, want) {
					reads = n
				}
			}
			if reads == 0 {
				return fmt.Errorf("page %d reads with other bytes than were written", page)
			}
			*s = state{wrote: reads} // and it stays so
		}
		if err := p.Runtime().Sleep(ctx, time.Duration(r.IntN(int(8*time.Millisecond)))); err != nil {
			return err
		}
	}
	return nil
}

func TestAServerThatIsFullSaysSoAndLosesNothing(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 3})
	refs, _ := servers(f, 2, 10) // of two client pages each
	refs = append(refs[:1], netmem.ServerRef{Name: weft.Name{App: "small"}})
	startServer(f, 2, refs[1].Name, 5)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		p, ctx := sp.Weft(), context.Background()
		c, err := netmem.NewClient(ctx, p, netmem.ClientConfig{Servers: refs, Copies: 2})
		if err != nil {
			return err
		}
		defer c.Close()
		buf, got := make([]byte, 4096), make([]byte, 4096)
		kept := uint64(0)
		for ; ; kept++ {
			fill(buf, kept, 1)
			if err := c.WritePage(ctx, kept, buf); errors.Is(err, netmem.ErrFull) {
				break
			} else if err != nil {
				return err
			}
			if st := c.Stats(); st.Lacking > 0 {
				return fmt.Errorf("page %d was acknowledged before it had two copies", kept)
			}
		}
		if kept != 10 {
			return fmt.Errorf("servers of 80 and of 40 KiB keep %d pages in two copies, want 10", kept)
		}
		for i := range kept {
			fill(buf, i, 2) // another version needs no more room
			if err := c.WritePage(ctx, i, buf); err != nil {
				return err
			}
		}
		for i := range kept {
			fill(buf, i, 2)
			if err := c.ReadPage(ctx, i, got); err != nil || !bytes.Equal(got, buf) {
				return fmt.Errorf("page %d of a full server: %w, or other bytes", i, err)
			}
		}
		if err := c.ReadPage(ctx, kept, got); !errors.Is(err, netmem.ErrMissing) {
			return fmt.Errorf("a page that did not fit reads with %v", err)
		}
		if err := c.DiscardPage(ctx, 3); err != nil {
			return err
		}
		return c.WritePage(ctx, kept, buf) // there is room again
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestAClientCannotReadThePagesOfAnother(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 3})
	refs, _ := servers(f, 1, 100)
	for i := range 2 {
		f.Process(1+i, fmt.Sprintf("client/%d", i), func(sp *sim.Process) error {
			p, ctx := sp.Weft(), context.Background()
			c, err := netmem.NewClient(ctx, p, netmem.ClientConfig{Servers: refs})
			if err != nil {
				return err
			}
			defer c.Close()
			buf, want := make([]byte, 4096), make([]byte, 4096)
			for round := range uint64(20) { // both write the same pages of the same volume
				fill(want, uint64(i), round)
				if err := c.WritePage(ctx, 7, want); err != nil {
					return err
				}
				if err := p.Runtime().Sleep(ctx, time.Millisecond); err != nil {
					return err
				}
				if err := c.ReadPage(ctx, 7, buf); err != nil || !bytes.Equal(buf, want) {
					return fmt.Errorf("client %d: %w, or another's bytes", i, err)
				}
			}
			return nil
		})
	}
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestAServerRefusesStrangersAndWhatIsMoreThanAQuota(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	name := weft.Name{App: "memory"}
	var server *netmem.Server
	f.Serve(0, name.String(), func(p *sim.Process) (err error) {
		server, err = netmem.Serve(p.Weft(), netmem.ServerConfig{Bytes: 1 << 20, QuotaBytes: 8192, Admit: func(n weft.Name) bool { return n.App == "friend" }})
		if err != nil {
			return err
		}
		return sleep(p, time.Hour)
	})
	f.Process(1, "stranger/0", func(sp *sim.Process) error {
		_, err := netmem.NewClient(context.Background(), sp.Weft(), netmem.ClientConfig{Servers: []netmem.ServerRef{{Name: name}}})
		if err == nil || err.Error() != "netmem: server memory/0: the server does not admit this client" {
			return fmt.Errorf("a stranger is admitted, or is not told: %v", err)
		}
		return nil
	})
	f.Process(1, "friend/0", func(sp *sim.Process) error {
		ctx := context.Background()
		c, err := netmem.NewClient(ctx, sp.Weft(), netmem.ClientConfig{Servers: []netmem.ServerRef{{Name: name}}})
		if err != nil {
			return err
		}
		buf := make([]byte, 4096)
		for i := range uint64(3) {
			err := c.WritePage(ctx, i, buf)
			if errors.Is(err, netmem.ErrFull) != (i == 2) || i == 2 && !strings.HasSuffix(err.Error(), ": server memory/0: this client has as much at the server as its quota allows") {
				return fmt.Errorf("page %d of a quota of two: %v", i, err)
			}
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	if st := server.Stats(); st.Refused == 0 || st.Full == 0 || st.Pages != 2 {
		t.Errorf("%+v: want refusals, and two pages", st)
	}
}

func TestWhatCannotBeConfiguredIsRefused(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 1})
	f.Process(0, "a/0", func(sp *sim.Process) error {
		if _, err := netmem.Serve(sp.Weft(), netmem.ServerConfig{Bytes: 8193}); err == nil {
			return errors.New("a server of 8193 bytes")
		}
		one := []netmem.ServerRef{{Name: weft.Name{App: "memory"}}}
		for _, cfg := range []netmem.ClientConfig{{Servers: one, Copies: 2}, {Servers: one, PageBytes: 5000}, {}} {
			if _, err := netmem.NewClient(context.Background(), sp.Weft(), cfg); err == nil {
				return fmt.Errorf("a client with %+v", cfg)
			}
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestNumbersOfAClientThatCannotBeAreRefused(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	refs, _ := servers(f, 1, 10)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		weighs := func(weight float64) []netmem.ServerRef {
			return []netmem.ServerRef{{Name: refs[0].Name, Weight: weight}}
		}
		for _, bad := range []struct {
			cfg  netmem.ClientConfig
			want string
		}{
			{netmem.ClientConfig{Servers: refs, Dead: -time.Second}, "netmem: Dead is -1s; expected more than 0, or 0 for 500ms"},
			{netmem.ClientConfig{Servers: refs, Retry: -time.Second}, "netmem: Retry is -1s; expected more than 0, or 0 for 2ms"},
			{netmem.ClientConfig{Servers: refs, Hedge: -1}, "netmem: Hedge is -1ns; expected more than 0, or 0 for 1ms"},
			{netmem.ClientConfig{Servers: refs, RepairBytes: -1}, "netmem: RepairBytes is -1; expected more than 0, or 0 for 67108864"},
			{netmem.ClientConfig{Servers: weighs(-1)}, "netmem: server memory/0 has a weight of -1; expected a number above 0, or 0 for 1"},
			{netmem.ClientConfig{Servers: weighs(math.NaN())}, "netmem: server memory/0 has a weight of NaN; expected a number above 0, or 0 for 1"},
			{netmem.ClientConfig{Servers: weighs(math.Inf(1))}, "netmem: server memory/0 has a weight of +Inf; expected a number above 0, or 0 for 1"},
		} {
			if _, err := netmem.NewClient(context.Background(), sp.Weft(), bad.cfg); err == nil || err.Error() != bad.want {
				return fmt.Errorf("%v; want %s", err, bad.want)
			}
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestPagesOfAnIdleClientGetNewCopiesWhenAServerDies(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 5})
	refs, running := servers(f, 4, 100)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		p, ctx := sp.Weft(), context.Background()
		c, err := netmem.NewClient(ctx, p, netmem.ClientConfig{Servers: refs, Copies: 2})
		if err != nil {
			return err
		}
		buf, got := make([]byte, 4096), make([]byte, 4096)
		for i := range uint64(60) {
			fill(buf, i, 1)
			if err := c.WritePage(ctx, i, buf); err != nil {
				return err
			}
		}
		for _, dies := range []int{2, 0} {
			f.Kill(running[dies])
			if err := p.Runtime().Sleep(ctx, 3*time.Second); err != nil {
				return err
			}
			if st := c.Stats(); st.Lacking > 0 || st.Repaired == 0 {
				return fmt.Errorf("%+v: 3 s after the death of a server %d pages lack copies", st, st.Lacking)
			}
		}
		if err := c.RemoveServer(ctx, refs[1].Name); !errors.Is(err, netmem.ErrFew) {
			return fmt.Errorf("one of the last two servers is removed: %v", err)
		}
		running[0] = startServer(f, 1, refs[0].Name, 100)
		if err := p.Runtime().Sleep(ctx, 2*time.Second); err != nil {
			return err
		}
		if err := c.RemoveServer(ctx, refs[1].Name); err != nil {
			return err
		}
		f.Kill(running[1])
		for i := range uint64(60) {
			fill(buf, i, 1)
			if err := c.ReadPage(ctx, i, got); err != nil || !bytes.Equal(got, buf) {
				return fmt.Errorf("page %d behind all that: %w, or other bytes", i, err)
			}
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

// If pages have lost their last copy, their repair does not keep the client from noticing that a
// server is back.
func TestAServerThatIsBackIsUsedWhileOthersAreDown(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 4})
	refs, running := servers(f, 3, 100)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		p, ctx := sp.Weft(), context.Background()
		c, err := netmem.NewClient(ctx, p, netmem.ClientConfig{Servers: refs, Copies: 2, RepairBytes: 20 * 4096})
		if err != nil {
			return err
		}
		buf := make([]byte, 4096)
		for i := range uint64(100) {
			if err := c.WritePage(ctx, i, buf); err != nil {
				return err
			}
		}
		f.Kill(running[1])
		if err := p.Runtime().Sleep(ctx, 2*time.Second); err != nil { // the repair is in progress
			return err
		}
		if st := c.Stats(); st.Lacking == 0 || st.Repaired == 0 {
			return fmt.Errorf("%+v: expected a repair to be under way", st)
		}
		f.Kill(running[0])
		running[1] = startServer(f, 2, refs[1].Name, 100)
		within, cancel := p.Runtime().WithTimeout(ctx, 3*time.Second)
		defer cancel()
		return c.WritePage(within, 1000, buf) // on servers 1 and 2
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

// If two concurrent calls add a server, the client uses it once: the server must not have two
// copies of a page.
func TestAServerJoinsOnce(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 3})
	refs, _ := servers(f, 2, 10)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		p, ctx := sp.Weft(), context.Background()
		c, err := netmem.NewClient(ctx, p, netmem.ClientConfig{Servers: refs[:1]})
		if err != nil {
			return err
		}
		defer c.Close()
		const calls = 3
		left, refused := calls, 0
		for range calls {
			sp.Start("joining", func(*sim.Process) error {
				if c.AddServer(ctx, refs[1]) != nil {
					refused++
				}
				left--
				p.Runtime().Wake()
				return nil
			})
		}
		if err := p.Runtime().WaitUntil(ctx, func() bool { return left == 0 }); err != nil {
			return err
		}
		if st := c.Stats(); st.ServersUp != 2 || refused != calls-1 {
			return fmt.Errorf("%d servers are up behind %d joins of one, %d refused", st.ServersUp, calls, refused)
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestAProcessMayHaveOneClientAfterTheOther(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	refs, _ := servers(f, 1, 100)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		p := sp.Weft()
		for i := range uint64(20) {
			ctx, cancel := p.Runtime().WithTimeout(context.Background(), time.Second)
			defer cancel()
			c, err := netmem.NewClient(ctx, p, netmem.ClientConfig{Servers: refs})
			if err != nil {
				return fmt.Errorf("client %d: %w", i, err)
			}
			if err := c.WritePage(ctx, i, make([]byte, 4096)); err != nil {
				return fmt.Errorf("client %d: %w", i, err)
			}
			if _, err := netmem.Stat(ctx, p, refs[0].Name); err != nil {
				return fmt.Errorf("client %d: %w", i, err)
			}
			c.Close()
			if err := p.Runtime().Sleep(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}
