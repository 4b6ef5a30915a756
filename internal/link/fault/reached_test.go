package fault_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/fault"
)

// manyAddresses is a driver that is reached at several addresses. The first byte of a frame is
// the last byte of its address.
type manyAddresses struct {
	link.Driver
	frames [][]byte
	at     netip.Addr
}

func (d *manyAddresses) Caps() link.Caps {
	return link.Caps{Reached: func() netip.Addr { return d.at }, From: func(netip.Addr) {}}
}

func (d *manyAddresses) Poll(now clock.Time, to link.Receiver) (int, clock.Time) {
	n := len(d.frames)
	for _, f := range d.frames {
		d.at = netip.AddrFrom4([4]byte{10, 0, 0, f[0]})
		to.Receive(now, link.Addr{}, f)
	}
	d.frames = nil
	return n, clock.Never
}

// reader compares each frame with the address at which it should have arrived.
type reader struct {
	t       *testing.T
	reached func() netip.Addr
	frames  int
}

func (r *reader) Receive(_ clock.Time, _ link.Addr, frame []byte) {
	r.frames++
	if at := r.reached().As4(); at[3] != frame[0] {
		r.t.Errorf("a frame that came to address %d is said to have come to %d", frame[0], at[3])
	}
}

func (r *reader) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(r, now, from, frames, size)
}

func TestAHeldFrameKeepsTheAddressAtWhichItArrived(t *testing.T) {
	d := &manyAddresses{}
	f := fault.Wrap(d, fault.Config{Seed: 1, Duplicate: 0.3, Delay: 50 * time.Microsecond, Jitter: time.Millisecond})
	r := &reader{t: t, reached: f.Caps().Reached}
	for i := range clock.Time(100) {
		d.frames = append(d.frames, []byte{byte(i)}, []byte{byte(i + 100)})
		f.Poll(i*100_000, r)
	}
	f.Poll(clock.Time(time.Second), r)
	if r.frames < 200 {
		t.Errorf("%d frames have come of 200", r.frames)
	}
}
