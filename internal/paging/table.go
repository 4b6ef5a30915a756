package paging

import (
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// MinLimit is the smallest limit, in pages.
const MinLimit = 64

// MaxPages is the largest number of pages of a table.
const MaxPages = 1 << 30

// Config configures a Table.
type Config struct {
	Pages int // number of pages in the region
	Limit int // largest number of local pages; MinLimit or more

	// Stores is the largest number of stores in flight; zero: 16.
	Stores int

	// Ahead is the number of pages that are loaded ahead of sequential faults; zero: 64;
	// negative: none.
	Ahead int

	// Timeout is the time for which a fault waits for room; zero: without limit.
	Timeout time.Duration
}

// Stats holds the state and the counters of a table.
type Stats struct {
	Mapped   int `json:"mapped"`   // pages in the region, or on the way into it
	Buffered int `json:"buffered"` // pages in buffers, and buffers in transfer
	Waiting  int `json:"waiting"`  // faults that wait for room

	Faults uint64 `json:"faults"` // faults on missing pages
	Writes uint64 `json:"writes"` // faults on protected pages
	Loads  uint64 `json:"loads"`  // pages requested from the device
	Ahead  uint64 `json:"ahead"`  // pages loaded before a fault on them
	Back   uint64 `json:"back"`   // pages that came back from buffers
	Clean  uint64 `json:"clean"`  // pages that left the region without a store
	Stores uint64 `json:"stores"` // pages given to the device
	Failed uint64 `json:"failed"` // stores that failed and are retried
	Lost   uint64 `json:"lost"`   // pages that could not be had
}

// state is the place of a page.
type state uint8

const (
	absent  state = iota // on the device, or zeros
	coming               // it is being loaded
	clean                // in the region, protected; the device has it, or it is zeros
	dirty                // in the region
	kept                 // buffered; the device has it
	leaving              // buffered; the device must get it
	lost                 // it could not be had: each access to it fails
)

// page is the table's record of a page.
type page struct {
	state   state
	stored  bool  // the device has content of it: without, an absent or clean page is zeros
	wanted  bool  // a fault awaits it
	writes  bool  // that fault is a write
	waits   bool  // it is in line for room
	buf     int32 // its buffer while it is coming or buffered; else none
	sending int32 // its buffer in store, or an earlier buffer of it; or none
	links
}

// Table holds the pages.
type Table struct {
	cfg    Config
	pages  []page
	free   []int32 // buffers
	room   int     // number of further pages that the region may hold
	mapped list    // clean and dirty, oldest first
	kept   list    // oldest first
	leave  list    // leaving pages whose stores have not begun, oldest first
	line   []waiter
	stores int   // in flight
	faults ahead // on missing pages
	writes ahead // on protected pages
	do     []Action
	stats  Stats
}

// waiter is a page that a fault awaits and for which there is no room.
type waiter struct {
	page  int32
	since clock.Time
}

// takeAtOnce is the number of pages that leave the region together. Removing neighbours together
// costs the kernel little more than removing one page.
const takeAtOnce = 8

// New returns a table whose pages are all absent, and zeros.
func New(cfg Config) (*Table, error) {
	switch {
	case cfg.Pages < 1 || cfg.Pages > MaxPages:
		return nil, fmt.Errorf("paging: %d pages; expected 1 to %d", cfg.Pages, MaxPages)
	case cfg.Limit < MinLimit:
		return nil, fmt.Errorf("paging: %d pages are local at a time; expected %d or more", cfg.Limit, MinLimit)
	}
	if cfg.Stores == 0 {
		cfg.Stores = 16
	}
	if cfg.Ahead == 0 {
		cfg.Ahead = 64
	}
	t := &Table{cfg: cfg, pages: make([]page, cfg.Pages)}
	for i := range t.pages {
		t.pages[i].buf, t.pages[i].sending = none, none
	}
	t.mapped, t.kept, t.leave = newList(t.pages), newList(t.pages), newList(t.pages)
	buffers := Buffers(cfg.Limit)
	t.room = cfg.Limit - buffers
	for i := range buffers {
		t.free = append(t.free, int32(buffers-1-i))
	}
	t.faults.window = min(cfg.Ahead, buffers/4)
	t.writes.window = t.faults.window
	return t, nil
}

// Buffers returns the number of buffers within a limit of pages. The rest of the limit is for the
// region.
func Buffers(limit int) int { return max(MinLimit/4, limit/8) }

// Stats returns the state and the counters of the table.
func (t *Table) Stats() Stats {
	s := t.stats
	buffers := Buffers(t.cfg.Limit)
	s.Mapped, s.Buffered, s.Waiting = t.cfg.Limit-buffers-t.room, buffers-len(t.free), len(t.line)
	return s
}

// Fault handles a fault on a missing page. write means that the access was a write.
func (t *Table) Fault(now clock.Time, n int, write bool) {
	t.stats.Faults++
	p := &t.pages[n]
	switch p.state {
	case clean, dirty, lost:
		// The page has arrived or was given up while the fault was on its way here.
		t.act(Action{Kind: Wake, Page: n, Here: p.state != lost})
		return
	case coming:
		p.wanted, p.writes = true, p.writes || write
		t.lookAhead(n, write)
		return
	}
	p.wanted, p.writes = true, p.writes || write
	if p.waits {
		return
	}
	if len(t.line) > 0 || !t.serve(n) {
		p.waits = true
		t.line = append(t.line, waiter{int32(n), now})
		return
	}
	t.lookAhead(n, write)
}

// Protected handles a fault on a write to a protected page.
func (t *Table) Protected(n int) {
	t.stats.Writes++
	p := &t.pages[n]
	if p.state != clean {
		t.act(Action{Kind: Wake, Page: n})
		return
	}
	p.state = dirty
	t.mapped.remove(int32(n))
	t.mapped.push(int32(n)) // it is in use
	t.act(Action{Kind: Allow, Page: n})
	t.allowAhead(n)
	t.lookAhead(n, true)
}

// Loaded ends a Load. ok reports whether the buffer holds the page.
func (t *Table) Loaded(n int, ok bool) {
	p := &t.pages[n]
	if p.state != coming {
		panic(fmt.Sprintf("paging: page %d is loaded and is not coming: %d", n, p.state))
	}
	switch {
	case ok:
		t.enter(n, Fill)
	case p.wanted:
		t.room++
		t.lose(n)
	default:
		t.room++
		p.state, p.writes = absent, false
		t.release(p)
	}
	t.serveLine()
}

// Stored ends a Store of a buffer. ok reports whether the device has the content. A failed store
// is retried.
func (t *Table) Stored(n int, buf int32, ok bool) {
	p := &t.pages[n]
	if p.sending != buf {
		panic(fmt.Sprintf("paging: buffer %d of page %d is stored, and buffer %d is being", buf, n, p.sending))
	}
	p.sending = none
	t.stores--
	p.stored = p.stored || ok
	if !ok {
		t.stats.Failed++
	}
	if p.buf != buf {
		t.free = append(t.free, buf) // the page was written since, or is lost
	} else if ok {
		p.state = kept
	}
	switch p.state {
	case kept:
		t.kept.push(int32(n))
	case leaving:
		t.leave.push(int32(n))
	}
	t.serveLine()
}

// Expire gives up pages that have waited for room longer than the timeout.
func (t *Table) Expire(now clock.Time) {
	for t.cfg.Timeout > 0 && len(t.line) > 0 && now.Sub(t.line[0].since) >= t.cfg.Timeout {
		n := int(t.line[0].page)
		t.line = t.line[1:]
		t.pages[n].waits = false
		t.lose(n)
	}
	t.serveLine()
}

// serveLine serves the waiting pages in their order, and starts stores.
func (t *Table) serveLine() {
	for len(t.line) > 0 && t.serve(int(t.line[0].page)) {
		t.pages[t.line[0].page].waits = false
		t.line = t.line[1:]
	}
	t.startStores()
}
