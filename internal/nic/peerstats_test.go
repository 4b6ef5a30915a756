package nic

import (
	"testing"
	"time"

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
	for i, pr := range e.peers.list {
		var p vni.Peer
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
