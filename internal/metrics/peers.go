package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Peer is another NIC, as the NIC last saw it.
type Peer struct {
	ID         string // empty if it has never answered
	Address    string
	Up         bool
	Frame      int  // bytes of the longest frame known to reach it; 0 if it is down
	WholeFrame int  // bytes of the longest frame that both NICs take; 0 if it is down
	Narrow     bool // its path carries less than both NICs take
}

// peerMetrics lists the metrics of each of the worst peers.
var peerMetrics = []struct {
	name, help string
	value      func(p *Peer) float64
}{
	{"weft_peer_up", "1 if a session with the peer is open, else 0; for the worst peers",
		func(p *Peer) float64 { return oneIf(p.Up) }},
	{"weft_peer_frame_bytes", "Longest frame that is known to reach the peer, 0 if it is down; for the worst peers",
		func(p *Peer) float64 { return float64(p.Frame) }},
	{"weft_peer_whole_frame_bytes", "Longest frame that both NICs take, 0 if the peer is down; for the worst peers",
		func(p *Peer) float64 { return float64(p.WholeFrame) }},
}

// peerDescs holds the descriptions of all metrics about peers.
type peerDescs struct {
	count, narrow *prometheus.Desc
	each          []*prometheus.Desc // as in peerMetrics
}

func newPeerDescs() peerDescs {
	d := peerDescs{
		count: prometheus.NewDesc("weft_peers", "Other NICs that the NIC knows, by state",
			[]string{linkLabel, "state"}, nil),
		narrow: prometheus.NewDesc("weft_peers_narrow",
			"Peers whose path carries shorter frames than both NICs take", []string{linkLabel}, nil),
	}
	for _, m := range peerMetrics {
		d.each = append(d.each, prometheus.NewDesc(m.name, m.help, []string{linkLabel, "peer", "address"}, nil))
	}
	return d
}

func (d *peerDescs) describe(out chan<- *prometheus.Desc) {
	out <- d.count
	out <- d.narrow
	for _, e := range d.each {
		out <- e
	}
}

// collect sends the sums over all peers of a NIC, and the metrics of the worst ones.
func (d *peerDescs) collect(n *NIC, most int, out chan<- prometheus.Metric) {
	all := n.Peers()
	up, narrow := 0, 0
	for i := range all {
		if all[i].Up {
			up++
		}
		if all[i].Narrow {
			narrow++
		}
	}
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	gauge(d.count, float64(up), n.Link, "up")
	gauge(d.count, float64(len(all)-up), n.Link, "down")
	gauge(d.narrow, float64(narrow), n.Link)
	for _, p := range worst(all, most) {
		for k, m := range peerMetrics {
			gauge(d.each[k], m.value(&p), n.Link, p.ID, p.Address)
		}
	}
}

// worst returns at most most peers: first those that are down, then those with the narrowest paths.
// It sorts equal peers by id and address, so it returns the same peers at each scrape. No two of
// the result have the same labels.
func worst(all []Peer, most int) []Peer {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b Peer) int {
		return cmp.Or(cmp.Compare(oneIf(a.Up), oneIf(b.Up)), cmp.Compare(oneIf(b.Narrow), oneIf(a.Narrow)),
			narrowness(a, b), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Address, b.Address))
	})
	sorted = slices.CompactFunc(sorted, func(a, b Peer) bool { return a.ID == b.ID && a.Address == b.Address })
	return sorted[:min(most, len(sorted))]
}

// narrowness compares the frames of two peers whose paths are narrow.
func narrowness(a, b Peer) int {
	if !a.Narrow {
		return 0
	}
	return cmp.Compare(a.Frame, b.Frame)
}
