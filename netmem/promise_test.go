package netmem

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/sim"
)

var long = flag.Bool("long", false, "run the long forms of the tests: many seeds")

// live writes, reads and discards pages, and compares the pages that it reads with those that it
// wrote.
func (w *world) live(sp *sim.Process, first uint64) error {
	o := owner{w: w, sp: sp, first: first, n: first, pages: make([]owned, 12), buf: make([]byte, w.size), want: make([]byte, w.size)}
	for begun := sp.Runtime().Now(); sp.Runtime().Now().Sub(begun) < worldLength; {
		i := sp.Rand().IntN(len(o.pages))
		var err error
		switch sp.Rand().IntN(10) {
		case 0, 1, 2, 3:
			err = o.write(i)
		case 4:
			err = o.discard(i)
		default:
			err = o.read(i)
		}
		if err != nil {
			return err
		}
		if sp.Rand().IntN(3) > 0 {
			sleep(sp, time.Duration(sp.Rand().IntN(int(10*time.Millisecond))))
		}
	}
	for i := range o.pages {
		if err := o.read(i); err != nil {
			return err
		}
	}
	return nil
}

// owner writes and reads some pages.
type owner struct {
	w         *world
	sp        *sim.Process
	first, n  uint64
	pages     []owned
	buf, want []byte
}

// owned is what the owner knows of a page: the number of the last acknowledged content, and the
// numbers of the failed writes since.
type owned struct {
	wrote  uint64
	failed []uint64
}

func (o *owner) fill(b []byte, page, n uint64) {
	r := rand.New(rand.NewPCG(page, n))
	if o.w.compress && n%4 > 0 { // compressed, these have different lengths
		clear(b)
		b = b[:len(b)>>(r.IntN(8)+1)]
	}
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
}

// knows records that the page's owner knows its content.
func (o *owner) knows(i int, n uint64) {
	o.pages[i] = owned{wrote: n}
	o.w.acked[o.first+uint64(i)] = o.w.client.pages[o.first+uint64(i)].version
}

func (o *owner) write(i int) error {
	page := o.first + uint64(i)
	o.n++
	o.fill(o.buf, page, o.n)
	ctx, cancel := o.sp.Runtime().WithTimeout(context.Background(), 5*time.Millisecond<<o.sp.Rand().IntN(8))
	defer cancel()
	err := o.w.client.WritePage(ctx, page, o.buf)
	switch {
	case err == nil:
		o.knows(i, o.n)
	case errors.Is(err, ErrFull):
		o.w.counts.full++
		fallthrough
	case errors.Is(err, context.DeadlineExceeded):
		o.pages[i].failed = append(o.pages[i].failed, o.n)
	default:
		return err
	}
	clear(o.buf) // it is the owner's again
	return nil
}

func (o *owner) discard(i int) error {
	ctx, cancel := o.sp.Runtime().WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	delete(o.w.acked, o.first+uint64(i))
	o.pages[i] = owned{}
	return o.w.client.DiscardPage(ctx, o.first+uint64(i))
}

func (o *owner) read(i int) error {
	page, s := o.first+uint64(i), &o.pages[i]
	ctx, cancel := o.sp.Runtime().WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := o.w.client.ReadPage(ctx, page, o.buf)
	switch {
	case errors.Is(err, ErrMissing) && s.wrote == 0:
		return nil
	case errors.Is(err, ErrFull): // the outcome of a failed write could not be decided
		o.w.counts.full++
		return nil
	case err != nil && !(errors.Is(err, context.DeadlineExceeded) && errors.Is(err, ErrFew)):
		return fmt.Errorf("page %d, written %d: %w", page, s.wrote, err)
	case err != nil:
		return nil
	}
	for _, n := range append(s.failed, s.wrote) {
		if o.fill(o.want, page, n); n > 0 && bytes.Equal(o.buf, o.want) {
			o.knows(i, n)
			return nil
		}
	}
	return fmt.Errorf("page %d reads with other bytes than were written", page)
}

// try runs the world of a seed, with a defect or without.
func try(t *testing.T, seed uint64, k kind, d mutate.PageDefect) (*world, error) {
	w := newWorld(seed, k, d, t.TempDir())
	return w, w.run(3, w.live)
}

// seeds returns the number of worlds to try, without a defect and with each defect.
func seeds() uint64 {
	switch {
	case *long:
		return 300
	case testing.Short():
		return 3
	}
	return 12
}

// An acknowledged page stays readable until it is discarded, as long as fewer servers are down
// than the page has copies, however slow the other servers are. No page is stale after a restart.
// No buffer is lost.
func TestWhatWasAcknowledgedIsReadableWhateverHappensToServers(t *testing.T) {
	var all happened
	for name, k := range map[string]kind{"copies": {}, "compressed": {compress: true}, "coded": {coding: Code{2, 2}}, "coded and compressed": {compress: true, coding: Code{3, 1}}, "beside guests": {guested: true}} {
		t.Run(name, func(t *testing.T) { promise(t, k, &all) })
	}
	if all.lacks() {
		t.Errorf("%+v: something that should have happened has not", all)
	}
}

// happened counts the events of some worlds.
type happened struct {
	worldCounts
	spilled, deathsSeen, restarts, fixed, damaged, waited uint64
}

// lacks reports whether an event that the test depends on has not happened.
func (h *happened) lacks() bool {
	return h.deaths == 0 || h.rots == 0 || h.full == 0 || h.joins == 0 || h.leaves == 0 || h.restarts == 0 || h.deathsSeen <= h.restarts || h.fixed == 0 || h.spilled == 0 || h.damaged == 0 || h.waited == 0
}

// add adds the events of a world.
func (h *happened) add(w *world) {
	h.deaths += w.counts.deaths
	h.rots += w.counts.rots
	h.full += w.counts.full
	h.guests += w.counts.guests
	h.joins += w.counts.joins
	h.leaves += w.counts.leaves
	for _, at := range w.hosts {
		if s := at.server; s != nil && s.store.spill != nil {
			h.spilled += s.store.spill.out
		}
	}
	s := w.client.Stats()
	h.restarts += s.Restarts
	h.deathsSeen += s.Deaths
	h.fixed += s.Repaired
	h.damaged += s.Damaged
	h.waited += s.Waited
}

func promise(t *testing.T, k kind, all *happened) {
	var own happened
	plain, kept := uint64(0), uint64(0)
	for seed := range seeds() {
		w, err := try(t, seed, k, "")
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		own.add(w)
		all.add(w)
		plain += w.client.Stats().PlainBytes
		kept += w.client.Stats().KeptBytes
	}
	if !testing.Short() && own.lacks() {
		t.Errorf("%+v: something that should have happened has not", own)
	}
	if k.guested && own.guests == 0 {
		t.Error("no guest has kept its pages")
	}
	if k.compress != (kept < plain) {
		t.Errorf("%d bytes were kept as %d", plain, kept)
	}
}

// foundBy holds seeds that find the defects that few other seeds find.
var foundBy = map[mutate.PageDefect]uint64{mutate.PagesTwoLooks: 1, mutate.PagesEpochIgnored: 898, mutate.PagesDoubtForgotten: 29, mutate.PagesOlderOverwrites: 1643, mutate.PagesShardBelieved: 2, mutate.PagesEvicted: 2, mutate.PagesHalvesMixed: 1, mutate.PagesHalfLeak: 1}

// kinds holds the worlds for the defects that cannot occur in all worlds.
var kinds = map[mutate.PageDefect]kind{mutate.PagesPlaceOverrun: {compress: true}, mutate.PagesPlaceKept: {compress: true}, mutate.PagesOutlive: {guested: true},
	mutate.PagesShardsMixed: {coding: Code{2, 2}}, mutate.PagesShardBelieved: {coding: Code{2, 2}}, mutate.PagesPendingLost: {coding: Code{2, 2}}}

func TestEachDefectOfNetworkMemoryIsFound(t *testing.T) {
	const most = 300
	type place struct {
		seed uint64
		kind kind
	}
	sound := map[place]bool{}
	for i, d := range mutate.PageDefects() {
		t.Run(string(d), func(t *testing.T) {
			if testing.Short() && i%5 > 0 {
				t.Skip("one in five in short tests")
			}
			for i := range uint64(most) {
				seed := foundBy[d] + i
				at := place{seed, kinds[d]}
				_, err := try(t, seed, at.kind, d)
				if err == nil {
					continue
				}
				if i > 0 {
					t.Logf("found by seed %d, behind %d others", seed, i)
				}
				if !sound[at] {
					if _, err := try(t, seed, at.kind, ""); err != nil {
						t.Fatalf("without the defect: %v", err)
					}
					sound[at] = true
				}
				return
			}
			t.Errorf("%d seeds have not found it", most)
		})
	}
}
