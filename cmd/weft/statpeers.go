package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"text/tabwriter"
	"time"

	"github.com/weftnet/weft/internal/histogram"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// readPeers returns the rows of a table. It leaves out a row that the NIC changes during each try.
func readPeers(t vni.PeerTable) (all []vni.Peer) {
	for i := range t.Len() {
		var p vni.Peer
		if t.Load(i, &p) {
			all = append(all, p)
		}
	}
	return all
}

// peerKey recognises a peer in two readings. A peer that has not told its id has its address only.
type peerKey struct {
	nic  uint64
	addr netip.AddrPort
}

func keyOf(p *vni.Peer) peerKey {
	if p.NIC != 0 {
		return peerKey{nic: p.NIC}
	}
	return peerKey{addr: p.Addr}
}

// continues reports whether the NIC has kept the counts of a peer since an earlier reading. If it
// forgot the peer meanwhile, they began at 0 again.
func continues(p, earlier *vni.Peer) bool {
	for _, c := range vni.PeerCounters() {
		if c.Grows() && p.Counts[c] < earlier.Counts[c] {
			return false
		}
	}
	for i, n := range earlier.RTT.Buckets {
		if p.RTT.Buckets[i] < n {
			return false
		}
	}
	return p.RTT.Count >= earlier.RTT.Count && p.RTT.Sum >= earlier.RTT.Sum
}

// peersSince returns the peers of a reading with the growth of their counters since an earlier
// reading. Levels and instants stay as they are, and so does a peer that the earlier reading lacks.
func peersSince(last, now *reading) []vni.Peer {
	before := map[peerKey]*vni.Peer{}
	for i := range last.peers {
		before[keyOf(&last.peers[i])] = &last.peers[i]
	}
	grown := append([]vni.Peer(nil), now.peers...)
	for i := range grown {
		p := &grown[i]
		b := before[keyOf(p)]
		if b == nil || !continues(p, b) {
			continue
		}
		for _, c := range vni.PeerCounters() {
			if c.Grows() {
				p.Counts[c] -= b.Counts[c]
			}
		}
		p.RTT = p.RTT.Since(&b.RTT)
	}
	return grown
}

// printPeers prints the heading and a line for each peer. With an earlier reading, it prints the
// changes since then, and traffic as a rate.
func printPeers(out io.Writer, heading *bytes.Buffer, last, now *reading) error {
	peers, over := now.peers, time.Duration(0)
	if last != nil {
		peers, over = peersSince(last, now), now.at.Sub(last.at)
	} else {
		for _, why := range now.info.Reasons {
			fmt.Fprintf(heading, "link: %s\n", why)
		}
	}
	w := tabwriter.NewWriter(heading, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PEER\tADDRESS\tSESSION\tHEARD\tHANDSHAKE\tRTT\tP50\tP99\tSENT\tRECEIVED\t"+
		"SEGMENTS\tTIMEOUT\tFAST\tTAIL\tPATH\tDUPLICATES\tIN FLIGHT\tFRAME")
	for i := range peers {
		printPeer(w, &peers[i], now.info.Clock, over)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := out.Write(heading.Bytes())
	return err
}

// printPeer prints a line. over is the duration in which its traffic has grown; 0: since the start
// of the NIC.
func printPeer(w io.Writer, p *vni.Peer, clock int64, over time.Duration) {
	c := &p.Counts
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d of %d\t%s\n",
		nicText(registry.NICID(p.NIC)), p.Addr, sessionText(p, clock),
		agoText(c[vni.PeerHeardAt], clock), agoText(c[vni.PeerHandshakeAt], clock),
		tripText(time.Duration(c[vni.PeerRTTNow])), tripText(p.RTT.Quantile(0.5)), tripText(p.RTT.Quantile(0.99)),
		trafficText(c[vni.PeerBytesOut], over), trafficText(c[vni.PeerBytesIn], over), c[vni.PeerSends],
		c[vni.PeerLostTimeout], c[vni.PeerLostFast], c[vni.PeerLostTail], c[vni.PeerLostPath],
		c[vni.PeerDuplicates], c[vni.PeerInFlightNow], c[vni.PeerWindowNow], frameText(p))
}

// sessionText returns the age of the open session of a peer.
func sessionText(p *vni.Peer, clock int64) string {
	if p.Counts[vni.PeerUpNow] == 0 {
		return "down"
	}
	return ago(p.Counts[vni.PeerOpenedAt], clock).String()
}

// ago returns the time from an instant until clock, both on the clock of the NIC.
func ago(instant uint64, clock int64) time.Duration {
	d := max(time.Duration(clock-int64(instant)), 0)
	switch {
	case d >= time.Minute:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// agoText is ago for an instant that is 0 if there was none.
func agoText(instant uint64, clock int64) string {
	if instant == 0 {
		return "never"
	}
	return ago(instant, clock).String()
}

// tripText returns a round trip.
func tripText(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(100 * time.Nanosecond).String()
}

// trafficText returns bytes, or bytes a second, with three digits or more.
func trafficText(bytes uint64, over time.Duration) string {
	n, rate := float64(bytes), ""
	if over > 0 {
		n, rate = n/over.Seconds(), "/s"
	}
	unit := 0
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	for ; n >= 9999.5 && unit < len(units)-1; unit++ {
		n /= 1000
	}
	return fmt.Sprintf("%.0f %s%s", n, units[unit], rate)
}

// frameText returns the longest frame that reaches a peer, and how it was found.
func frameText(p *vni.Peer) string {
	frame, whole := p.Counts[vni.PeerFrameNow], p.Counts[vni.PeerWholeFrameNow]
	switch state := rel.PathState(p.Counts[vni.PeerPathNow]); {
	case frame == 0:
		return "-"
	case frame == whole:
		return fmt.Sprintf("%d (%v)", frame, state)
	default:
		return fmt.Sprintf("%d of %d (%v)", frame, whole, state)
	}
}

// peerJSON is a peer in the output of --json. Durations are in nanoseconds.
type peerJSON struct {
	NIC         registry.NICID `json:"nic,omitempty"`
	Address     string         `json:"address"`
	Incarnation uint64         `json:"incarnation,string"`
	// The time since each event; nil if it has not happened.
	OpenedAgo    *int64            `json:"opened_ago_ns,omitempty"`
	HeardAgo     *int64            `json:"heard_ago_ns,omitempty"`
	HandshakeAgo *int64            `json:"handshake_ago_ns,omitempty"`
	Path         string            `json:"path"`
	RTT          tripsJSON         `json:"rtt"`
	Counters     map[string]uint64 `json:"counters"`
}

// tripsJSON holds measured durations in nanoseconds.
type tripsJSON struct {
	Count uint64 `json:"count"`
	Sum   uint64 `json:"sum_ns"`
	Most  uint64 `json:"most_ns"`
	Mean  int64  `json:"mean_ns"`
	P50   int64  `json:"p50_ns"`
	P90   int64  `json:"p90_ns"`
	P99   int64  `json:"p99_ns"`
	P999  int64  `json:"p999_ns"`
}

func tripsOf(h *histogram.Histogram) tripsJSON {
	return tripsJSON{h.Count, h.Sum, h.Most, int64(h.Mean()), int64(h.Quantile(0.5)), int64(h.Quantile(0.9)),
		int64(h.Quantile(0.99)), int64(h.Quantile(0.999))}
}

// printPeersJSON prints one object on one line: time, NIC, link and peers.
func printPeersJSON(out io.Writer, now *reading) error {
	info := now.info
	peers := make([]peerJSON, 0, len(now.peers))
	for i := range now.peers {
		peers = append(peers, jsonOf(&now.peers[i], info.Clock))
	}
	return json.NewEncoder(out).Encode(struct {
		Time        time.Time      `json:"time"`
		NIC         registry.NICID `json:"nic"`
		Incarnation uint64         `json:"incarnation,string"`
		Link        string         `json:"link"`
		Reasons     []string       `json:"reasons,omitempty"`
		Peers       []peerJSON     `json:"peers"`
	}{now.at, registry.NICID(info.NIC), info.Incarnation, info.Link, info.Reasons, peers})
}

func jsonOf(p *vni.Peer, clock int64) peerJSON {
	since := func(c vni.PeerCounter) *int64 {
		if p.Counts[c] == 0 {
			return nil
		}
		d := max(clock-int64(p.Counts[c]), 0)
		return &d
	}
	j := peerJSON{NIC: registry.NICID(p.NIC), Address: p.Addr.String(), Incarnation: p.Incarnation,
		OpenedAgo: since(vni.PeerOpenedAt), HeardAgo: since(vni.PeerHeardAt), HandshakeAgo: since(vni.PeerHandshakeAt),
		Path: rel.PathState(p.Counts[vni.PeerPathNow]).String(), RTT: tripsOf(&p.RTT),
		Counters: map[string]uint64{}}
	for _, c := range vni.PeerCounters() {
		j.Counters[c.String()] = p.Counts[c]
	}
	return j
}
