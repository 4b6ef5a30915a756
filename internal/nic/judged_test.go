package nic

import (
	"bytes"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// A filter that judges by the bytes sees those that the receiver gets, by whichever way the message comes, and each once (PANIC-7).
func TestAProgramsFilterSeesTheBytesByWhicheverWayTheyCome(t *testing.T) {
	for _, way := range ways {
		for place := range 2 {
			if place == 0 && !way.local || place == 1 && !way.remote {
				continue
			}
			t.Run(way.name, func(t *testing.T) {
				f := newFabricOf(t, 2, true)
				a, b := f.rider(0, "a/0"), f.rider(place, "b/0")
				b1, b2 := f.process(1, "b/1"), f.process(1, "b/2")
				f.met(a, b)
				f.known("b/1", "b/2")
				for _, p := range []*tester{b1, b2} { // so that a relay may take them in
					buf := make([]byte, 4)
					r, s := p.recv("", 0, vni.AnyTag, buf), a.send(p.name.String(), 0, 0, buf)
					p.wantReceived(r, buf, buf)
					a.wantSent(s)
				}
				f.run(10 * time.Millisecond)
				var saw [][]byte
				b.e.process(b.slot).guardBy(func(nic uint64, payload []byte) bool {
					if nic != a.e.cfg.ID {
						t.Errorf("a message of NIC %d looks as if of %d", a.e.cfg.ID, nic)
					}
					saw = append(saw, bytes.Clone(payload))
					return len(payload) > 0 && payload[0] == pattern(1, 1)[0]
				})
				buf := make([]byte, way.length)
				for tag := range uint64(3) {
					way.send(f, a, b, tag, pattern(way.length, byte(tag)))
					f.run(20 * time.Millisecond)
					if tag != 1 || way.length > limits.EagerMessage {
						b.wantReceived(b.recv("", tag, 0, buf), buf, pattern(way.length, byte(tag)))
					}
				}
				f.run(20 * time.Millisecond)
				if len(saw) != 3 || b.e.process(b.slot).stray.n != 0 {
					t.Fatalf("the filter saw %d messages of 3, and %d wait for a receive", len(saw), b.e.process(b.slot).stray.n)
				}
				for i, got := range saw {
					want := pattern(way.length, byte(i))
					if way.length > limits.EagerMessage {
						want = nil
					}
					if !bytes.Equal(got, want) {
						t.Errorf("of message %d the filter saw %d bytes, want %d of its own", i, len(got), len(want))
					}
				}
			})
		}
	}
}
