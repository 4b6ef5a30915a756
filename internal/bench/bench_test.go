package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// served opens a client's process with a server within its reach.
func served(t *testing.T) *weft.Process {
	t.Helper()
	var down undo
	t.Cleanup(func() {
		if err := down.all(); err != nil {
			t.Error(err)
		}
	})
	p, err := down.pair(t.Context(), &Options{Kind: KindLatency, Link: LinkMem, Deployment: DeployedEmbedded})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestFiguresFitTogether(t *testing.T) {
	c := NewClient(served(t), ServerName)
	l, n, err := c.Latency(within(t), 64, 20*time.Millisecond)
	if err != nil || n < 1 || l.P50 <= 0 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.P999 {
		t.Errorf("%d round trips, %+v, %v", n, l, err)
	}
	const size = 100_000
	s, err := c.Stream(within(t), size, 20*time.Millisecond)
	if err != nil || s.Messages < int64(windowFor(size)) || s.Bytes != size*s.Messages || s.Time < 20*time.Millisecond {
		t.Errorf("%+v, %v", s, err)
	}
	if got := s.BytesPerSecond() / s.MessagesPerSecond(); got < size-1 || got > size+1 {
		t.Errorf("%v bytes a message, want %d", got, size)
	}
}

// Every datagram that arrives over a switch in memory is one that was sent, and the server is
// ready for the next measurement.
func TestDatagramsThatArriveAreCounted(t *testing.T) {
	c := NewClient(served(t), ServerName)
	for _, size := range []int{0, 64, weft.MaxDatagram} {
		s, err := c.datagrams(within(t), size, 20*time.Millisecond)
		if err != nil || s.Iterations < 1 || s.Rate <= 0 || s.Lost < 0 || s.Lost >= 1 {
			t.Errorf("of %d bytes: %+v, %v", size, s, err)
		}
	}
	if _, n, err := c.Latency(within(t), 64, time.Millisecond); err != nil || n < 1 {
		t.Errorf("after that: %d round trips, %v", n, err)
	}
}

func TestEmptyMessagesAreMeasuredToo(t *testing.T) {
	c := NewClient(served(t), ServerName)
	if _, _, err := c.Latency(within(t), 0, time.Millisecond); err != nil {
		t.Error(err)
	}
	if s, err := c.Stream(within(t), 0, time.Millisecond); err != nil || s.Messages == 0 || s.Bytes != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestTheServerRefusesWhatItCannotDo(t *testing.T) {
	c := NewClient(served(t), ServerName)
	for _, pl := range []plan{{Size: MaxSize + 1, Window: 1}, {Size: -1, Window: 1}, {Size: 1}, {Size: 1, Window: 1000}} {
		_, _, err := c.measure(within(t), pl, nil)
		if err == nil || !strings.Contains(err.Error(), "weft-bench/0 says: plan: ") {
			t.Errorf("%+v: %v", pl, err)
		}
	}
	if _, _, err := c.Latency(within(t), 64, time.Millisecond); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func TestTheServerOutlivesItsClients(t *testing.T) {
	p := served(t)
	for name, misbehave := range map[string]func(p *weft.Process) error{
		"dies":       func(p *weft.Process) error { return p.Close() },
		"is unruly":  func(p *weft.Process) error { return p.Send(t.Context(), ServerName, tagData, make([]byte, 65)) },
		"asks oddly": func(p *weft.Process) error { return p.Send(t.Context(), ServerName, tagPlan, []byte("?")) },
	} {
		for _, echo := range []bool{true, false} {
			other, err := p.NIC().Attach(t.Context(), weft.Name{App: "other"})
			if err != nil {
				t.Fatal(err)
			}
			var ready outcome
			if err := NewClient(other, ServerName).call(within(t), tagPlan, plan{Echo: echo, Size: 64, Window: 4}, &ready); err != nil {
				t.Fatalf("a client that %s: %v", name, err)
			}
			if err := errors.Join(misbehave(other), other.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := NewClient(p, ServerName).Stream(within(t), 64, time.Millisecond); err != nil {
				t.Errorf("after a client that %s: %v", name, err)
			}
		}
	}
}

func TestWhatHasNotArrivedIsNotCounted(t *testing.T) {
	c := NewClient(served(t), ServerName)
	_, err := c.stream(within(t), plan{Size: 64, Window: 4}, make([]byte, 64), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	// The same with one more message than the server is told.
	done, _, err := c.measure(within(t), plan{Size: 64, Window: 4}, func(ctx context.Context) error {
		return errors.Join(c.p.Send(ctx, ServerName, tagData, make([]byte, 64)), c.p.Send(ctx, ServerName, tagData, make([]byte, 64)))
	})
	if err != nil || done.Messages != 2 {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestSizesAreWrittenInBytesOrUnits(t *testing.T) {
	for s, want := range map[string]int{"0": 0, "64": 64, "4KiB": 4096, "1MiB": 1 << 20, "64MiB": 64 << 20, "67108864": 64 << 20} {
		if got, ok := ParseSizes(s); !ok || !slices.Equal(got, []int{want}) {
			t.Errorf("ParseSizes(%q) = %v, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "-1", "KiB", "1.5KiB", "64 KiB", "65MiB", "67108865", "4294967295MiB", "1GiB", "ALL"} {
		if got, ok := ParseSizes(s); ok {
			t.Errorf("ParseSizes(%q) = %v, want an error", s, got)
		}
	}
	if got, ok := ParseSizes("all"); !ok || !slices.IsSorted(got) || len(got) < 10 {
		t.Errorf("all is %v", got)
	}
}

func TestARowHasTheFieldsOfItsBench(t *testing.T) {
	common := Row{Bench: "b", Link: "l", Deployment: "d", Size: 1, Iterations: 2}
	const head = `{"bench":"b","sealed":false,"link":"l","deployment":"d","size":1,"iterations":2,`
	latency, rate, bandwidth, datagrams := common, common, common, common
	latency.Latency = &Latency{3, 4, 5, 6}
	rate.Rate = &Rate{7}
	bandwidth.Bandwidth = &Bandwidth{8}
	datagrams.Rate, datagrams.Lost = &Rate{9}, &Lost{0.5}
	for want, r := range map[string]Row{
		head + `"p50_ns":3,"p90_ns":4,"p99_ns":5,"p999_ns":6}`: latency,
		head + `"messages_per_s":7}`:                           rate,
		head + `"bytes_per_s":8}`:                              bandwidth,
		head + `"messages_per_s":9,"lost":0.5}`:                datagrams,
	} {
		if got, err := json.Marshal(r); err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}

func TestColumnsStandBelowTheirNames(t *testing.T) {
	for _, kind := range Kinds() {
		var out bytes.Buffer
		o := Options{Kind: kind.Name, Link: LinkUDP, Deployment: DeployedDaemon, Time: time.Second}
		out.WriteString(o.Head())
		r := Row{Size: 64, Iterations: 1000}
		h := newHistogram()
		_ = h.RecordValue(1000)
		kind.fill(&r, []sample{{Times: h, Rate: 5e6, Bandwidth: 6e9, Lost: 0.25, Streams: &Streams{StreamP50: 9000, StreamBytes: 1e9}}})
		out.WriteString(Lines(kind.Name)(r))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 4 || len([]rune(lines[2])) != len([]rune(lines[3])) {
			t.Errorf("%s:\n%s", kind.Name, &out)
		}
		if want := "link udp, NICs in daemons, two processes on this host, 1s for each size"; !strings.Contains(lines[1], want) {
			t.Errorf("%q does not say %q", lines[1], want)
		}
	}
}

// The table once gave both sides the link of this side.
func TestTheTableSaysWhichLinkTheOtherSideHas(t *testing.T) {
	for _, kind := range Kinds() {
		var out strings.Builder
		o := Options{Kind: kind.Name, Link: LinkXDP, Deployment: DeployedEmbedded, Host: "10.0.0.1:7710", Time: time.Second}
		out.WriteString(o.Head())
		r := Row{Far: &Setup{Link: LinkUDP, Deployment: DeployedEmbedded}}
		kind.fill(&r, []sample{{Times: newHistogram(), Streams: &Streams{}}})
		out.WriteString(Lines(kind.Name)(r))
		for _, want := range []string{"\n# here link xdp, NIC embedded; the other side is 10.0.0.1:7710, ", "\n# the other side says: link udp, NIC embedded\n"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s lacks %q:\n%s", kind.Name, want, &out)
			}
		}
	}
}

// With daemons, a round trip is compared with a chain of relays. One-way figures are compared
// with a limit that has no relays.
func TestTheTableSaysIfTheLimitHasNoDaemons(t *testing.T) {
	for _, kind := range Kinds() {
		for _, deployment := range Deployments() {
			o := Options{Kind: kind.Name, Link: LinkUDP, Deployment: deployment, Time: time.Second, Against: true, Rounds: 9}
			head := o.Head()
			want := "medians of 9 rounds in turns with the limit\n"
			if deployment != DeployedEmbedded && !kind.Trips {
				want = "medians of 9 rounds in turns with the limit without daemons\n"
			}
			if !strings.Contains(head, want) {
				t.Errorf("%s, %s: %q does not say %q", kind.Name, deployment, head, want)
			}
		}
	}
}

func TestJainIsOneForEqualSharesAndItsLeastForOneThatHasAll(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{{[]float64{5, 5, 5, 5}, 1}, {[]float64{0, 0, 8, 0}, 0.25}, {[]float64{1, 3}, 0.8}, {[]float64{0, 0}, 0}} {
		if got := Jain(c.shares); got != c.want {
			t.Errorf("Jain(%v) = %v, want %v", c.shares, got, c.want)
		}
	}
}
