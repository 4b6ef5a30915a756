package nic

import (
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/vni"
)

// published gives a NIC a table of peers, and returns the table as tools see it.
func published(t *testing.T) (table vni.PeerTable, change func(*Config)) {
	t.Helper()
	b := vni.AlignedBytes(vni.PeerTableBytes)
	written, err := vni.NewPeerTable(b)
	if err != nil {
		t.Fatal(err)
	}
	if table, err = vni.OpenPeerTable(b); err != nil {
		t.Fatal(err)
	}
	return table, func(c *Config) {
		c.Link = promiseless{c.Link.(*mem.Port)}
		if c.ID == 1 {
			c.Peers = written
		}
	}
}

func TestToolsReadTheCountsOfEachPeer(t *testing.T) {
	table, change := published(t)
	f := newWideFabric(t, 1472, 3, fault.Config{}, change)
	for end := f.now.Add(time.Second); f.now < end; {
		f.step()
	}
	e := f.engines[0]
	if table.Len() != 2 {
		t.Fatalf("the table has %d peers; want 2", table.Len())
	}
	trips := uint64(0)
	for _, pr := range e.peers.list {
		var p vni.Peer
		i := pr.row
		if !table.Load(i, &p) {
			t.Fatalf("row %d cannot be read", i)
		}
		s, c := pr.ep.Stats(), &p.Counts
		if p.NIC != pr.nic || p.Incarnation != 1 || p.Addr != pr.ep.Addr() || c[vni.PeerUpNow] != 1 || c[vni.PeerSessions] != 1 {
			t.Errorf("row %d is %+v; want NIC %d, up, in its first session", i, p, pr.nic)
		}
		if c[vni.PeerFramesIn] != s.In.Frames || c[vni.PeerBytesOut] != s.Out.Bytes || c[vni.PeerSends] != s.Sends || s.Sends == 0 {
			t.Errorf("row %d has %v; want the counts of %+v", i, *c, *s)
		}
		if p.RTT != s.RTT || c[vni.PeerRTTNow] != uint64(pr.ep.RTT()) {
			t.Errorf("row %d has %d round trips, and %d ns; want %d, %v", i, p.RTT.Count, c[vni.PeerRTTNow], s.RTT.Count, pr.ep.RTT())
		}
		if at := c[vni.PeerOpenedAt]; at == 0 || at > c[vni.PeerHeardAt] || c[vni.PeerHeardAt] > uint64(f.now) {
			t.Errorf("row %d: opened at %d, heard at %d, now it is %d", i, at, c[vni.PeerHeardAt], f.now)
		}
		if c[vni.PeerFrameNow] == 0 || c[vni.PeerFrameNow] > c[vni.PeerWholeFrameNow] || c[vni.PeerWindowNow] == 0 {
			t.Errorf("row %d: frames of %d of %d bytes, window %d", i, c[vni.PeerFrameNow], c[vni.PeerWholeFrameNow], c[vni.PeerWindowNow])
		}
		trips += s.RTT.Count
	}
	if trips == 0 {
		t.Error("no round trip was measured: the test shows nothing")
	}
}

// A NIC with many peers publishes some at a time, and asks to be polled until all are there.
func TestAllPeersAreReadWhenThereAreMany(t *testing.T) {
	table, change := published(t)
	f := newWideFabric(t, 1472, 1, fault.Config{}, change)
	e := f.engines[0]
	const many = 2*rowsPerPublish + 5
	for i := range many {
		if err := e.AddNode(uint64(100+i), mem.Address(100+i)); err != nil {
			t.Fatal(err)
		}
	}
	for end := f.now.Add(time.Second); f.now < end; {
		f.step()
	}
	if table.Len() != many {
		t.Fatalf("the table has %d peers; want %d", table.Len(), many)
	}
	for i := range many {
		var p vni.Peer
		if ok := table.Load(i, &p); !ok || p.NIC != uint64(100+i) || p.Addr != mem.Address(100+i) || p.Counts[vni.PeerUpNow] != 0 {
			t.Errorf("row %d is %+v; want NIC %d, down", i, p, 100+i)
		}
	}
}

// current fails the test if the table differs from the counts of the peers.
func (e *Engine) current(t *testing.T, table vni.PeerTable) {
	t.Helper()
	if table.Len() != len(e.peers.list) {
		t.Errorf("the table has %d peers; want %d", table.Len(), len(e.peers.list))
	}
	var want peerRows
	for _, pr := range e.peers.list {
		want.row.RTT = want.fill(pr).RTT
		var got vni.Peer
		if ok := table.Load(pr.row, &got); !ok || got != want.row {
			t.Errorf("row %d of NIC %d: %v, %+v; want %+v", pr.row, pr.nic, ok, got, want.row)
		}
	}
}

func TestRowsHaveMessagesThatWentTheStraightWay(t *testing.T) {
	for _, promises := range []bool{true, false} {
		table, change := published(t)
		f := newWideFabric(t, 1472, 2, fault.Config{}, func(c *Config) {
			port := c.Link
			if change(c); promises {
				c.Link = port
			}
		})
		a, b := f.riders()
		e := f.engines[0]
		f.run(time.Second)
		publish := func() {
			t.Helper()
			f.now = f.now.Add(2 * publishEvery)
			e.publisher.changed = true // as if the poll found work
			e.Poll(f.now)
			e.current(t, table)
		}
		publish()
		before := *e.peers.list[0].ep.Stats()
		a.postAndMeet(b, pattern(64, 1))
		publish()
		f.exchange(b, a)
		publish()
		if s := e.peers.list[0].ep.Stats(); s.Out.Frames == before.Out.Frames || s.In.Frames == before.In.Frames {
			t.Fatal("no message went the straight way: the test shows nothing")
		}
	}
}

func TestRowsFollowWhenPeersAreRemoved(t *testing.T) {
	table, change := published(t)
	f := newWideFabric(t, 1472, 1, fault.Config{}, change)
	e := f.engines[0]
	for i := range 9 {
		if err := e.AddNode(uint64(100+i), mem.Address(100+i)); err != nil {
			t.Fatal(err)
		}
	}
	f.run(100 * time.Millisecond)
	for _, i := range []int{3, 8, 0, 7} { // 8 is the last row at first
		e.RemoveNode(uint64(100+i), mem.Address(100+i))
		f.until(time.Second, "the end of the peer", func() bool { return e.rel.Endpoint(uint64(100+i)) == nil })
	}
	f.run(time.Second)
	e.current(t, table)
	var left []uint64
	for i := range table.Len() {
		var p vni.Peer
		table.Load(i, &p)
		left = append(left, p.NIC)
	}
	if slices.Sort(left); !slices.Equal(left, []uint64{101, 102, 104, 105, 106}) {
		t.Errorf("the table has NICs %v; want 101, 102 and 104 to 106", left)
	}
}

// Silence ends a session in a poll that finds no frame.
func TestTheRowOfAPeerThatFellSilentSaysSo(t *testing.T) {
	table, change := published(t)
	f := newWideFabric(t, 1472, 2, fault.Config{}, change)
	e := f.engines[0]
	pr := e.peers.list[0]
	pr.ep.Watch(1)
	f.kill(1)
	f.until(time.Minute, "the end of the session", func() bool { return !pr.ep.Up() })
	f.run(2 * publishEvery)
	var p vni.Peer
	if ok := table.Load(pr.row, &p); !ok || p.Counts[vni.PeerUpNow] != 0 {
		t.Errorf("the row was read: %v; it says up: %d", ok, p.Counts[vni.PeerUpNow])
	}
	pr.ep.Watch(-1)
}

// loops polls the engines of a fabric as their loops would: when a frame has come, and when the
// engine has asked for it.
type loops struct {
	*fabric
	came  []bool       // a frame has come
	due   []clock.Time // for when the engine has asked
	asked int          // polls of the first engine that it has asked for, without a frame
}

func (l *loops) run(d time.Duration) {
	for end := l.now.Add(d); l.now < end; {
		next := end
		for i, e := range l.engines {
			if came := l.came[i]; came || l.due[i] <= l.now {
				if l.came[i] = false; i == 0 && !came {
					l.asked++
				}
				_, l.due[i] = e.Poll(l.now)
			}
			next = clock.Min(next, l.due[i])
		}
		if l.now = l.now.Add(time.Microsecond); !slices.Contains(l.came, true) {
			l.now = max(l.now, next)
		}
	}
}

// star returns a NIC that has sessions with many peers.
func star(t *testing.T, peers int, change func(*Config)) *loops {
	l := &loops{fabric: emptyFabric(t), came: make([]bool, peers+1), due: make([]clock.Time, peers+1)}
	for id := range uint64(peers + 1) {
		l.addNIC(id+1, 1, fault.Config{}, func(c *Config) {
			port := c.Link.(*mem.Port)
			port.Notify(func() { l.came[id] = true })
			c.Link, c.Static = promiseless{port}, true
			if id == 0 {
				change(c)
			}
		})
	}
	for id := 2; id <= peers+1; id++ {
		if err := l.engines[0].AddNode(uint64(id), mem.Address(id)); err != nil {
			t.Fatal(err)
		}
		if err := l.engines[id-1].AddNode(1, mem.Address(1)); err != nil {
			t.Fatal(err)
		}
	}
	l.run(5 * time.Second)
	for _, pr := range l.engines[0].peers.list {
		if !pr.ep.Up() {
			t.Fatalf("no session with NIC %d", pr.nic)
		}
	}
	return l
}

// A NIC whose peers only keep alive wakes up for their frames and its timers. The table costs no
// wake-up.
func TestTheTableOfPeersDoesNotWakeAnIdleNIC(t *testing.T) {
	const peers = 100
	for _, c := range []struct {
		what      string
		keepAlive func(l *loops)
		// Frames come more than publishEvery apart, so that the counters cost no wake-up either.
		apart bool
	}{
		{"the peers ask in turn", func(l *loops) {
			for i, e := range l.engines[1:] {
				e.peers.list[0].ep.Watch(1)
				l.came[i+1] = true
				l.run(limits.ProbeEvery / peers)
			}
		}, true},
		{"the NIC asks all at once", func(l *loops) {
			for _, pr := range l.engines[0].peers.list {
				pr.ep.Watch(1)
			}
			l.came[0] = true
		}, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			page, err := vni.NewCounterPage(vni.AlignedBytes(vni.CounterPageBytes))
			if err != nil {
				t.Fatal(err)
			}
			memory := vni.AlignedBytes(vni.PeerTableBytes)
			table, err := vni.NewPeerTable(memory)
			if err != nil {
				t.Fatal(err)
			}
			var asked []int
			for _, change := range []func(*Config){
				func(*Config) {},
				func(c *Config) { c.Counters = page },
				func(c *Config) { c.Counters, c.Peers = page, table },
			} {
				l := star(t, peers, change)
				c.keepAlive(l)
				l.run(time.Second)
				before := l.asked
				frames := l.engines[0].Count(vni.LinkFramesIn)
				l.run(2 * time.Second)
				asked = append(asked, l.asked-before)
				if frames = l.engines[0].Count(vni.LinkFramesIn) - frames; frames < 4*peers {
					t.Fatalf("%d frames in two seconds: the peers do not keep alive", frames)
				}
				if l.engines[0].cfg.Peers != table && !l.engines[0].rel.AnyChanged() {
					t.Error("it made rows for no table")
				}
				if l.engines[0].cfg.Peers == table {
					for p := &l.engines[0].publisher; p.changed || p.left; {
						l.run(time.Millisecond / 10)
					}
					l.engines[0].current(t, table)
				}
			}
			t.Logf("in two seconds, it asked for %d polls; with counters %d; with the table as well %d", asked[0], asked[1], asked[2])
			if asked[2] > asked[1] || c.apart && asked[1] > asked[0] {
				t.Error("it asked for more polls, though it had the same frames and timers")
			}
		})
	}
}

// A busy NIC with many peers spends little time on the table, whatever they do.
func TestABusyNICWritesFewRowsAtOnce(t *testing.T) {
	_, change := published(t)
	f := newWideFabric(t, 1472, 1, fault.Config{}, change)
	e := f.engines[0]
	for i := range rowsAtRest + rowsPerPublish {
		if err := e.AddNode(uint64(100+i), mem.Address(100+i)); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (n int) {
		for _, pr := range e.peers.list {
			pr.ep.MarkChanged()
		}
		return len(e.peers.list)
	}
	for _, c := range []struct {
		next clock.Time
		rows int
	}{{f.now, rowsPerPublish}, {f.now.Add(publishEvery / 2), rowsPerPublish}, {clock.Never, rowsAtRest}} {
		all := left()
		e.now, e.publisher.next = f.now, f.now
		if at := e.publish(1, c.next); at != f.now.Add(publishEvery) {
			t.Errorf("the rest of the rows is due at %d; want %d", at, f.now.Add(publishEvery))
		}
		n := 0
		for e.rel.NextChanged() != nil {
			n++
		}
		if n != all-c.rows {
			t.Errorf("if the next poll is at %d, %d of %d rows are left; want %d", c.next, n, all, all-c.rows)
		}
	}
}
