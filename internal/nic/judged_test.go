package nic

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
)

// A filter that judges by the bytes sees those that the receiver gets, once each, by every way
// (PANIC-7).
func TestAProgramsFilterSeesTheBytesByWhicheverWayTheyCome(t *testing.T) {
	for _, way := range ways {
		for place := range 2 {
			if place == 0 && !way.local || place == 1 && !way.remote {
				continue
			}
			t.Run(way.name, func(t *testing.T) {
				f, a, b, _ := waysTo(t, true, place)
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
					if tag != 1 || way.length > limits.StagedMessage {
						b.wantReceived(b.recv("", tag, 0, buf), buf, pattern(way.length, byte(tag)))
					}
				}
				f.run(20 * time.Millisecond)
				if len(saw) != 3 || b.e.process(b.slot).stray.n != 0 {
					t.Fatalf("the filter saw %d messages of 3, and %d wait for a receive", len(saw), b.e.process(b.slot).stray.n)
				}
				for i, got := range saw {
					want := pattern(way.length, byte(i))
					if way.length > limits.StagedMessage {
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

// A message is judged before it goes into a ring, by every way. Several are in flight at once:
// long ones have places in the ring before they have arrived, and runs share a record.
func TestAProgramsFilterStandsBeforeARing(t *testing.T) { // PANIC-7
	byRun := func(f *fabric, a, b *rider, tag uint64, data []byte) int {
		return a.sendRun("b/0", tag, [][]byte{data})
	}
	all := append(ways[:len(ways):len(ways)], ways[0], ways[7])
	for i, name := range []string{"run by a command", "local run by a command"} {
		w := &all[len(ways)+i]
		w.name, w.send = name, byRun
	}
	for _, way := range all {
		for place := range 2 {
			if place == 0 && !way.local || place == 1 && !way.remote {
				continue
			}
			t.Run(way.name, func(t *testing.T) {
				f, a, b, others := waysTo(t, true, place)
				w := b.gather(nil, anything, 256<<10, 1<<20)
				seen := 0
				b.e.process(b.slot).guardBy(func(_ uint64, payload []byte) bool {
					seen++
					if long := way.length > limits.StagedMessage; long != (payload == nil) || !long && payload[0] != pattern(1, byte(seen-1))[0] {
						t.Errorf("of message %d the filter sees %d bytes, or those of another", seen-1, len(payload))
					}
					return seen%2 == 0
				})
				const messages = 6
				var sent []int
				var passing [][]byte
				for i := range messages {
					data := pattern(way.length, byte(i))
					ctx := way.send(f, a, b, uint64(i), data)
					if strings.HasSuffix(way.name, "by a command") && a.finish(false, ctx).Len == 0 {
						// No message of the run has left: now it goes as its library would send
						// it.
						ctx = a.send("b/0", uint64(i), 0, data)
					} else if strings.HasSuffix(way.name, "by a command") {
						ctx = -1
					}
					if ctx >= 0 {
						sent = append(sent, ctx)
					}
					if i%2 == 0 {
						passing = append(passing, data)
					}
				}
				w.reads(messages / 2)
				for _, ctx := range sent {
					a.finish(false, ctx)
				}
				f.run(10 * time.Millisecond)
				w.want(passing...)
				if seen != messages || b.e.process(b.slot).stray.n != 0 {
					t.Errorf("the filter saw %d messages of %d, and %d wait for a receive", seen, messages, b.e.process(b.slot).stray.n)
				}
				w.close()
				for _, p := range others {
					p.exit()
				}
				f.noLeaks()
			})
		}
	}
}

// A message of the same NIC without room to be judged holds up only those behind it. Each comes in
// its turn, even one that is too long to be judged by its bytes, or that began after the line had
// formed.
func TestMessagesOfOneNICKeepTheirOrderBehindAProgramsFilter(t *testing.T) {
	for _, fourth := range []int{4000, 100_000} {
		f := newWideFabric(t, 1472, 1, fault.Config{}, func(c *Config) { c.StagingBytes = 10_000 })
		a, b := f.process(0, "a/0"), f.process(0, "b/0")
		b.e.process(b.slot).guardBy(func(uint64, []byte) bool { return false })
		var sent []int
		lengths := []int{4000, 4000, 4000, fourth, 4000} // two of them have room in b's staging
		for i, n := range lengths {
			sent = append(sent, a.send("b/0", 7, 0, pattern(n, byte(i))))
			f.run(time.Millisecond)
		}
		if err := f.engines[0].Limits(); err != nil {
			t.Error(err)
		}
		buf := make([]byte, 100_000)
		for i, n := range lengths {
			b.wantReceived(b.recv("a/0", 7, 0, buf), buf, pattern(n, byte(i)))
			a.wantSent(sent[i])
		}
		f.noLeaks()
	}
}

// A message for which a receive is posted arrives although unexpected messages fill the staging:
// between two NICs and on one, as without a filter, and whether the receive or the message was
// first.
func TestAFloodBehindAProgramsFilterKeepsOutNothingThatIsAskedFor(t *testing.T) {
	for _, nic := range []int{2, 1} {
		f := newWideFabric(t, 1472, 3, fault.Config{}, func(c *Config) { c.StagingBytes, c.InitialCreditBytes = 12_000, 6_000 })
		a, b, c := f.process(0, "a/0"), f.process(1, "b/0"), f.process(nic, "c/0")
		f.known("a/0", "b/0", "c/0")
		b.e.process(b.slot).guardBy(func(_ uint64, payload []byte) bool { return string(payload) == "dropped" })
		for range 20 {
			a.send("b/0", 1, 0, pattern(4000, 1))
		}
		f.run(10 * time.Millisecond)
		buf := make([]byte, limits.StagedMessage)
		for i := range 20 {
			data, r := pattern(1+i*(limits.StagedMessage-1)/19, byte(i)), -1
			if i%2 == 0 {
				r = b.recv("c/0", 2, 0, buf)
			}
			dropped, s := c.send("b/0", 2, 0, []byte("dropped")), c.send("b/0", 2, 0, data)
			if f.run(time.Millisecond); r < 0 {
				r = b.recv("c/0", 2, 0, buf)
			}
			b.wantReceived(r, buf, data)
			c.wantSent(s)
			if err := b.e.Limits(); err != nil {
				t.Fatal(err)
			}
			if !c.done(false, dropped) {
				t.Error("a message that was dropped has not ended")
			}
			c.finish(false, dropped)
		}
	}
}
