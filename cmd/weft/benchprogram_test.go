package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/testbed"
)

func TestBenchProgramMeasuresAllSeriesInOneRun(t *testing.T) { // PANIC-40 to PANIC-44
	where := []string{"--testbed", "veth"}
	if err := testbed.Check(); err != nil {
		t.Log(err)
		where = []string{"--testbed", "loopback"}
	}
	all := rows(t, append([]string{"program", "--size", "0,1000", "--wait", "all", "--against", "limit", "--time", "20ms", "--rounds", "2", "--json"}, where...)...)
	if len(all) != 4*2*2 {
		t.Fatalf("%d rows: %v; expected four series, two sizes, two ways to wait", len(all), all)
	}
	var series []string
	for _, r := range all {
		p50, p99, lost := r["p50_ns"].(float64), r["p99_ns"].(float64), r["lost"].(float64)
		if r["iterations"].(float64) < 2 || p50 < 100 || p99 < p50 || lost != 0 {
			t.Errorf("%v", r)
		}
		limit, ok := r["limit_p50_ns"].(float64)
		if spins := r["wait"] == "spin"; ok != spins || spins && (limit <= 0 || r["ratio"].(float64) <= 0) {
			t.Errorf("beside its limit: %v", r)
		}
		series = append(series, r["series"].(string))
	}
	if got, want := slices.Compact(series)[:4], []string{"mcp2mcp", "getdeliver", "api", "app2app"}; !slices.Equal(got, want) {
		t.Errorf("the series are %v; expected %v", got, want)
	}
}

func TestBenchProgramInternalTellsTheParts(t *testing.T) { // PANIC-46
	took := map[string]float64{}
	for _, r := range rows(t, "program", "--internal", "--size", "512", "--time", "5ms", "--json") {
		took[r["internal"].(string)] = r["took_ns"].(float64)
		if r["allocs"].(float64) != 0 {
			t.Errorf("it allocates: %v", r)
		}
	}
	for _, part := range []string{"dispatch", "handler", "interpreter", "deliver", "copy"} {
		if took[part] <= 0 {
			t.Errorf("%s took %v ns", part, took[part])
		}
	}
}

func TestBenchProgramStopsRunaways(t *testing.T) { // PANIC-5
	all := rows(t, "program", "--runaways", "--time", "300ms", "--rounds", "3", "--json")
	var names []string
	for _, r := range all {
		names = append(names, r["runaway"].(string))
		if r["stopped"].(float64) < 1 || r["messages_per_s"].(float64) <= 0 || r["beside_messages_per_s"].(float64) <= 0 || r["ratio"].(float64) <= 0 {
			t.Errorf("%v", r)
		}
	}
	if want := []string{"loop", "recursion", "flood"}; !slices.Equal(names, want) {
		t.Errorf("beside %v; expected %v", names, want)
	}
}

func TestBenchProgramSaysWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		"--series api,app":                    `expected some of mcp2mcp, getdeliver, api, app2app, or all`,
		"--size 8193":                         `expected numbers of bytes from 0 to 8192`,
		"--resident driver":                   `expected some of vm, xdp, or all`,
		"--wait never":                        `expected some of spin, sleep, or all`,
		"--testbed loopback --link xdp":       "--link xdp on this host: expected --testbed veth",
		"--resident xdp --testbed loopback":   "--resident xdp with --link udp: expected --link xdp",
		"--resident xdp --size 4096":          "--resident xdp with --size 4096: expected at most 1",
		"--internal --series api":             "--internal or --runaways with --series",
		"--time 1ms --rounds 5":               "expected at least 25ms",
		"--deployment shared":                 "expected one of embedded, daemon",
		"here":                                "an argument (here): expected none",
		"--against limits --testbed loopback": "expected one of limit",
	} {
		status, stdout, stderr := weft(append([]string{"bench", "program"}, strings.Fields(line)...)...)
		if status != exitUsage || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%s: status %d, standard error %q; want %d and %q", line, status, stderr, exitUsage, want)
		}
	}
}

func TestBenchProgramMeasuresAProgramInTheDriver(t *testing.T) {
	if err := testbed.Check(); err != nil {
		t.Skip(err)
	}
	all := rows(t, "program", "--series", "mcp2mcp", "--resident", "all", "--against", "limit", "--time", "20ms", "--rounds", "2", "--json")
	if len(all) != 2 || all[1]["resident"] != "xdp" || all[1]["limit"] != "xdptx" || all[1]["iterations"].(float64) < 100 || all[1]["ratio"].(float64) <= 0 {
		t.Errorf("rows %v; expected one of the virtual machine and one of the driver", all)
	}
}
