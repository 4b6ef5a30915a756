package netmem

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// numbered writes page i as 4096 bytes that begin with its number.
func numbered(c *Client, pages uint64) error {
	for i := range pages {
		b := make([]byte, 4096)
		binary.LittleEndian.PutUint64(b, i)
		if err := c.WritePage(context.Background(), i, b); err != nil {
			return err
		}
	}
	return nil
}

// withNumbered runs life with a client of the given servers. The client stores two copies of each
// page, and the pages are numbered.
func withNumbered(f *sim.Fabric, servers []ServerRef, pages uint64, life func(sp *sim.Process, c *Client) error) {
	f.Process(0, "client/0", func(sp *sim.Process) error {
		c, err := NewClient(context.Background(), sp.Weft(), ClientConfig{Servers: servers, Copies: 2})
		if err != nil {
			return err
		}
		defer c.Close()
		if err := numbered(c, pages); err != nil {
			return err
		}
		return life(sp, c)
	})
}

// reader makes ReadPages read random pages and checks the results. One page in a hundred does not
// exist.
type reader struct {
	sp           *sim.Process
	depth, left  int
	pages        uint64
	under        map[*byte]uint64
	ends, absent int
	twice        int // times that a page was requested while it was already in flight
	failed       error
}

func (r *reader) next() (number uint64, buf []byte, ok bool) {
	if r.left--; r.left < 0 {
		return 0, nil, false
	}
	if number = r.sp.Rand().Uint64N(r.pages); r.sp.Rand().IntN(100) == 0 {
		number += 1 << 20
	}
	for _, n := range r.under {
		if n == number {
			r.twice++
			break
		}
	}
	buf = make([]byte, 4096)
	if r.under[&buf[0]] = number; len(r.under) > r.depth {
		r.failed = fmt.Errorf("%d pages are under way, of at most %d", len(r.under), r.depth)
	}
	return number, buf, true
}

func (r *reader) ended(number uint64, buf []byte, err error) {
	n, under := r.under[&buf[0]]
	delete(r.under, &buf[0])
	r.ends++
	switch absent := number >= 1<<20; {
	case !under || n != number:
		r.failed = errors.Join(r.failed, fmt.Errorf("page %d has ended, which was not under way into that memory", number))
	case absent && errors.Is(err, ErrMissing):
		r.absent++
	case absent || err != nil:
		r.failed = errors.Join(r.failed, fmt.Errorf("page %d: %w", number, err))
	case binary.LittleEndian.Uint64(buf) != number:
		r.failed = errors.Join(r.failed, fmt.Errorf("page %d came with the bytes of page %d", number, binary.LittleEndian.Uint64(buf)))
	}
}

func TestPagesAreReadManyAtATimeWhateverTheNetworkDoes(t *testing.T) {
	const reads, pages = 3000, 100
	for _, depth := range []int{1, 2, 32, 100} {
		f := sim.New(sim.Config{Seed: uint64(depth), NICs: 3, Faults: sim.Faults{Loss: 0.02, Duplicate: 0.02, Reorder: 0.02, Corrupt: 0.005}})
		servers := serving(f, 2)
		withNumbered(f, servers, pages, func(sp *sim.Process, c *Client) error {
			r := &reader{sp: sp, depth: depth, left: reads, pages: pages, under: map[*byte]uint64{}}
			r.failed = errors.Join(c.ReadPages(context.Background(), depth, r.next, r.ended), r.failed)
			if r.failed == nil && (r.ends != reads || len(r.under) > 0 || r.absent == 0 || depth > 10 && r.twice == 0) {
				r.failed = fmt.Errorf("of %d reads %d have ended, %d are under way, %d of no page, %d of a page that was being read", reads, r.ends, len(r.under), r.absent, r.twice)
			}
			return errors.Join(r.failed, ended(c))
		})
		if err := f.Run(5 * time.Minute); err != nil {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

// serving starts page servers on NICs 1 to n.
func serving(f *sim.Fabric, n int) (servers []ServerRef) {
	for i := range n {
		name := weft.Name{App: "memory", Index: uint32(i)}
		servers = append(servers, ServerRef{Name: name})
		f.Serve(1+i, name.String(), func(sp *sim.Process) error {
			if _, err := Serve(sp.Weft(), ServerConfig{Bytes: 512 * 8192}); err != nil {
				return err
			}
			return sleep(sp, time.Hour)
		})
	}
	return servers
}

func TestReadingManyPagesEndsWithItsContextAndWithItsClient(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, f *sim.Fabric, c *Client) error {
		for _, closes := range []bool{false, true} {
			ctx, cancel := sp.Runtime().WithTimeout(context.Background(), 20*time.Millisecond)
			asked, ended := 0, map[string]int{}
			begun := f.Elapsed()
			why := c.ReadPages(ctx, 8, func() (uint64, []byte, bool) {
				if asked++; closes && asked == 100 {
					c.Close()
				}
				return uint64(asked % 16), make([]byte, 4096), true
			}, func(_ uint64, _ []byte, err error) {
				switch {
				case err == nil:
					ended["well"]++
				case errors.Is(err, context.DeadlineExceeded), errors.Is(err, weft.ErrClosed):
					ended["otherwise"]++
				default:
					ended[err.Error()]++
				}
			})
			cancel()
			if sum := ended["well"] + ended["otherwise"]; sum != asked || ended["well"] == 0 || f.Elapsed()-begun > 100*time.Millisecond {
				return fmt.Errorf("closed %v: of %d pages these ended: %v, in %v", closes, asked, ended, f.Elapsed()-begun)
			}
			if want := map[bool]error{false: context.DeadlineExceeded, true: weft.ErrClosed}[closes]; !errors.Is(why, want) {
				return fmt.Errorf("closed %v: %w; expected %w", closes, why, want)
			}
		}
		return nil
	})
}

func TestAReadOfManyPagesIntoTooLittleMemoryFailsAlone(t *testing.T) {
	withClient(t, ClientConfig{}, func(_ *sim.Process, _ *sim.Fabric, c *Client) error {
		lengths, failed := []int{4096, 4095, 0, 4096}, 0
		i := -1
		err := c.ReadPages(context.Background(), 4, func() (uint64, []byte, bool) {
			if i++; i == len(lengths) {
				return 0, nil, false
			}
			return uint64(i), make([]byte, lengths[i]), true
		}, func(number uint64, buf []byte, err error) {
			if (err != nil) != (len(buf) != 4096) {
				t.Errorf("page %d into %d bytes: %v", number, len(buf), err)
			}
			if err != nil {
				failed++
			}
		})
		if failed != 2 {
			t.Errorf("%d have failed, want 2", failed)
		}
		return err
	})
}

// panics reads pages until next or ended panics. It reports whether the panic reached the caller.
func panics(c *Client, where string) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	asked := 0
	_ = c.ReadPages(context.Background(), 8, func() (uint64, []byte, bool) {
		if asked++; where == "next" && asked == 20 {
			panic(where)
		}
		return uint64(asked % 16), make([]byte, 4096), true
	}, func(uint64, []byte, error) {
		if where == "ended" && asked >= 20 {
			panic(where)
		}
	})
	return false
}

func TestPagesOfAReaderThatPanicsAreFree(t *testing.T) {
	for _, code := range []Code{{}, {Data: 2, Parity: 1}} {
		f := sim.New(sim.Config{Seed: 1, NICs: 4})
		servers := serving(f, 3)
		f.Process(0, "client/0", func(sp *sim.Process) error {
			c, err := NewClient(context.Background(), sp.Weft(), ClientConfig{Servers: servers, Coding: code})
			if err != nil {
				return err
			}
			defer c.Close()
			if err := numbered(c, 16); err != nil {
				return err
			}
			for _, where := range []string{"next", "ended"} {
				if !panics(c, where) {
					t.Errorf("%v: the panic in %s has not come back", code, where)
				}
				for number, p := range c.pages {
					if p.busy.Load() {
						t.Errorf("%v: page %d is busy after a panic in %s", code, number, where)
					}
				}
			}
			return ended(c)
		})
		if err := f.Run(time.Minute); err != nil {
			t.Error(err)
		}
	}
}

// asking reads pages from a set of 16 by ReadPages, and returns the number of requests.
func asking(c *Client, depth, reads int, ended func(number uint64, err error)) (requests uint32, err error) {
	before, asked := c.request, 0
	err = c.ReadPages(context.Background(), depth, func() (uint64, []byte, bool) {
		asked++
		return uint64(asked % 16), make([]byte, 4096), asked <= reads
	}, func(number uint64, _ []byte, err error) { ended(number, err) })
	return c.request - before, err
}

func TestPagesThatHaveComeWhileTheirReaderWasBusyAreNotAskedForAgain(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, _ *sim.Fabric, c *Client) error {
		n := 0
		requests, err := asking(c, 8, 400, func(_ uint64, failed error) {
			if n++; failed != nil {
				t.Error(failed)
			}
			if n%20 == 0 {
				_ = sleep(sp, 5*time.Millisecond)
			}
		})
		if requests > 400+10 {
			t.Errorf("400 reads took %d requests", requests)
		}
		return errors.Join(err, ended(c))
	})
}

// A reader that is mostly busy with other work finds its answers when it looks, so it hardly
// waits for an answer that does not arrive.
func TestAPageOfASilentServerIsAskedForElsewhereThoughItsReaderIsBusy(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 3})
	servers := serving(f, 2)
	withNumbered(f, servers, 16, func(sp *sim.Process, c *Client) error {
		f.StopNIC(1)
		begun, longest := map[*byte]time.Duration{}, time.Duration(0)
		i := 0
		err := c.ReadPages(context.Background(), 4, func() (uint64, []byte, bool) {
			buf := make([]byte, 4096)
			begun[&buf[0]] = f.Elapsed()
			i++
			return uint64(i % 16), buf, i <= 100
		}, func(_ uint64, buf []byte, err error) {
			longest = max(longest, f.Elapsed()-begun[&buf[0]])
			if err != nil {
				t.Error(err)
			}
			_ = sleep(sp, 100*time.Millisecond)
		})
		if longest > 1500*time.Millisecond {
			t.Errorf("a page took %v, of a server that is taken for dead after 500 ms", longest)
		}
		return errors.Join(err, ended(c))
	})
	if err := f.Run(time.Minute); err != nil {
		t.Error(err)
	}
}

// While a page waits for a silent server, all other pages are read, and missing pages are
// reported as missing.
func TestAPageThatTakesLongKeepsNoOthersWaiting(t *testing.T) {
	for _, way := range []string{"asked for", "busy"} {
		f := sim.New(sim.Config{Seed: 1, NICs: 3})
		servers := serving(f, 2)
		f.Process(0, "client/0", func(sp *sim.Process) error {
			c, err := NewClient(context.Background(), sp.Weft(), ClientConfig{Servers: servers})
			if err != nil {
				return err
			}
			defer c.Close()
			if err := numbered(c, 16); err != nil {
				return err
			}
			f.Stall(1+slices.Index(c.servers, c.pages[0].copies[0].server), 100*time.Millisecond)
			if way == "busy" {
				sp.Runtime().Go(func() { _ = c.WritePage(context.Background(), 0, make([]byte, 4096)) })
				_ = sleep(sp, time.Millisecond)
			}
			begun, asked, others := f.Elapsed(), 0, time.Duration(0)
			err = c.ReadPages(context.Background(), 2, func() (uint64, []byte, bool) {
				if asked++; asked == 2 {
					return 0, make([]byte, 4096), true
				}
				return 1 << 20, make([]byte, 4096), asked <= 100
			}, func(number uint64, _ []byte, err error) {
				if number > 0 {
					others = f.Elapsed() - begun
				}
			})
			if others > time.Millisecond {
				t.Errorf("a page is %s: the others have ended after %v", way, others)
			}
			return errors.Join(err, ended(c))
		})
		if err := f.Run(time.Minute); err != nil {
			t.Error(err)
		}
	}
}

// Once a call cannot succeed, it requests no further pages.
func TestAReadOfManyPagesThatHasFailedAsksForNoMore(t *testing.T) {
	const pages = 1000
	for _, way := range []string{"context", "lost"} {
		withClient(t, ClientConfig{}, func(sp *sim.Process, _ *sim.Fabric, c *Client) error {
			v := &Volume{c: c, bytes: pages * 4096, page: 4096, depth: 16}
			if err := numbered(c, pages); err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			want := ErrLost
			if way == "context" {
				cancel()
				want = context.Canceled
			} else {
				c.pages[3].copies = nil
			}
			before := c.request
			n, err := v.ReadAtContext(ctx, make([]byte, pages*4096), 0)
			if asked := c.request - before; n != 0 || !errors.Is(err, want) || asked > 40 {
				t.Errorf("%s: %d bytes, %v, and %d requests of %d pages; expected none, %v, and no more requests than were under way", way, n, err, asked, pages, want)
			}
			return ended(c)
		})
	}
}
