package hsn

import (
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
)

// Host is where packets go: a process of a NIC.
type Host struct {
	NIC  uint64
	Slot uint16
	Gen  uint32
}

// Interface is the network interface below the driver. None of its methods calls the driver.
type Interface interface {
	// Send begins to send a packet, data and then headers, and reports whether it could. Both stay as they are until Done says so.
	Send(slot int, to Host, data, headers []byte) bool

	// Done reports whether a packet whose sending was begun has left its memory, or will never.
	Done(slot int) bool

	// Flush has what Send has begun leave now, if it has not.
	Flush()

	// Receive gives the interface a buffer, for the packet that comes behind those for which it has buffers. It reports whether
	// it could take it.
	Receive(b *Buffer) bool

	// Next returns the next buffer in which a packet has come, the packet's length, and whose it is, which the sender cannot choose.
	Next() (b *Buffer, n int, from Host, ok bool)
}

// Module is a user of the driver (HSN-4).
type Module struct {
	// Receive takes a message. Its data and its header lie in its buffers, which belong to the module until it frees them.
	Receive func(now clock.Time, m Message)

	// Sent says that a message's memory is not needed any more: it has left, or never will.
	Sent func(cookie uint64)
}

// Message is what a module receives.
type Message struct {
	From    Host
	Data    []byte // the page: it begins where its buffer begins
	Header  []byte
	Buffers [2]*Buffer // that hold them; the second is nil of a message that came in one packet
}

// Config configures a driver.
type Config struct {
	Host      uint64 // of this node, in what it sends: its NIC
	PageBytes int    // of its buffers: the page size of the machine, 4096 or 8192 (HSN-24)
	Modules   [modules]Module

	Buffers   int           // in the receive queue at least, as long as the pool has any; zero: 64
	Slots     int           // of the send queue; zero: 32
	Pending   int           // messages that may wait to be sent; zero: 256
	Fragments int           // halves that may wait for their other half; zero: 32
	Patience  time.Duration // for how long one does; zero: 100 ms
	Burst     int           // packets that one Interrupt takes at most (HSN-30); zero: 16

	Defect mutate.PageDefect // for tests
}

var (
	// ErrBusy is what Send returns while too many messages wait.
	ErrBusy = errors.New("hsn: too many messages wait to be sent")

	// ErrMessage is what Send returns of a message that cannot be sent.
	ErrMessage = errors.New("hsn: not a message")
)

// Counts is what a driver has done.
type Counts struct {
	Sent, Received    uint64 // messages
	PacketsOut        uint64
	PacketsIn         uint64
	CopiedBytes       uint64 // of pages, within the driver: halves that were put together
	Malformed         uint64 // packets
	Repeated          uint64 // halves that were there already
	Expired, Crowded  uint64 // halves given up: by their timer, for want of room in the queue
	Foreign           uint64 // messages to a module that is not here
	Starved, Deferred uint64 // times that the pool was empty, and that a full send queue or interface left messages pending
}

// Driver is the page driver of one node. The zero value is not ready: see New.
type Driver struct {
	cfg   Config
	nic   Interface
	count Counts

	pending   []message // HSN-6; the first at first
	first     int
	slots     []slot      // HSN-7
	busy      int         // of them
	outputs   bool        // HSN-35
	given     int         // HSN-8: buffers that the interface has
	pool      *Pool       // from which it gets more
	fragments []*fragment // HSN-9, oldest first
	sequence  uint32
}

// New makes a driver. It fills the receive queue from the pool, whose pages have the size that cfg says (HSN-29).
func New(cfg Config, nic Interface, pool *Pool) (*Driver, error) {
	if cfg.PageBytes != HalfPage && cfg.PageBytes != MaxPage {
		return nil, fmt.Errorf("hsn: pages of %d bytes; expected %d or %d", cfg.PageBytes, HalfPage, MaxPage)
	}
	if pool.pageBytes != cfg.PageBytes {
		return nil, fmt.Errorf("hsn: a pool of pages of %d bytes; expected %d", pool.pageBytes, cfg.PageBytes)
	}
	for _, d := range []struct {
		v *int
		n int
	}{{&cfg.Buffers, 64}, {&cfg.Slots, 32}, {&cfg.Pending, 256}, {&cfg.Fragments, 32}, {&cfg.Burst, 16}} {
		if *d.v == 0 {
			*d.v = d.n
		}
	}
	if cfg.Patience == 0 {
		cfg.Patience = 100 * time.Millisecond
	}
	d := &Driver{cfg: cfg, nic: nic, pool: pool, slots: make([]slot, cfg.Slots)}
	for i := range d.slots {
		d.slots[i].headers = make([]byte, 0, MaxHeader+HeaderLen)
	}
	d.refill()
	return d, nil
}

// Counts is what the driver has done so far.
func (d *Driver) Counts() Counts { return d.count }
