//go:build linux && !portable

package udp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// The self-test of segmentation offload sends real frames over this host's own loopback path, to
// itself. Its socket is like the later one, but on another port. So it finds out what the kernel
// has and whether it works, before any peer depends on it; and it takes no frames that peers
// send meanwhile. Problems beyond this host show later: by errors of sending, and by rel, which
// doubts batches if much of them was lost (DoubtBatches).

// testFrame, testFrames and testLast are the frames of the test, in bytes: a batch and a shorter
// last one.
const (
	testFrame  = 500
	testFrames = 20
	testLast   = 77
)

// testPatience is how long the test waits for its frames, which loopback delivers at once.
const testPatience = 100 * time.Millisecond

// chooseOffload switches on the offloads that work, and returns a text that names them and the
// reasons for the others. It comes before the socket is opened.
func (d *Driver) chooseOffload(cfg Config) (why string) {
	o := &d.sock.offload
	if cfg.NoOffload {
		return "no segmentation offload, as configured"
	}
	send, receive, lend := testOffload(cfg.Addr.Addr())
	o.send, o.receive = send == nil, receive == nil
	d.sock.lent = lender{able: lend == nil, why: lend, least: limits.LentLeast}
	o.plain = make([]link.Addr, 0, limits.PlainDestinations)
	return explainOffload(send, receive)
}

// Offload names the kernel's segmentation offloads in use: "both", "send", "receive" or "none".
func (d *Driver) Offload() string {
	switch o := &d.sock.offload; {
	case o.send && o.receive:
		return "both"
	case o.send:
		return "send"
	case o.receive:
		return "receive"
	}
	return "none"
}

// explainOffload returns a text about the offloads in use; its arguments are the reasons against
// them.
func explainOffload(send, receive error) string {
	switch {
	case send == nil && receive == nil:
		return "segmentation offload both ways (GSO, GRO)"
	case send == nil:
		return fmt.Sprintf("segmentation offload for sending only (GSO): %v", receive)
	case receive == nil:
		return fmt.Sprintf("segmentation offload for receiving only (GRO): %v", send)
	}
	return fmt.Sprintf("no segmentation offload: %v; %v", send, receive)
}

// testOffload tries both directions, and lending; nil means that it works.
func testOffload(ip netip.Addr) (send, receive, lend error) {
	t := &Driver{mtu: testFrame, out: newStage(testFrame)}
	t.sock.offload.receive = true // so that there is room for a batch
	if err := t.sock.open(Config{Addr: netip.AddrPortFrom(ip, 0), SocketBuffer: 256 << 10}, testFrame); err != nil {
		err = fmt.Errorf("the self-test has no socket: %w", err)
		return err, err, err
	}
	defer t.sock.close()
	t.addr = t.sock.localAddr()
	if t.addr.Addr().IsUnspecified() {
		self := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		t.addr = netip.AddrPortFrom(self, t.addr.Port())
	}
	send = t.testSending()
	t.sock.offload.send = send == nil
	if receive = t.testReceiving(); send != nil {
		return send, receive, errors.New("it needs segmentation offload")
	}
	return send, receive, t.testLending()
}

func (d *Driver) testSending() error {
	if _, err := unix.GetsockoptInt(d.sock.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT); err != nil {
		return fmt.Errorf("this kernel has no UDP_SEGMENT, which came with Linux 4.18 (%w)", err)
	}
	d.sock.offload.send = true
	if err := d.testRound(); err != nil {
		return fmt.Errorf("sending a batch over loopback: %w", err)
	}
	if d.counters.FramesBatched == 0 {
		return errors.New("the kernel took no batch over loopback")
	}
	return nil
}

func (d *Driver) testReceiving() error {
	if err := unix.SetsockoptInt(d.sock.fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1); err != nil {
		return fmt.Errorf("this kernel has no UDP_GRO, which came with Linux 5.0 (%w)", err)
	}
	d.sock.in.mode, d.sock.in.told = modeBulk, true
	if err := d.testRound(); err != nil {
		return fmt.Errorf("receiving a batch over loopback: %w", err)
	}
	return nil
}

// testRound sends a batch to itself and checks that exactly its frames arrive, each unchanged.
func (d *Driver) testRound() error {
	r := &testReceiver{}
	for i := range testFrames {
		b := d.Reserve(d.addr)
		d.Commit(len(r.expect(b[:0], i)))
	}
	d.Flush(0)
	if d.out.pending() > 0 || d.stats.Unsendable+d.stats.TooBig > 0 {
		return errors.New("the kernel did not take it")
	}
	for end := time.Now().Add(testPatience); r.frames < testFrames && r.err == nil; {
		n, _ := d.Poll(0, r)
		switch {
		case d.stats.Oversize > 0:
			return errors.New("several frames have come as one")
		case n == 0 && time.Now().After(end):
			return fmt.Errorf("%d of %d frames have come after %v", r.frames, testFrames, testPatience)
		case n == 0:
			time.Sleep(10 * time.Microsecond)
		}
	}
	return r.err
}

// testReceiver compares frames with those that were sent, in their order.
type testReceiver struct {
	frames int
	err    error
	buf    [testFrame]byte
}

// expect appends the ith frame to b.
func (r *testReceiver) expect(b []byte, i int) []byte {
	size := testFrame
	if i == testFrames-1 {
		size = testLast
	}
	for len(b) < size {
		b = binary.LittleEndian.AppendUint16(b, uint16(i<<9+len(b)))
	}
	return b[:size]
}

// Receive implements link.Receiver.
func (r *testReceiver) Receive(_ clock.Time, _ link.Addr, frame []byte) {
	if want := r.expect(r.buf[:0], r.frames); !bytes.Equal(frame, want) && r.err == nil {
		r.err = fmt.Errorf("frame %d of %d bytes differs from what was sent, %d bytes", r.frames, len(frame), len(want))
	}
	r.frames++
}

func (r *testReceiver) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(r, now, from, frames, size)
}
