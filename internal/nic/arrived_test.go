package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// ways holds all the ways by which a message of a/0 reaches b/0, each with a length that takes it.
// send returns the context of a send that ends with the outcome of the message, or -1 if there is
// none.
var ways = []struct {
	name   string
	length int
	local  bool // it works within one NIC
	remote bool // it works between two NICs
	send   func(f *fabric, a, b *rider, tag uint64, data []byte) (ctx int)
	taken  vni.Counter // it counts the messages of this way
	at     int         // on this NIC: 0 a's, 1 b's
}{
	{"fragment", 100, false, true, byCommand, vni.RelFragSends, 0},
	{"awaited fragment", 100, false, true, byAccept, vni.RelFragSends, 0},
	{"eager", 5000, false, true, byAccept, vni.RelChunkSends, 0},
	{"request", 100_000, false, true, byCommand, vni.NICRequests, 0},
	{"relay", 500, false, true, byRelay, vni.NICRelayedMessages, 1},
	{"direct", 200, false, true, byCall, vni.NICStraightSends, 0},
	{"posted", 200, false, true, byPost, vni.NICStraightSends, 0},
	{"local", 300, true, false, byCommand, vni.NICMessagesLocal, 0},
	{"long local", 100_000, true, false, byCommand, vni.NICMessagesLocal, 0},
}

func byCommand(f *fabric, a, b *rider, tag uint64, data []byte) int {
	return a.send(b.name.String(), tag, 0, data)
}

func byAccept(f *fabric, a, b *rider, tag uint64, data []byte) int {
	return a.send(b.name.String(), tag, vni.WantAccept, data)
}

// byRelay sends a multicast to b/0 and to two more, so that a tree is worth it. Its outcome is
// that of all.
func byRelay(f *fabric, a, b *rider, tag uint64, data []byte) int {
	m := a.multicast([]string{"b/0", "b/1", "b/2"}, tag, data)
	a.finish(false, m)
	return -1
}

func byCall(f *fabric, a, b *rider, tag uint64, data []byte) int {
	if !a.ride(b.tester, tag, false, data) {
		return a.send(b.name.String(), tag, 0, data) // on one NIC there is no straight way
	}
	return -1
}

func byPost(f *fabric, a, b *rider, tag uint64, data []byte) int {
	f.until(time.Second, "a message is posted", func() bool { _, ok := a.way.Post(&b.name, tag, data); return ok })
	return -1
}

// waysTo makes a fabric in which all ways lead from a/0, on the first NIC, to b/0, on the NIC with
// index place. A relay also serves the others.
func waysTo(t *testing.T, promises bool, place int) (f *fabric, a, b *rider, others []*tester) {
	t.Helper()
	f = newFabricOf(t, 2, promises)
	a, b = f.rider(0, "a/0"), f.rider(place, "b/0")
	others = []*tester{f.process(1, "b/1"), f.process(1, "b/2")}
	f.met(a, b)
	f.known("b/1", "b/2")
	for _, p := range others {
		buf := make([]byte, 4)
		r, s := p.recv("", 0, vni.AnyTag, buf), a.send(p.name.String(), 0, 0, buf)
		p.wantReceived(r, buf, buf)
		a.wantSent(s)
	}
	f.run(10 * time.Millisecond)
	return f, a, b, others
}

// A filter sees each message for its process once and in order, by every way. No receive gets a
// message that it drops, and a send that waits for the outcome fails. Later messages are not
// affected.
func TestAFilterSeesEachMessageByWhicheverWayItComes(t *testing.T) {
	for _, promises := range []bool{true, false} {
		for place := range 2 {
			for _, way := range ways {
				if place == 0 && !way.local || place == 1 && !way.remote {
					continue
				}
				t.Run(map[bool]string{true: "reliable, ", false: "lossy, "}[promises]+way.name, func(t *testing.T) {
					f, a, b, others := waysTo(t, promises, place)
					var seen []Arrival
					b.e.Guard(b.slot, b.gen, func(m *Arrival) bool {
						seen = append(seen, *m)
						if m.Payload != nil && string(m.Payload) != string(pattern(way.length, byte(m.Tag))) {
							t.Errorf("the filter saw other bytes of message %d", m.Tag)
						}
						return m.Tag%2 == 1
					})
					before := f.engines[way.at].Count(way.taken)
					const messages = 6
					buf := make([]byte, way.length)
					for tag := range uint64(messages) {
						posted := -1
						// Half of the messages that pass find a receive, half wait for one.
						if tag%4 < 2 && tag%2 == 0 {
							posted = b.recv("", tag, 0, buf)
						}
						data := pattern(way.length, byte(tag))
						ctx := way.send(f, a, b, tag, data)
						if ctx >= 0 && tag%2 == 1 {
							f.run(20 * time.Millisecond)
						}
						if tag%2 == 0 {
							if posted < 0 {
								f.run(time.Millisecond)
								posted = b.recv("", tag, 0, buf)
							}
							b.wantReceived(posted, buf, data)
						}
						if ctx < 0 {
							continue
						}
						c := a.finish(false, ctx)
						asked := way.length > limits.StagedMessage || place == 0 || way.name == "eager" || way.name == "awaited fragment"
						want := vni.StatusOK
						if tag%2 == 1 && asked {
							want = vni.StatusFiltered
						}
						if c.Status != want {
							t.Errorf("the send of message %d ended with %v; want %v", tag, c.Status, want)
						}
					}
					f.run(10 * time.Millisecond)
					if len(seen) != messages {
						t.Fatalf("the filter saw %d messages of %d", len(seen), messages)
					}
					for i, m := range seen {
						if m.Tag != uint64(i) || m.Length != uint64(way.length) || m.From != a.name || m.Addr != (vni.Address{NIC: 1, Slot: a.slot, Gen: a.gen}) {
							t.Errorf("message %d looked like %+v", i, m)
						}
					}
					if n := b.e.Count(vni.NICFiltered); n != messages/2 {
						t.Errorf("%d messages are counted as dropped; want %d", n, messages/2)
					}
					if f.engines[way.at].Count(way.taken) == before {
						t.Error("no message took the way")
					}
					if p := b.e.process(b.slot); p.stray.n != 0 {
						t.Errorf("%d messages wait for a receive", p.stray.n)
					}
					for _, p := range others {
						if q := p.e.process(p.slot); way.name == "relay" && q.stray.n != messages {
							t.Errorf("%v has %d messages; the filter is not in front of it", p.name, q.stray.n)
						}
						p.exit()
					}
					f.noLeaks()
				})
			}
		}
	}
}

// A run goes through the filter message by message.
func TestAFilterSeesEachMessageOfARun(t *testing.T) {
	f := newFabricOf(t, 2, true)
	a, b := f.riders()
	w := b.gather(nil, anything, 4096, 0)
	var tags, sizes []int
	b.e.Guard(b.slot, b.gen, func(m *Arrival) bool {
		tags, sizes = append(tags, int(m.Tag)), append(sizes, len(m.Payload))
		return m.Length%20 != 0
	})
	messages := [][]byte{pattern(20, 1), pattern(30, 2), pattern(40, 3), pattern(50, 4), pattern(60, 5)}
	if n, _, _ := a.way.SendSome(&vni.StraightSend{To: b.name, Tag: 7}, messages); n != len(messages) {
		t.Fatalf("%d messages went in a frame; want %d", n, len(messages))
	}
	f.until(time.Second, "the run is through", func() bool { return len(sizes) == len(messages) })
	w.want(messages[0], messages[2], messages[4])
	b.e.Guard(b.slot, b.gen, nil)
	if n, _, _ := a.way.SendSome(&vni.StraightSend{To: b.name, Tag: 7}, messages); n != len(messages) {
		t.Fatalf("%d messages went in a frame; want %d", n, len(messages))
	}
	f.until(time.Second, "another run", func() bool { return w.read() == 3+len(messages) })
	if len(sizes) != len(messages) {
		t.Error("a filter that was taken away looks at messages")
	}
}

// A message that arrives before its turn is judged when its turn has come.
func TestAFilterJudgesAParkedMessageInItsTurn(t *testing.T) {
	k := newTaker(t, true)
	var tags []uint64
	k.b.e.Guard(k.b.slot, k.b.gen, func(m *Arrival) bool { tags = append(tags, m.Tag); return m.Tag == 2 })
	k.take(k.next+1, 2, [][]byte{pattern(10, 2)})
	k.take(k.next+2, 3, [][]byte{pattern(10, 3)})
	if len(tags) > 0 {
		t.Fatalf("messages %v were judged before their turn", tags)
	}
	k.take(k.next, 1, [][]byte{pattern(10, 1)})
	if len(tags) != 3 || tags[0] != 1 || tags[1] != 2 || tags[2] != 3 {
		t.Errorf("messages %v were judged; want 1, 2, 3", tags)
	}
	if p := k.b.e.process(k.b.slot); p.stray.n != 2 {
		t.Errorf("%d messages wait for a receive; want those that were not dropped", p.stray.n)
	}
}

// The direct way does not serve a process with a filter.
func TestNothingIsMetPastAFilter(t *testing.T) {
	f := newFabricOf(t, 2, true)
	a, b := f.riders()
	byPost(f, a, b, 5, pattern(10, 1))
	if !b.way.Expect(&a.name, 5, false) {
		t.Fatal("the direct way expects no message though none is in its way")
	}
	b.e.Guard(b.slot, b.gen, func(*Arrival) bool { return false })
	if b.way.Expect(&a.name, 5, false) {
		t.Error("the direct way would take a message past the filter")
	}
	if b.e.Guard(b.slot, b.gen+1, nil) {
		t.Error("a filter of an earlier process was taken away")
	}
}
