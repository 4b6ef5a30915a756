package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// linkLabel is the label with the name of a NIC's link.
const linkLabel = "link"

// source is a counter, and the metric that it becomes.
type source struct {
	counter vni.Counter
	metric  Metric
	desc    *prometheus.Desc
	kind    prometheus.ValueType
}

// collector makes the metrics of a daemon at each scrape. It holds no values.
type collector struct {
	daemon  *Daemon
	health  *health
	sources []source
	perNIC  []nicMetric
	peers   peerDescs
}

// nicMetric is a metric of a NIC that is not a counter of the page.
type nicMetric struct {
	name, help string
	value      func(n *NIC, v *verdict) float64
	desc       *prometheus.Desc
}

// nicMetrics lists them.
func nicMetrics() []nicMetric {
	return []nicMetric{
		{name: "weft_nic_start_time_seconds", help: "Start of the NIC, in seconds since 1970",
			value: func(n *NIC, _ *verdict) float64 { return float64(n.Started.UnixNano()) / 1e9 }},
		{name: "weft_nic_processes_limit", help: "Processes that may be attached at the same time",
			value: func(n *NIC, _ *verdict) float64 { return float64(n.MostProcesses) }},
		{name: "weft_nic_alive", help: "1 if the loop of the NIC makes progress, as in /healthz, else 0",
			value: func(_ *NIC, v *verdict) float64 { return oneIf(v.alive == nil) }},
		{name: "weft_nic_ready", help: "1 if the NIC accepts processes and its link is up, as in /readyz, else 0",
			value: func(_ *NIC, v *verdict) float64 { return oneIf(v.ready == nil) }},
	}
}

var infoDesc = prometheus.NewDesc("weft_nic_info", "The NIC of a link; the value is always 1",
	[]string{linkLabel, "nic", "address", "guard", "version", "commit"}, nil)

func oneIf(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// newCollector makes the collector for counters with these descriptions.
func newCollector(d *Daemon, h *health, counters []vni.Description) *collector {
	c := &collector{daemon: d, health: h, perNIC: nicMetrics(), peers: newPeerDescs()}
	for i := range c.perNIC {
		m := &c.perNIC[i]
		m.desc = prometheus.NewDesc(m.name, m.help, []string{linkLabel}, nil)
	}
	descs := make(map[string]*prometheus.Desc)
	for i, description := range counters {
		m := MetricOf(description)
		s := source{counter: vni.Counter(i), metric: m, kind: prometheus.CounterValue}
		if m.Level {
			s.kind = prometheus.GaugeValue
		}
		if s.desc = descs[m.Name]; s.desc == nil {
			labels := []string{linkLabel}
			if m.Cause != "" {
				labels = append(labels, causeLabel)
			}
			s.desc = prometheus.NewDesc(m.Name, m.Help, labels, nil)
			descs[m.Name] = s.desc
		}
		c.sources = append(c.sources, s)
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	var last *prometheus.Desc
	for _, s := range c.sources {
		if s.desc != last {
			out <- s.desc
		}
		last = s.desc
	}
	for _, m := range c.perNIC {
		out <- m.desc
	}
	out <- infoDesc
	c.peers.describe(out)
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) {
	verdicts := c.health.look()
	for i := range c.daemon.NICs {
		n := &c.daemon.NICs[i]
		out <- prometheus.MustNewConstMetric(infoDesc, prometheus.GaugeValue, 1,
			n.Link, n.ID, n.Address, n.Guard, n.Version, n.Commit)
		for _, m := range c.perNIC {
			out <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.value(n, &verdicts[i]), n.Link)
		}
		c.counters(n, out)
		c.peers.collect(n, limits.WorstPeers, out)
	}
}

// counters reads the page of a NIC.
func (c *collector) counters(n *NIC, out chan<- prometheus.Metric) {
	for _, s := range c.sources {
		v := float64(n.Page.Load(s.counter)) * s.metric.Scale
		if s.metric.Cause != "" {
			out <- prometheus.MustNewConstMetric(s.desc, s.kind, v, n.Link, s.metric.Cause)
			continue
		}
		out <- prometheus.MustNewConstMetric(s.desc, s.kind, v, n.Link)
	}
}
