package main

import (
	"os"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/bench/limit"
	"github.com/weftnet/weft/internal/testbed"
)

func TestEachLimitHasItsFigure(t *testing.T) {
	fields := map[limit.Kind]string{limit.Latency: "p50_ns", limit.Rate: "messages_per_s", limit.Bandwidth: "bytes_per_s"}
	args := []string{"limits", "--time", "5ms", "--rounds", "1", "--json"}
	if testing.Short() {
		args = append(args, "--only", "line,stream,udp,xdp,chain,chain-block,chain-shm")
	}
	bed := testbed.Check()
	if bed != nil && testing.Short() {
		t.Skip(bed)
	}
	measured := map[string]int{}
	for _, r := range rows(t, args...) {
		l, ok := limit.Find(r["limit"].(string))
		if n, _ := r[fields[l.Kind]].(float64); !ok || n <= 0 || len(r) != 4 || r["sealed"] != l.Sealed || r["size"].(float64) <= 0 {
			t.Errorf("%v; expected a limit, whether it is sealed, its size, and one figure: %s", r, fields[l.Kind])
		}
		measured[l.Name]++
	}
	for _, l := range limit.All() {
		if n := measured[l.Name]; n != len(l.Sizes) && !testing.Short() && !(l.Veth && bed != nil) {
			t.Errorf("%d rows for %s, want %d", n, l.Name, len(l.Sizes))
		}
	}
}

func TestWhyALimitCannotBeHadIsSaid(t *testing.T) {
	t.Setenv(asWeft, "1")
	g, err := limit.NewGround(os.Args[0], testbed.DefaultMTU, false)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for name, want := range map[string]string{
		"xdp":  "limit: xdp: role 1: limit unavailable: AF_XDP needs an interface: there is none on loopback",
		"fast": `limit: "fast": no such limit`,
	} {
		if _, err := g.Measure(t.Context(), name, 64, time.Millisecond); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", name, err, want)
		}
	}
}
