package hsn

import (
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
)

// Host is the destination of packets: a process of a NIC.
type Host struct {
	NIC  uint64
	Slot uint16
	Gen  uint32
}

// Interface is the network interface below the driver. None of its methods calls the driver.
type Interface interface {
	// Send begins to send a packet: data, then headers. It reports whether it could. Both slices
	// must stay as they are until Done returns true for the slot.
	Send(slot int, to Host, data, headers []byte) bool

	// Done reports whether the packet of a slot has left its memory, or never will.
	Done(slot int) bool

	// Flush makes the packets of earlier Sends leave now.
	Flush()

	// Receive gives the interface a buffer, for the first packet for which it has no buffer yet.
	// It reports whether the interface has taken it.
	Receive(b *Buffer) bool

	// Next returns the next buffer with a received packet, the packet's length, and its sender,
	// which the sender cannot forge.
	Next() (b *Buffer, n int, from Host, ok bool)
}

// Module is a user of the driver (HSN-4).
type Module struct {
	// Receive takes a message. Its data and its header are in its buffers. The module owns the
	// buffers until it frees them.
	Receive func(now clock.Time, m Message)

	// Sent reports that a message's memory is not needed any more: the message has left, or
	// never will.
	Sent func(cookie uint64)
}

// Message is a received message.
type Message struct {
	From   Host
	Data   []byte // the page; it starts at the beginning of its buffer
	Header []byte
	// Buffers hold data and header. The second is nil if the message came in one packet.
	Buffers [2]*Buffer
}

// Config configures a driver.
type Config struct {
	Host      uint64 // the NIC of this node, as it stands in the packets
	PageBytes int    // size of a buffer's page: the machine's page size, 4096 or 8192 (HSN-24)
	Modules   [modules]Module

	// Buffers is the smallest number of buffers in the receive queue, as long as the pool has
	// any. Zero means 64.
	Buffers   int
	Slots     int           // of the send queue; zero means 32
	Pending   int           // messages that may wait to be sent; zero means 256
	Fragments int           // halves that may wait for their other half; zero means 32
	Patience  time.Duration // how long such a half waits; zero means 100 ms
	Burst     int           // packets that one Interrupt takes at most (HSN-30); zero means 16

	Defect mutate.PageDefect // for tests
}

var (
	// ErrBusy is returned by Send when too many messages wait.
	ErrBusy = errors.New("hsn: too many messages wait to be sent")

	// ErrMessage is returned by Send for a message that cannot be sent.
	ErrMessage = errors.New("hsn: not a message")
)

// Counts holds the counters of a driver.
type Counts struct {
	Sent, Received   uint64 // messages
	PacketsOut       uint64
	PacketsIn        uint64
	CopiedBytes      uint64 // bytes of pages copied within the driver, to join halves
	Malformed        uint64 // packets
	Repeated         uint64 // halves that had arrived before
	Expired, Crowded uint64 // halves dropped: by timeout, or because the queue was full
	Foreign          uint64 // messages to a module that this node does not have
	// Starved counts the times that the pool was empty. Deferred counts the times that messages
	// stayed pending, because the send queue or the interface was full.
	Starved, Deferred uint64
}

// Driver is the page driver of one node. The zero value is not ready: see New.
type Driver struct {
	cfg   Config
	nic   Interface
	count Counts

	pending   []message // HSN-6; the first is at index first
	first     int
	slots     []slot      // HSN-7
	busy      int         // number of busy slots
	outputs   bool        // HSN-35: output is in progress
	given     int         // HSN-8: buffers that the interface has
	pool      *Pool       // source of more buffers
	fragments []*fragment // HSN-9, oldest first
	sequence  uint32
}

// New returns a driver. It fills the receive queue from the pool, whose pages must have the size
// in cfg (HSN-29).
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

// Counts returns the counters of the driver.
func (d *Driver) Counts() Counts { return d.count }
