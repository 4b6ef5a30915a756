package gopeer

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// started starts a peer's server in this process and returns its address.
func started(t *testing.T, p *Peer) string {
	t.Helper()
	at, failed := make(chan string, 1), make(chan error, 1)
	go func() {
		failed <- p.serve(t.Context(), "127.0.0.1", func(addr string) error { at <- addr; return nil })
	}()
	select {
	case addr := <-at:
		return addr
	case err := <-failed:
		t.Fatalf("the server ended: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not listen")
	}
	return ""
}

func TestEveryPeerDoesEveryJobThatItTakes(t *testing.T) {
	asked := contest.Jobs{{Measure: contest.Latency, Size: 64, Time: 10 * time.Millisecond}, {Measure: contest.Latency, Size: 4096, Time: 10 * time.Millisecond},
		{Measure: contest.Rate, Size: 64, Time: 10 * time.Millisecond}, {Measure: contest.Bandwidth, Size: 1 << 20, Time: 10 * time.Millisecond},
		{Measure: contest.Bandwidth, Size: 4 << 20, Time: 10 * time.Millisecond}, {Measure: contest.Latency, Size: 64, Time: 10 * time.Millisecond}}
	for _, p := range All() {
		t.Run(p.Kind, func(t *testing.T) {
			if err := p.Available(); err != nil {
				t.Skip(err)
			}
			jobs := asked.Upto(p.Most, p.Measures...)
			var out bytes.Buffer
			if err := Measure(t.Context(), p.Kind, started(t, p), jobs, &out); err != nil {
				t.Fatal(err)
			}
			d := json.NewDecoder(&out)
			for _, j := range jobs {
				var s contest.Sample
				if err := d.Decode(&s); err != nil {
					t.Fatal(err)
				}
				if s.Measure != j.Measure || s.Size != j.Size || s.Value <= 0 {
					t.Errorf("asked for %v, told %+v", j, s)
				}
				if (s.Steps.Total() > 0) != (j.Measure == contest.Latency) {
					t.Errorf("%v: %d round trips in the distribution", j, s.Steps.Total())
				}
			}
			if d.More() {
				t.Error("told more than was asked")
			}
		})
	}
}

func TestAStreamCountsWhatArrivesAndForgetsItAfterwards(t *testing.T) {
	p, err := find("tcp")
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.dial(t.Context(), started(t, p))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{1, 5, 17} {
		sent := int64(0)
		got, err := c.pour(make([]byte, 100), func() bool { sent++; return sent < want })
		if err != nil || got != want {
			t.Errorf("poured %d messages, %d arrived, error %v", want, got, err)
		}
	}
}

func TestAnUnknownPeerIsRefused(t *testing.T) {
	if err := Serve(context.Background(), "pigeon", "127.0.0.1", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `"pigeon"`) {
		t.Errorf("error %v", err)
	}
}
