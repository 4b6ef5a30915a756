package metrics

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

func TestTheNameOfAMetricEndsInItsUnit(t *testing.T) {
	for _, c := range []struct {
		of   vni.Description
		want string
	}{
		{vni.RelSends.Describe(), "weft_rel_sends_total"},
		{vni.RelBytesSent.Describe(), "weft_rel_sent_bytes_total"},
		{vni.NICPutBytes.Describe(), "weft_nic_put_bytes_total"},
		{vni.NICCopiedOut.Describe(), "weft_nic_copied_out_bytes_total"},
		{vni.NICStagedBytesNow.Describe(), "weft_nic_staged_bytes"},
		{vni.RelPeersNow.Describe(), "weft_rel_peers"},
		{vni.DropMAC.Describe(), `weft_frames_dropped_total{cause="mac"}`},
		{vni.RelResendsTail.Describe(), `weft_segments_retransmitted_total{cause="tail"}`},
		{vni.Description{Name: "nic_stalled_ns", Unit: vni.Nanoseconds}, "weft_nic_stalled_seconds_total"},
		{vni.Description{Name: "drop_new_cause"}, `weft_frames_dropped_total{cause="new_cause"}`},
	} {
		if got := MetricOf(c.of).String(); got != c.want {
			t.Errorf("%s is %s; want %s", c.of.Name, got, c.want)
		}
	}
}

func TestEachCounterIsAMetricOfItsOwn(t *testing.T) {
	good := regexp.MustCompile(`^weft_[a-z]+(_[a-z]+)+$`)
	seen := make(map[string]string)
	for _, d := range vni.Descriptions() {
		m := MetricOf(d)
		if other := seen[m.String()]; other != "" || !good.MatchString(m.Name) {
			t.Errorf("%s is %v, which is odd or also that of %q", d.Name, m, other)
		}
		seen[m.String()] = d.Name
	}
}

// A counter that is added to the list needs no change here.
func TestANewCounterBecomesAMetricByItself(t *testing.T) {
	d := daemonOf(nicOf(t, "udp", 0))
	d.NICs[0].Page.Store(0, 1_500_000_000)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newCollector(d, newHealth(d), []vni.Description{
		{Name: "nic_stalled_ns", Unit: vni.Nanoseconds, Help: "Time that sends waited"}}))
	if got, help := gathered(t, r, "weft_nic_stalled_seconds_total"); got != 1.5 || help != "Time that sends waited" {
		t.Errorf("%v s, help %q; want 1.5 s with the help of the table", got, help)
	}
}

// gathered returns the value and the help of a metric with one series.
func gathered(t *testing.T, r prometheus.Gatherer, name string) (value float64, help string) {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name && len(f.Metric) == 1 {
			return f.Metric[0].GetCounter().GetValue() + f.Metric[0].GetGauge().GetValue(), f.GetHelp()
		}
	}
	t.Fatalf("there is no metric %s with one series", name)
	return 0, ""
}

// A strict registry refuses metrics without a description, and duplicate metrics.
func TestEveryMetricIsDescribed(t *testing.T) {
	d := daemonOf(nicOf(t, "fast0", 30), nicOf(t, "slow0", 30))
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newCollector(d, newHealth(d), vni.Descriptions()), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	v := newVisits()
	if err := v.register(r); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Gather(); err != nil {
		t.Error(err)
	}
}

func TestAScrapeShowsTheCountersPageOfEachLink(t *testing.T) {
	a, b := nicOf(t, "fast0", 0), nicOf(t, "slow0", 0)
	a.Page.Store(vni.RelSends, 17)
	b.Page.Store(vni.RelSends, 18)
	a.Page.Store(vni.DropMAC, 19)
	s := serve(t, loopback(), daemonOf(a, b))
	for series, want := range map[string]string{
		`weft_rel_sends_total{link="fast0"}`:                      "17",
		`weft_rel_sends_total{link="slow0"}`:                      "18",
		`weft_frames_dropped_total{cause="mac",link="fast0"}`:     "19",
		`weft_nic_alive{link="slow0"}`:                            "1",
		`weft_nic_ready{link="fast0"}`:                            "1",
		`weft_nic_processes_limit{link="fast0"}`:                  "1024",
		`weft_metrics_requests_total{code="403",page="/metrics"}`: "0",
	} {
		if got := s.value(series); got != want {
			t.Errorf("%s is %q; want %s", series, got, want)
		}
	}
	a.Page.Store(vni.RelSends, 20)
	if got := s.value(`weft_rel_sends_total{link="fast0"}`); got != "20" {
		t.Errorf("the next scrape shows %s; want 20", got)
	}
}

// The bounds hold for whole daemons, Go's own metrics included.
func TestALargeFabricFillsNoDatabase(t *testing.T) {
	n := nicOf(t, strings.Repeat("l", 32), 1024)
	fill(&n)
	n.Page.Store(vni.NICProcessesNow, 128)
	s := serve(t, loopback(), daemonOf(n))
	s.metrics()            // the second scrape also counts the first
	s.get("/debug/pprof/") // refused
	s.get("/no/such/page")
	series, bytes := 0, 0
	for _, line := range s.metrics() {
		bytes += len(line) + 1
		if !strings.HasPrefix(line, "#") {
			series++
		}
	}
	t.Logf("%d series, %d bytes", series, bytes)
	if least := len(vni.Names()) + limits.WorstPeers; series < least || series > 2000 {
		t.Errorf("%d series; want %d to 2000", series, least)
	}
	if bytes > 256<<10 {
		t.Errorf("%d bytes; want at most 256 KiB", bytes)
	}
	if got := s.value(`weft_nic_processes{link="` + n.Link + `"}`); got != "128" {
		t.Errorf("%s processes; want 128", got)
	}
}

func TestTheWorstPeersAreThoseThatAreDownAndThenTheNarrowest(t *testing.T) {
	all := []Peer{
		{ID: "7", Address: "g", Up: true, Frame: 9000, WholeFrame: 9000},
		{ID: "6", Address: "f", Up: true, Frame: 1400, WholeFrame: 9000, Narrow: true},
		{ID: "5", Address: "e", Up: true, Frame: 1200, WholeFrame: 9000, Narrow: true},
		{ID: "", Address: "d"}, {ID: "", Address: "d"}, {ID: "", Address: "c"}, {ID: "4", Address: "b"},
		{ID: "3", Address: "a", Up: true, Frame: 1500, WholeFrame: 1500},
	}
	got := ""
	for _, p := range worst(all, 6) {
		got += p.Address
	}
	if want := "cdbefa"; got != want { // the second d would be the same series twice
		t.Errorf("the worst are %s; want %s", got, want)
	}
	n := nicOf(t, "udp", 0)
	n.Peers = func() []Peer { return all }
	s := serve(t, loopback(), daemonOf(n))
	for series, want := range map[string]string{
		`weft_peers{link="udp",state="up"}`:                            "4",
		`weft_peers{link="udp",state="down"}`:                          "4",
		`weft_peers_narrow{link="udp"}`:                                "2",
		`weft_peer_up{address="b",link="udp",peer="4"}`:                "0",
		`weft_peer_frame_bytes{address="e",link="udp",peer="5"}`:       "1200",
		`weft_peer_whole_frame_bytes{address="e",link="udp",peer="5"}`: "9000",
	} {
		if got := s.value(series); got != want {
			t.Errorf("%s is %q; want %s", series, got, want)
		}
	}
}
