package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// peersReading returns a reading of a NIC with two peers, one of which is down. The other has had
// n round trips of a millisecond.
func peersReading(n int, at time.Time) *reading {
	up := vni.Peer{NIC: 7, Incarnation: 3, Addr: netip.MustParseAddrPort("10.0.0.7:7700")}
	c := &up.Counts
	c[vni.PeerUpNow], c[vni.PeerOpenedAt], c[vni.PeerHeardAt] = 1, uint64(time.Second), uint64(60*time.Second)
	c[vni.PeerHandshakeAt] = uint64(time.Second)
	c[vni.PeerFramesOut], c[vni.PeerBytesOut] = uint64(n), uint64(1000*n)
	c[vni.PeerSends], c[vni.PeerLostFast], c[vni.PeerLostTail] = uint64(2*n), uint64(n/100), 4
	c[vni.PeerRTTNow], c[vni.PeerWindowNow], c[vni.PeerInFlightNow] = uint64(time.Millisecond), 65536, 1200
	c[vni.PeerFrameNow], c[vni.PeerWholeFrameNow], c[vni.PeerPathNow] = 1262, 1472, uint64(rel.PathNarrow)
	for range n {
		up.RTT.Record(time.Millisecond)
	}
	down := vni.Peer{Addr: netip.MustParseAddrPort("10.0.0.8:7700")}
	return &reading{info: &ctl.Info{NIC: 1, Clock: int64(61 * time.Second), Link: "udp", Reasons: []string{"AF_XDP needs an address"}},
		at: at, values: make([]uint64, len(vni.Names())), peers: []vni.Peer{up, down}}
}

// fields returns the words of the line that contains mark.
func fields(t *testing.T, text, mark string) []string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.Contains(line, mark) {
			return strings.Fields(line)
		}
	}
	t.Fatalf("no line has %q:\n%s", mark, text)
	return nil
}

func TestPeersArePrintedWithTheirLossesAndRoundTrips(t *testing.T) {
	var out bytes.Buffer
	if err := printStat(&out, &statOptions{peers: true}, nil, peersReading(500, time.Now())); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	got := strings.Join(fields(t, text, "10.0.0.7"), " ")
	want := "0:0:0:0:0:0:0:7 10.0.0.7:7700 1m0s 1s 1m0s 1ms 1ms 1ms 500 kB 0 B 1000 0 5 4 0 0 1200 of 65536 1262 of 1472 (narrow)"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := strings.Join(fields(t, text, "10.0.0.8"), " "); !strings.HasPrefix(got, "not known yet 10.0.0.8:7700 down never never - - -") {
		t.Errorf("a peer that never answered: %s", got)
	}
	if !strings.Contains(text, "link: AF_XDP needs an address") {
		t.Errorf("the reason for the link is missing:\n%s", text)
	}
}

func TestPeersThatAreWatchedShowTheChanges(t *testing.T) {
	var out bytes.Buffer
	at := time.Now()
	if err := printStat(&out, &statOptions{peers: true}, peersReading(500, at), peersReading(900, at.Add(2*time.Second))); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(fields(t, out.String(), "10.0.0.7"), " ")
	if want := " 200 kB/s 0 B/s 800 0 4 0 0 0 1200 of 65536 "; !strings.Contains(got, want) {
		t.Errorf("400 more frames of 1,000 bytes in 2 s: %s; want%s", got, want)
	}
	if strings.Contains(out.String(), "link:") {
		t.Errorf("the reason for the link is repeated:\n%s", &out)
	}
}

// A peer that the NIC forgot and knows again has counted from 0 on, so all counts are new.
func TestAPeerThatWasForgottenMeanwhileShowsAllItsCounts(t *testing.T) {
	at := time.Now()
	for what, grow := range map[string]func(before *vni.Peer){
		"frames in":   func(p *vni.Peer) { p.Counts[vni.PeerFramesIn] = 5 },
		"lost":        func(p *vni.Peer) { p.Counts[vni.PeerLostPath] = 1 },
		"round trips": func(p *vni.Peer) { p.RTT.Count = 901 },
		"sum":         func(p *vni.Peer) { p.RTT.Sum *= 3 },
		"a bucket":    func(p *vni.Peer) { p.RTT.Buckets[3]++ },
	} {
		last, now := peersReading(500, at), peersReading(900, at.Add(time.Second))
		grow(&last.peers[0])
		if got := peersSince(last, now); got[0] != now.peers[0] {
			t.Errorf("%s: the growth is %v, with %d round trips; want all counts, %v, and 900", what, got[0].Counts, got[0].RTT.Count, now.peers[0].Counts)
		}
	}
	last, now := peersReading(500, at), peersReading(900, at.Add(time.Second))
	if got := peersSince(last, now); got[0].Counts[vni.PeerFramesOut] != 400 || got[0].RTT.Count != 400 {
		t.Errorf("a peer that stayed known sent %d frames, with %d round trips; want 400 each", got[0].Counts[vni.PeerFramesOut], got[0].RTT.Count)
	}
}

func TestPeersInJSONHaveEveryCounter(t *testing.T) {
	var out bytes.Buffer
	if err := printStat(&out, &statOptions{peers: true, json: true}, nil, peersReading(500, time.Now())); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Peers []peerJSON `json:"peers"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Peers) != 2 {
		t.Fatalf("%v: %s", err, &out)
	}
	p := got.Peers[0]
	if len(p.Counters) != len(vni.PeerCounters()) || p.Counters["lost_fast"] != 5 || p.Path != "narrow" || *p.HeardAgo != int64(time.Second) {
		t.Errorf("got %+v", p)
	}
	if r := p.RTT; r.Count != 500 || r.Sum != 500*uint64(time.Millisecond) || r.Mean != int64(time.Millisecond) || r.P99 > int64(time.Millisecond) || r.P50 < int64(900*time.Microsecond) {
		t.Errorf("round trips %+v; want 500 of 1 ms", r)
	}
	if q := got.Peers[1]; q.HeardAgo != nil || q.OpenedAgo != nil || q.NIC != 0 {
		t.Errorf("a peer that never answered: %+v", q)
	}
}

func TestTrafficHasAUnitThatSuitsIt(t *testing.T) {
	for _, c := range []struct {
		bytes uint64
		over  time.Duration
		want  string
	}{{0, 0, "0 B"}, {9999, 0, "9999 B"}, {123456, 0, "123 kB"}, {20e6, time.Second / 2, "40 MB/s"}, {1 << 62, 0, "4612 PB"}} {
		if got := trafficText(c.bytes, c.over); got != c.want {
			t.Errorf("%d bytes over %v: %q; want %q", c.bytes, c.over, got, c.want)
		}
	}
}

func TestPeersThatCannotBePrintedEndTheSeries(t *testing.T) {
	for _, o := range []*statOptions{{peers: true}, {peers: true, json: true}} {
		if err := printStat(cannotWrite{syscall.ENOSPC}, o, nil, peersReading(1, time.Now())); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a reading that could not be printed, json %v: %v", o.json, err)
		}
	}
}
