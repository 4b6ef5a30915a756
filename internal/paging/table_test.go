package paging

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// world is the surroundings of a table: a region, buffers and a device. The content of a page is
// a number that tells which write made it. The world performs all actions of the table. It ends
// loads and stores in its own order.
type world struct {
	t       *testing.T
	table   *Table
	now     clock.Time
	limit   int
	latest  []int    // last write of the program
	region  []int    // content of the region; -1: nothing
	guarded []bool   // by page of the region
	poison  []bool   // by page
	bufs    []int    // content of the buffers
	device  []int    // content of the device
	loads   []Action // in flight
	stores  []Action // in flight; carried holds the content of their buffers when they began
	carried []int
	waking  map[int]bool // pages whose faults have ended since
	most    int
}

func newWorld(t *testing.T, cfg Config) *world {
	table, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, table: table, limit: cfg.Limit, bufs: make([]int, Buffers(cfg.Limit)), waking: map[int]bool{}}
	w.latest, w.region, w.device = make([]int, cfg.Pages), make([]int, cfg.Pages), make([]int, cfg.Pages)
	w.guarded, w.poison = make([]bool, cfg.Pages), make([]bool, cfg.Pages)
	for i := range w.region {
		w.region[i] = -1
	}
	return w
}

// perform performs the actions of the table.
func (w *world) perform() {
	w.t.Helper()
	for _, a := range w.table.Actions(nil) {
		n := a.Page
		switch a.Kind {
		case Load:
			w.loads = append(w.loads, a)
			continue
		case Store:
			w.stores, w.carried = append(w.stores, a), append(w.carried, w.bufs[a.Buf])
			continue
		case Fill, Zero:
			if w.region[n] >= 0 || w.poison[n] {
				w.t.Fatalf("page %d is put where it is", n)
			}
			w.region[n] = 0
			if a.Kind == Fill {
				w.region[n] = w.bufs[a.Buf]
			}
			if w.region[n] != w.latest[n] {
				w.t.Fatalf("page %d comes back as write %d had it; the last was %d", n, w.region[n], w.latest[n])
			}
			w.guarded[n] = !a.Writable
		case Take:
			if w.region[n] < 0 || a.Writable == w.guarded[n] {
				w.t.Fatalf("page %d is taken as writable: %v; it is there: %v, protected: %v", n, a.Writable, w.region[n] >= 0, w.guarded[n])
			}
			if a.Buf >= 0 {
				w.bufs[a.Buf] = w.region[n]
			} else if w.region[n] != 0 {
				w.t.Fatalf("page %d is dropped and not zeros", n)
			}
			w.region[n] = -1
		case Allow:
			w.guarded[n] = false
		case Poison:
			if w.region[n] >= 0 {
				w.t.Fatalf("page %d is lost and is there", n)
			}
			w.poison[n] = true
		}
		w.waking[n] = true
	}
	w.check()
}

// check checks that the table keeps its limit, and that its lists are correct.
func (w *world) check() {
	t, local := w.table, 0
	for n := range w.region {
		if w.region[n] >= 0 {
			local++
		}
	}
	owner := map[int32]int{}
	claim := func(b int32, n int) {
		if b == none {
			return
		}
		if m, taken := owner[b]; taken && m != n {
			w.t.Fatalf("buffer %d has page %d and page %d", b, m, n)
		}
		owner[b] = n
	}
	for _, b := range t.free {
		claim(b, -1)
	}
	counts, loading := map[state]int{}, 0
	for n := range t.pages {
		p := &t.pages[n]
		counts[p.state]++
		claim(p.buf, n)
		claim(p.sending, n)
		if p.state == coming {
			loading++
		}
	}
	if len(owner) != len(w.bufs) {
		w.t.Fatalf("%d buffers of %d are free or used", len(owner), len(w.bufs))
	}
	if local != counts[clean]+counts[dirty] || t.mapped.len != local || t.kept.len != counts[kept] {
		w.t.Fatalf("%d pages are local; the table has %d clean, %d dirty, %d in their list; %d kept, %d in their list", local, counts[clean], counts[dirty], t.mapped.len, counts[kept], t.kept.len)
	}
	if t.room != w.limit-len(w.bufs)-local-loading || t.room < 0 {
		w.t.Fatalf("room for %d pages is left of %d; %d are local and %d coming", t.room, w.limit-len(w.bufs), local, loading)
	}
	if t.stores != len(w.stores) {
		w.t.Fatalf("%d stores are under way; the table has %d", len(w.stores), t.stores)
	}
	w.most = max(w.most, local+len(w.bufs)-len(t.free))
}

// answer ends a load or a store.
func (w *world) answer(r *rand.Rand, fails func(a Action) bool) {
	i := r.IntN(len(w.loads) + len(w.stores))
	if i < len(w.loads) {
		a := w.loads[i]
		w.loads = append(w.loads[:i], w.loads[i+1:]...)
		ok := !fails(a)
		w.bufs[a.Buf] = -7
		if ok {
			w.bufs[a.Buf] = w.device[a.Page]
		}
		w.table.Loaded(a.Page, ok)
	} else {
		i -= len(w.loads)
		a, was := w.stores[i], w.carried[i]
		w.stores = append(w.stores[:i], w.stores[i+1:]...)
		w.carried = append(w.carried[:i], w.carried[i+1:]...)
		if w.bufs[a.Buf] != was {
			w.t.Fatalf("the buffer of page %d has changed while it was stored", a.Page)
		}
		ok := !fails(a)
		if ok {
			w.device[a.Page] = was
		}
		w.table.Stored(a.Page, a.Buf, ok)
	}
	w.perform()
}

// thread is a thread of the program. It touches a page until it succeeds.
type thread struct {
	page  int
	write bool
	waits bool // its fault is with the table, or was lost on the way
}

// touch makes one attempt of a thread to touch its page. done reports whether the attempts are
// over, and failed whether the page is lost.
func (w *world) touch(th *thread, version int) (done, failed bool) {
	n := th.page
	switch {
	case w.poison[n]:
		return true, true
	case w.region[n] < 0:
		delete(w.waking, n)
		w.table.Fault(w.now, n, th.write)
	case th.write && w.guarded[n]:
		delete(w.waking, n)
		w.table.Protected(n)
	default:
		if w.region[n] != w.latest[n] {
			w.t.Fatalf("page %d reads as write %d had it; the last was %d", n, w.region[n], w.latest[n])
		}
		if th.write {
			w.region[n], w.latest[n] = version, version
		}
		return true, false
	}
	w.perform()
	return false, false
}

// play runs threads that touch the pages from pick. It returns the number of touches that ended,
// and how many of them failed.
func play(t *testing.T, w *world, r *rand.Rand, threads, steps int, pick func() (n int, write bool), fails func(Action) bool) (touched, failed int) {
	live := make([]*thread, threads)
	for step := 0; step < steps; step++ {
		w.now = w.now.Add(time.Millisecond)
		i := r.IntN(threads)
		if live[i] == nil {
			n, write := pick()
			live[i] = &thread{page: n, write: write}
		}
		th := live[i]
		if th.waits && !w.waking[th.page] && r.IntN(50) > 0 { // a signal makes a thread fault again
			if len(w.loads)+len(w.stores) > 0 {
				w.answer(r, fails)
			}
			continue
		}
		done, bad := w.touch(th, step+1)
		th.waits = !done
		if done {
			live[i] = nil
			touched++
		}
		if bad {
			failed++
		}
		if len(w.loads)+len(w.stores) > 0 && r.IntN(2) == 0 {
			w.answer(r, fails)
		}
		if r.IntN(100) == 0 { // a fault that was on its way when the page arrived
			w.table.Fault(w.now, th.page, r.IntN(2) == 0)
			w.perform()
		}
	}
	return touched, failed
}

// Whatever the threads do, and in whatever order the device answers, a page reads as it was last
// written, and the number of local pages stays within the limit.
func TestAPageIsAsItWasWrittenLast(t *testing.T) {
	seeds, steps := uint64(40), 2000
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 7))
		cfg := Config{Pages: 100 + r.IntN(400), Limit: MinLimit + r.IntN(100), Stores: 1 + r.IntN(20), Ahead: []int{0, -1, 8}[r.IntN(3)]}
		t.Run(fmt.Sprintf("seed %d, %+v", seed, cfg), func(t *testing.T) {
			w := newWorld(t, cfg)
			at, span := 0, 1+r.IntN(cfg.Pages)
			pick := func() (int, bool) {
				switch r.IntN(10) {
				case 0:
					at, span = r.IntN(cfg.Pages), 1+r.IntN(cfg.Pages)
				case 1, 2:
					return (at + r.IntN(span)) % cfg.Pages, r.IntN(2) == 0
				}
				at = (at + 1) % cfg.Pages
				return at, r.IntN(3) == 0
			}
			fails := func(a Action) bool { return a.Kind == Store && seed%2 == 0 && r.IntN(4) == 0 }
			threads := 1 + r.IntN(40)
			touched, failed := play(t, w, r, threads, steps, pick, fails)
			if s := w.table.Stats(); touched < steps/20 || failed > 0 || s.Lost > 0 {
				t.Errorf("%d pages were touched, %d of them in vain: %+v", touched, failed, s)
			}
			if w.most > cfg.Limit {
				t.Errorf("%d pages were local at once, of %d that may be", w.most, cfg.Limit)
			}
		})
	}
}

// A page may be written again, and leave again, while its previous content is still on its way to
// the device.
func TestAPageIsWrittenAgainWhileItIsStored(t *testing.T) {
	for _, ok := range []bool{true, false} {
		w := newWorld(t, Config{Pages: 1000, Limit: MinLimit, Ahead: -1})
		r := rand.New(rand.NewPCG(1, 1))
		answer := func(Action) bool { return !ok }
		touch := func(n int, write bool, version int) {
			th := &thread{page: n, write: write}
			for done := false; !done; done, _ = w.touch(th, version) {
				for len(w.loads) > 0 {
					w.answer(r, answer)
				}
			}
		}
		next := 1
		leave := func() { // pages of zeros need no buffer to make room
			for ; w.region[0] >= 0; next++ {
				touch(next, false, 0)
			}
		}
		touch(0, true, 1)
		leave()
		touch(0, true, 2)
		leave()
		if len(w.stores) != 1 || w.carried[0] != 1 {
			t.Fatalf("%d stores are under way, of %v; expected that of the first write", len(w.stores), w.carried)
		}
		w.answer(r, answer)
		if len(w.stores) != 1 || w.carried[0] != 2 {
			t.Fatalf("%d stores are under way, of %v; expected that of the second write", len(w.stores), w.carried)
		}
		w.answer(r, func(Action) bool { return false })
		touch(0, false, 0)
		if w.device[0] != 2 {
			t.Errorf("the device has write %d; expected 2", w.device[0])
		}
	}
}

func TestAPageThatIsNotWrittenLeavesWithoutAStore(t *testing.T) {
	w := newWorld(t, Config{Pages: 400, Limit: 100, Ahead: -1})
	r := rand.New(rand.NewPCG(1, 1))
	ok := func(Action) bool { return false }
	scan := func(write bool) Stats {
		before := w.table.Stats()
		for n := range 400 {
			th := &thread{page: n, write: write}
			for done := false; !done; done, _ = w.touch(th, n+1) {
				for len(w.loads)+len(w.stores) > 0 {
					w.answer(r, ok)
				}
			}
		}
		for len(w.stores) > 0 {
			w.answer(r, ok)
		}
		after := w.table.Stats()
		return Stats{Stores: after.Stores - before.Stores, Loads: after.Loads - before.Loads, Clean: after.Clean - before.Clean}
	}
	if s := scan(false); s.Stores != 0 || s.Loads != 0 {
		t.Errorf("reading zeros: %+v", s)
	}
	if s := scan(true); s.Stores < 300 || s.Loads != 0 {
		t.Errorf("writing: %+v", s)
	}
	scan(false) // the pages that were written last leave
	if s := scan(false); s.Stores != 0 || s.Loads < 300 || s.Clean < 300 {
		t.Errorf("reading: %+v", s)
	}
}

func TestPagesInDemandAreNotLoadedAgain(t *testing.T) {
	w := newWorld(t, Config{Pages: 1000, Limit: 100, Ahead: -1})
	r := rand.New(rand.NewPCG(1, 1))
	ok := func(Action) bool { return false }
	touch := func(n int, write bool) {
		th := &thread{page: n, write: write}
		for done := false; !done; done, _ = w.touch(th, n+1) {
			for len(w.loads)+len(w.stores) > 0 {
				w.answer(r, ok)
			}
		}
	}
	for n := range 1000 {
		touch(n, true)
	}
	before := w.table.Stats()
	for i := range 5000 { // five pages again and again, and a scan at the same time
		touch(i%5, false)
		touch(5+i*7%995, false)
	}
	s := w.table.Stats()
	if back := s.Back - before.Back; back < 100 {
		t.Errorf("%d pages came back from buffers; expected more", back)
	}
	if loads := s.Loads - before.Loads; loads > 5000+50 {
		t.Errorf("%d loads; expected little more than the scan's 5000", loads)
	}
}

func TestFaultsInOrderAreFew(t *testing.T) {
	for _, ahead := range []int{-1, 8} {
		w := newWorld(t, Config{Pages: 1000, Limit: 256, Ahead: ahead})
		r := rand.New(rand.NewPCG(1, 1))
		ok := func(Action) bool { return false }
		// The last pass changes pages that come from the device.
		for pass, write := range []bool{true, false, true} {
			before := w.table.Stats()
			for n := range 1000 {
				th := &thread{page: n, write: write}
				for done := false; !done; done, _ = w.touch(th, n+1) {
					for len(w.loads)+len(w.stores) > 0 {
						w.answer(r, ok)
					}
				}
			}
			s := w.table.Stats()
			if faults := s.Faults + s.Writes - before.Faults - before.Writes; (faults < 400) != (ahead > 0) {
				t.Errorf("pass %d, %d ahead: %d faults on 1000 pages", pass, ahead, faults)
			}
		}
	}
}

func TestWhatCannotBeHadIsLostAndWhatWaitsTooLong(t *testing.T) {
	w := newWorld(t, Config{Pages: 400, Limit: 100, Timeout: time.Second})
	r := rand.New(rand.NewPCG(1, 1))
	dead := func(Action) bool { return true }
	th := &thread{write: true}
	for th.page = 0; th.page < 400; th.page++ {
		done, _ := w.touch(th, th.page+1)
		if !done {
			done, _ = w.touch(th, th.page+1)
		}
		if !done {
			break
		}
	}
	if n := th.page; n != 100 {
		t.Errorf("%d pages were written to a device that takes none; expected as many as may be local, 100", n)
	}
	for range 50 {
		w.answer(r, dead)
	}
	w.table.Expire(w.now.Add(999 * time.Millisecond))
	w.perform()
	if w.poison[th.page] {
		t.Error("a page is given up too early")
	}
	w.table.Expire(w.now.Add(time.Second))
	w.perform()
	if done, failed := w.touch(th, 0); !done || !failed {
		t.Error("a page is still awaited after the timeout")
	}
	if s := w.table.Stats(); s.Lost != 1 || s.Waiting != 0 || s.Failed < 50 {
		t.Errorf("%+v", s)
	}
	// Written pages stay: those in the region, and the buffered ones once there is room.
	for i := range 100 {
		if w.region[i] >= 0 && w.region[i] != w.latest[i] {
			t.Errorf("page %d has changed", i)
		}
	}
}

func TestALoadThatFailsIsOfNoConsequenceUnlessItsPageIsWanted(t *testing.T) {
	w := newWorld(t, Config{Pages: 400, Limit: 128, Ahead: 8})
	r := rand.New(rand.NewPCG(1, 1))
	loses := func(a Action) bool { return a.Kind == Load && a.Page%10 == 9 }
	for _, write := range []bool{true, false} {
		bad := 0
		for n := range 400 {
			th := &thread{page: n, write: write}
			for done, failed := false, false; !done; {
				for len(w.loads)+len(w.stores) > 0 {
					w.answer(r, loses)
				}
				if done, failed = w.touch(th, n+1); failed {
					bad++
					if n%10 != 9 {
						t.Errorf("page %d is lost", n)
					}
				}
			}
		}
		if write && bad > 0 || !write && bad < 25 {
			t.Errorf("%d pages were lost; writes: %v", bad, write)
		}
	}
}

func TestTablesThatCannotBeAreRefusedWithTheNumbers(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Pages: 0, Limit: 64}, "0 pages; expected 1 to 1073741824"},
		{Config{Pages: MaxPages + 1, Limit: 64}, "1073741825 pages; expected 1 to 1073741824"},
		{Config{Pages: 100, Limit: 63}, "63 pages are local at a time; expected 64 or more"},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add(uint64(1), []byte{0, 1, 2, 3, 0x81, 0x82, 0x83, 0x84})
	f.Fuzz(func(t *testing.T, seed uint64, moves []byte) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, Config{Pages: 128, Limit: MinLimit, Stores: 1 + int(seed%8), Ahead: int(seed % 5)})
		if len(moves) == 0 {
			return
		}
		i := 0
		play(t, w, r, 1+int(seed%30), min(4*len(moves), 4000), func() (int, bool) {
			m := moves[i%len(moves)]
			i++
			return int(m & 0x7f), m&0x80 != 0
		}, func(Action) bool { return false })
	})
}
