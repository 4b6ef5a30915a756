package paging

import (
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// MinLimit is the least limit, in pages.
const MinLimit = 64

// MaxPages is the most pages that a table can have.
const MaxPages = 1 << 30

// Config configures a Table.
type Config struct {
	Pages int // of the region
	Limit int // of them that are local at a time, MinLimit or more

	// Stores is how many stores are under way at a time; zero: 16.
	Stores int

	// Ahead is how many pages come ahead of faults that come in order; zero: 64; negative: none.
	Ahead int

	// Timeout is for how long a fault waits for room; zero: for ever.
	Timeout time.Duration
}

// Stats is what a table has and has done.
type Stats struct {
	Mapped   int `json:"mapped"`   // pages in the region, or on their way into it
	Buffered int `json:"buffered"` // pages in buffers, and buffers on their way
	Waiting  int `json:"waiting"`  // faults that wait for room

	Faults uint64 `json:"faults"` // on missing pages
	Writes uint64 `json:"writes"` // on protected ones
	Loads  uint64 `json:"loads"`  // pages that were asked of the device
	Ahead  uint64 `json:"ahead"`  // pages that came before a fault on them
	Back   uint64 `json:"back"`   // pages that came back from buffers
	Clean  uint64 `json:"clean"`  // pages that left the region without a store
	Stores uint64 `json:"stores"` // pages that the device was given
	Failed uint64 `json:"failed"` // stores that failed, and are tried again
	Lost   uint64 `json:"lost"`   // pages that could not be had
}

// state is where a page is.
type state uint8

const (
	absent  state = iota // on the device, or zeros
	coming               // it is being loaded
	clean                // in the region, protected; the device has it, or it is zeros
	dirty                // in the region
	kept                 // buffered; the device has it
	leaving              // buffered; the device is to have it
	lost                 // it could not be had: what touches it is told so
)

// page is what is known of a page.
type page struct {
	state   state
	stored  bool  // the device has contents of it: without, it is zeros if it is absent or clean
	wanted  bool  // a fault awaits it
	writes  bool  // and is a write
	waits   bool  // it is in line for room
	buf     int32 // while it is coming or buffered; else none
	sending int32 // what is being stored of it: its buffer, or one that it had before; or none
	links
}

// Table has the pages.
type Table struct {
	cfg    Config
	pages  []page
	free   []int32 // buffers
	room   int     // how many more pages may be in the region
	mapped list    // clean and dirty, oldest first
	kept   list    // oldest first
	leave  list    // leaving pages whose stores have not begun, oldest first
	line   []waiter
	stores int   // under way
	faults ahead // on missing pages
	writes ahead // on protected ones
	do     []Action
	stats  Stats
}

// waiter is a page that a fault awaits and that has no room.
type waiter struct {
	page  int32
	since clock.Time
}

// takeAtOnce is how many pages leave the region together: neighbours among them cost the kernel little more than one.
const takeAtOnce = 8

// New makes a table of which all pages are absent, and zeros.
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

// Buffers is how many of the pages of a limit are buffers; the others are in the region.
func Buffers(limit int) int { return max(MinLimit/4, limit/8) }

// Stats is what the table has and has done.
func (t *Table) Stats() Stats {
	s := t.stats
	buffers := Buffers(t.cfg.Limit)
	s.Mapped, s.Buffered, s.Waiting = t.cfg.Limit-buffers-t.room, buffers-len(t.free), len(t.line)
	return s
}

// Fault takes a fault on a page that was missing; write: it was to be written.
func (t *Table) Fault(now clock.Time, n int, write bool) {
	t.stats.Faults++
	p := &t.pages[n]
	switch p.state {
	case clean, dirty, lost:
		t.act(Action{Kind: Wake, Page: n, Here: p.state != lost}) // it has come, or what becomes of it is settled, while the fault was on its way here
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

// Protected takes a fault on a page that was to be written and is protected.
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

// Loaded takes the answer to a Load: whether its buffer has the page.
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

// Stored takes the answer to a Store of a buffer: whether the device has it. One that failed is tried again.
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
		t.free = append(t.free, buf) // it was written since, or is lost
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

// serveLine serves the pages that wait, in their order.
func (t *Table) serveLine() {
	for len(t.line) > 0 && t.serve(int(t.line[0].page)) {
		t.pages[t.line[0].page].waits = false
		t.line = t.line[1:]
	}
	t.startStores()
}
