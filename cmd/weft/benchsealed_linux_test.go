package main

import (
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/testbed"
)

func TestBenchMeasuresPlainAndSealedLinksInOneRun(t *testing.T) {
	for _, kind := range []string{"latency", "rate", "bandwidth", "datagrams"} {
		all := rows(t, kind, "--sealed", "on,off", "--size", "64", "--time", "40ms", "--rounds", "2", "--json")
		if len(all) != 2 || all[0]["sealed"] != false || all[1]["sealed"] != true {
			t.Errorf("%s: %v; expected a row of plain links and one of sealed links", kind, all)
			continue
		}
		if n, _ := all[1]["plain_ratio"].(float64); n <= 0 {
			t.Errorf("%s: %v; expected the ratio to plain links", kind, all[1])
		}
		if _, there := all[0]["plain_ratio"]; there {
			t.Errorf("%s: %v; expected no ratio of plain links to plain links", kind, all[0])
		}
		if _, there := all[1]["added_p50_ns"]; there != (kind == "latency") {
			t.Errorf("%s: %v; expected the round trip added of latency alone", kind, all[1])
		}
	}
}

func TestBenchComparesSealedLinksWithALimitThatSeals(t *testing.T) {
	if err := testbed.Check(); err != nil {
		t.Skip(err)
	}
	limits := map[string]string{"latency": "udp", "rate": "udp-rate", "bandwidth": "udp-bandwidth"}
	if testing.Short() {
		limits = map[string]string{"latency": "udp"}
	}
	for kind, limit := range limits {
		all := rows(t, kind, "--sealed", "on,off", "--against", "limit", "--testbed", "veth", "--time", "40ms", "--rounds", "2", "--json")
		if len(all) != 2 || all[0]["limit"] != limit || all[1]["limit"] != limit+"-sealed" {
			t.Errorf("%s: %v; expected the limits %s and %s-sealed", kind, all, limit, limit)
		}
	}
}

func TestBenchOfSealedLinksMeasuresEveryKindThatHasLinks(t *testing.T) {
	for i, args := range [][]string{
		{"stream", "--size", "64", "--time", "60ms"}, {"latency", "--link", "shm", "--time", "20ms"},
		{"barrier", "--members", "2", "--time", "20ms"}, {"broadcast", "--members", "2", "--time", "20ms"},
		{"incast", "--senders", "2", "--size", "64KiB", "--time", "100ms"}, {"pagein", "--time", "20ms"}, {"pages"},
		{"latency", "--deployment", "daemon", "--time", "20ms"}, {"fairness", "--processes", "2", "--programs", "1", "--time", "100ms"}, {"idle", "--processes", "1", "--time", "50ms"},
	} {
		if testing.Short() && i%3 != 0 { // the race detector makes each several times as slow
			continue
		}
		all := rows(t, append(args, "--sealed", "on", "--json")...)
		for _, r := range all {
			if r["sealed"] != true {
				t.Errorf("%v: %v; expected sealed", args, r)
			}
		}
		if len(all) == 0 {
			t.Errorf("%v: no row", args)
		}
	}
}

func TestBenchRefusesToSealWhereThereIsNoLink(t *testing.T) {
	for args, want := range map[string]string{
		"latency --link mem --sealed on":              "--sealed on with --link mem: expected shm, udp or xdp",
		"latency --deployment shared --sealed on":     "--sealed on with --deployment shared: expected embedded or daemon",
		"latency --sealed on,off 10.0.0.1":            "--sealed on,off with a host (10.0.0.1:7710): expected on or off",
		"latency --sealed on,off --serve":             "--serve with --sealed on,off: expected the client's choice, on or off",
		"latency --sealed on,off --hdr /x":            "--hdr with --sealed on,off: expected on or off",
		"rate --sealed on,off --time 1ms --rounds 2":  "--time 1ms with --rounds 2: expected at least",
		"latency --sealed maybe":                      "--sealed",
		"mem serve --name mem/0 --size 16KiB --plain": "--plain without --listen",
	} {
		words := strings.Fields(args)
		if words[0] != "mem" {
			words = append([]string{"bench"}, words...)
		}
		status, _, stderr := weft(words...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("weft %s: status %d, %q; want %d and %q", args, status, stderr, exitUsage, want)
		}
	}
}
