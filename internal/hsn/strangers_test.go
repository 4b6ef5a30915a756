package hsn

import (
	"bytes"
	"testing"
)

// Two processes of one NIC number their messages in the same way. So the NIC alone does not
// identify the sender of a half.
func TestHalvesOfTwoProcessesOfOneNICAreNotOnePage(t *testing.T) { // HSN-21
	a, c, b := newNode(t, 1, 8192, 20, nil), newNode(t, 1, 8192, 20, nil), newNode(t, 2, 8192, 100, nil)
	c.id.Slot = 2
	ofA, ofC := page(8192), bytes.Repeat([]byte{7}, 8192)
	_ = a.Driver.Send(Client, b.id, ofA, nil, 0)
	_ = c.Driver.Send(Client, b.id, ofC, nil, 0)
	b.carry(0, a.out[0], c.out[1])
	if len(b.got) != 0 || len(b.Driver.fragments) != 2 {
		t.Fatalf("%d messages came of halves of two processes, and %d halves wait", len(b.got), len(b.Driver.fragments))
	}
	b.carry(0, a.out[1], c.out[0])
	b.wants(0, a, ofA, nil)
	b.wants(1, c, ofC, nil)
}

// A generation of a process does not complete a page that the generation before it has begun.
func TestHalvesOfTwoGenerationsOfAProcessAreNotOnePage(t *testing.T) { // HSN-21
	a, again, b := newNode(t, 1, 8192, 20, nil), newNode(t, 1, 8192, 20, nil), newNode(t, 2, 8192, 100, nil)
	again.id.Gen = 2
	_ = a.Driver.Send(Client, b.id, page(8192), nil, 0)
	_ = again.Driver.Send(Client, b.id, page(8192), nil, 0)
	b.carry(0, a.out[0], again.out[1])
	if len(b.got) != 0 || len(b.Driver.fragments) != 2 {
		t.Errorf("%d messages came of halves of two generations, and %d halves wait", len(b.got), len(b.Driver.fragments))
	}
}

// refused expects that a node refuses each packet from NIC 1, counts it, and loses no buffer.
func (n *node) refused(packets ...[]byte) {
	n.t.Helper()
	for i, p := range packets {
		n.carry(0, packet{Host{NIC: 1, Slot: 1, Gen: 1}, p})
		if c := n.Counts().Malformed; len(n.got) != 0 || len(n.Driver.fragments) != 0 || c != uint64(i+1) {
			n.t.Fatalf("after packet %d: %d messages came, %d halves wait, and %d packets are counted", i, len(n.got), len(n.Driver.fragments), c)
		}
	}
	if have := len(n.buffers) + n.pool.Len(); have != 20 {
		n.t.Errorf("%d buffers are left of 20", have)
	}
}

// sealed returns a packet: its data and header, and the HSN header behind them.
func sealed(h Header, module int) []byte {
	p := make([]byte, h.Data+module+HeaderLen)
	h.put(p[h.Data+module:])
	return p
}

// A node with small buffers has no room for the second half of a page. A peer may still send
// one.
func TestANodeWithSmallBuffersRefusesHalvesOfPages(t *testing.T) { // HSN-13
	n := newNode(t, 2, HalfPage, 20, nil)
	n.refused(
		sealed(Header{Host: 1, Data: HalfPage}, 0),
		sealed(Header{Host: 1, Data: HalfPage, Fragment: 1, Last: true}, 4),
		sealed(Header{Host: 1, Sequence: 1, Data: HalfPage, Fragment: 1, Last: true}, 0),
	)
}

// The NIC tells from which host a packet is. The packet's own statement is only compared with
// that.
func TestAPacketThatNamesAnotherHostIsRefused(t *testing.T) { // HSN-10
	newNode(t, 2, MaxPage, 20, nil).refused(
		sealed(Header{Host: 3, Data: 100, Last: true}, 4),
		sealed(Header{Host: 3, Data: HalfPage}, 0),
		sealed(Header{Host: 2, Data: HalfPage, Fragment: 1, Last: true}, 4),
	)
}

// The data of a packet is in the page of its buffer. The room behind the page is for headers
// only.
func TestAPacketWithMoreDataThanAPageIsRefused(t *testing.T) {
	newNode(t, 2, HalfPage, 20, nil).refused(
		sealed(Header{Host: 1, Data: HalfPage + 1, Last: true}, 4),
		make([]byte, HeaderLen-1),
		make([]byte, HalfPage+RestBytes+1),
	)
}

// A buffer that the interface does not take returns to the pool, even if it is offered several
// times.
func TestABufferThatTheInterfaceDoesNotTakeIsInThePoolAgain(t *testing.T) { // HSN-24
	pool := NewPool(HalfPage, make([]byte, 3*HalfPage), make([]byte, 3*RestBytes))
	d, err := New(Config{Host: 1, PageBytes: HalfPage}, silent{}, pool)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		d.Interrupt(0)
	}
	if pool.Len() != 3 {
		t.Errorf("%d buffers of 3 are in the pool", pool.Len())
	}
}
