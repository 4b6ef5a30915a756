package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// result returns a made-up result: Weft is twice as fast as UCX, and only in the rate is UCX
// slower than NATS.
func result() *contest.Result {
	r := &contest.Result{Machine: contest.Machine{CPU: "Abacus", Cores: 2, Kernel: "6.1.0-some-name"}, Commit: "abc", Date: "2026-01-02T03:04:05Z", Rounds: 5, Elsewhere: contest.Elsewhere(),
		Skipped: []contest.Skipped{{Contestant: "ZeroMQ", Why: "no gcc: apt-get install gcc"}}, Failures: []contest.Failure{{Contestant: "NATS", Ground: contest.Loss, Loss: 0.01, Round: 3, Why: "fell over"}}}
	add := func(name, ground string, latency, rate, bandwidth float64) {
		r.Rows = append(r.Rows,
			contest.Row{Contestant: name, Ground: ground, Measure: contest.Latency, Size: 64, Value: latency, P99: 3 * latency, Note: "in theory",
				Percentiles: []contest.Percentile{{P: 50, Nanoseconds: latency}, {P: 99, Nanoseconds: 3 * latency}}},
			contest.Row{Contestant: name, Ground: ground, Measure: contest.Latency, Size: 1024, Value: 2 * latency},
			contest.Row{Contestant: name, Ground: ground, Measure: contest.Rate, Size: 64, Value: rate},
			contest.Row{Contestant: name, Ground: ground, Measure: contest.Bandwidth, Size: 1 << 20, Value: bandwidth},
			contest.Row{Contestant: name, Ground: ground, Measure: contest.Bandwidth, Size: 4096, Value: bandwidth / 2})
	}
	add("Weft, shm", contest.Host, 500, 10e6, 8e9)
	add("UCX", contest.Host, 1000, 4e6, 8e9)
	add("NATS", contest.Host, 50_000, 5e6, 1e9)
	add("Weft, udp", contest.Veth, 7000, 9e6, 3e9)
	add("UCX", contest.Veth, 15_000, 3e6, 4e9)
	add("Weft, stream, udp", contest.Veth, 8000, 8e6, 2.4e9)
	add("Go net TCP", contest.Veth, 30_000, 0.1e6, 3e9)
	sealed := len(r.Rows)
	add("Go TLS over TCP", contest.Veth, 32_000, 0.08e6, 1.5e9)
	add("Weft, udp, sealed", contest.Veth, 7500, 8e6, 2.7e9)
	for i := range r.Rows[sealed:] {
		r.Rows[sealed+i].Sealed = true
	}
	r.Rows = append(r.Rows, contest.Row{Contestant: "Weft, xdp, sealed", Ground: contest.Veth, Measure: contest.Rate, Size: 64, Sealed: true, Note: "not measured: the binary is old"})
	kept := func(ground, name string, latency, reads, inOrder float64) {
		for measure, v := range map[string]float64{contest.Latency: latency, contest.Reads: reads, contest.Bandwidth: inOrder} {
			if v > 0 {
				r.Rows = append(r.Rows, contest.Row{Contestant: name, Ground: ground, Measure: measure, Size: contest.PageSize, Value: v})
			}
		}
	}
	kept(contest.Pages, "Weft, page-in, udp", 20_000, 200_000, 1.5e9)
	kept(contest.Pages, "Weft, call, udp", 16_000, 250_000, 0)
	kept(contest.Pages, "Redis", 40_000, 50_000, 0)
	kept(contest.Pages, "Redis, pipelined", 0, 100_000, 0)
	kept(contest.Pages, "memcached", 10_000, 900_000, 0)
	kept(contest.Blocks, "Weft, mem nbd, udp", 30_000, 120_000, 0)
	kept(contest.Blocks, "nbdkit", 36_000, 40_000, 0)
	for _, loss := range contest.Losses() {
		for _, who := range []struct {
			name         string
			goodput, p99 float64
		}{{"Weft, udp", 1e9 * (1 - 6*loss), 90_000}, {"quic-go", 1e9 * (1 - 12*loss), 90_000 * (1 + 1000*loss)}} {
			sealed := who.name == "quic-go"
			r.Rows = append(r.Rows, contest.Row{Contestant: who.name, Ground: contest.Loss, Loss: loss, Sealed: sealed, Measure: contest.Bandwidth, Size: 1 << 20, Value: who.goodput},
				contest.Row{Contestant: who.name, Ground: contest.Loss, Loss: loss, Sealed: sealed, Measure: contest.Latency, Size: 64, Value: 9000, P99: who.p99})
		}
	}
	return r
}

func TestThePageSaysWhoIsAheadAndByHowMuch(t *testing.T) {
	text := string(Markdown(result()))
	for _, want := range []string{
		"| P1 | one host, 64 B there and back | 0.500 µs | UCX, 1.00 µs | 2.00 | ≥ 1 | met |",
		"| P2 | one host, 64 B messages a second | 10.0 M/s | NATS, 5.00 M/s | 2.00 | ≥ 1 | met |",
		"| P2 | one host, 1 MiB one way | 8.00 GB/s | UCX, 8.00 GB/s | 1.00 | ≥ 1 | met |",
		"| P5 | two hosts, 64 B messages a second | 9.00 M/s | UCX, 3.00 M/s | 3.00 | ≥ 4 | missed by 25 % |",
		"| P6 | two hosts, 1 MiB one way | 3.00 GB/s | UCX, 4.00 GB/s | 0.75 | ≥ 1 | missed by 25 % |",
		"| P19 | a page of 4 KiB in, by that of a call, udp | 20.0 µs | Weft, call, udp, 16.0 µs | 0.80 | ≥ 0.87 | missed by 8 % |",
		"| P19 | a page of 4 KiB in, udp | 20.0 µs | Redis, 40.0 µs | 2.00 | ≥ 1.43 | met |",
		"| P19 | pages in a second, 32 under way, udp | 200 k/s | Redis, 50.0 k/s | 4.00 | ≥ 3 | met |",
		"| P19 | the same, beside 32 under way on one connection, udp | 200 k/s | Redis, pipelined, 100 k/s | 2.00 | ≥ 3 | missed by 33 % |",
		"| P19 | pages in order, by messages of 1 MiB, udp | 1.50 GB/s | Weft, udp, 3.00 GB/s | 0.50 | ≥ 0.6 | missed by 17 % |",
		"| P20 | a device's block of 4 KiB, depth 1, udp | 30.0 µs | nbdkit, 36.0 µs | 1.20 | ≥ 1 | met |",
		"| P20 | a device's blocks a second, depth 32, udp | 120 k/s | nbdkit, 40.0 k/s | 3.00 | ≥ 2 | met |",
		"| P21 | 64 B over a stream and back, by a message's, udp | 8.00 µs | Weft, udp, 7.00 µs | 0.88 | ≥ 0.769 | met |",
		"| P21 | 1 MiB over a stream, by messages of 1 MiB, udp | 2.40 GB/s | Weft, udp, 3.00 GB/s | 0.80 | ≥ 0.85 | missed by 6 % |",
		"| Redis, pipelined | — | — | 100 k/s | — |",
		"## Blocks that another host keeps",
		"| P9 | goodput with 1 % of loss, by that without | 0.94 | quic-go †, 0.88 | 1.07 | Weft ≥ 0.90 | met |",
		"| P9 | goodput with 5 % of loss, by that without | 0.70 | quic-go †, 0.40 | 1.75 | Weft ≥ 0.75 | missed by 7 % |",
		"| P10 | 64 B there and back with 1 % of loss, 99 % | 90.0 µs | quic-go †, 990 µs | 11 | Weft ≤ 500 µs | met |",
		"| **Weft, shm** | 0.500 µs | 1.50 µs | 10.0 M/s | 8.00 GB/s |",
		"| Aeron 1.53 * | 0.690 µs | — | 19.8 M/s | 4.50 GB/s |",
		"measured elsewhere on a like machine, not in this run",
		"- ZeroMQ: no gcc: apt-get install gcc.",
		"- NATS (1 % lost), round 3: fell over.",
		"- UCX: in theory (latency).",
		"Abacus, 2 cores",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(text, "Others worked on this machine") {
		t.Error("the page warns of others, and there were none")
	}
	for _, want := range []string{"- P5. ", "- P6. TCP hands", "- P9. Here the ratio"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say why a goal is missed: %q", want)
		}
	}
	crowded := result()
	crowded.Machine.Others = 1.5
	crowded.Rows[0].Value = 5000
	for _, want := range []string{"Others worked on this machine", "- P1. A side of Weft that waits"} {
		if !strings.Contains(string(Markdown(crowded)), want) {
			t.Errorf("the page of a busy machine lacks %q", want)
		}
	}
	if strings.Contains(text, "| P3 |") {
		t.Error("the page compares what was not measured")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// section returns what the page has below a heading.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("the page has no section %q", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

func TestContestantsThatEncryptHaveASectionOfTheirOwn(t *testing.T) {
	r := result()
	text := string(Markdown(r))
	closed := section(t, text, "With encryption")
	for _, want := range []string{
		"| Go TLS over TCP † | 32.0 µs | 96.0 µs | 0.080 M/s | 1.50 GB/s | Go net TCP | +2.0 µs | 0.50 |",
		"| **Weft, udp, sealed †** | 7.50 µs | 22.5 µs | 8.00 M/s | 2.70 GB/s | Weft, udp | +0.5 µs | 0.90 |",
		"| **Weft, xdp, sealed †** | — | — | — | — | Weft, xdp | — | — |",
		"| P11 | two hosts, 1 MiB one way, sealed | 2.70 GB/s | Go TLS over TCP †, 1.50 GB/s | 1.80 | ≥ 1 | met |",
		"is `weft bench … --sealed on`",
	} {
		if !strings.Contains(closed, want) {
			t.Errorf("the section lacks %q:\n%s", want, closed)
		}
	}
	if open := section(t, text, "Two hosts"); strings.Contains(open, "†") || !strings.Contains(open, "| Go net TCP |") {
		t.Errorf("the table of plain links is\n%s", open)
	}
	for _, want := range []string{"**All figures are of plain links**", "All figures of Weft here are of plain links.", "- Weft, xdp, sealed: not measured: the binary is old\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, p := range Pictures(r) {
		svg := string(p.SVG)
		if strings.HasPrefix(p.File, "sealed-") {
			if !strings.Contains(svg, "encrypted links; ") || !strings.Contains(svg, ">Go TLS over TCP †<") || strings.Contains(svg, ">Go net TCP<") {
				t.Errorf("%s mixes plain with encrypted links", p.File)
			}
		} else if !strings.HasSuffix(p.File, "-loss.svg") && (!strings.Contains(svg, "plain links; ") || strings.Contains(svg, "†")) {
			t.Errorf("%s does not say that its links are plain", p.File)
		}
	}
	r.Rows = r.Rows[:sealedFrom(r)]
	if text := string(Markdown(r)); strings.Contains(text, "## With encryption") {
		t.Error("the page has a section of contestants that are not there")
	}
}

// sealedFrom returns the index of the first row that is sealed.
func sealedFrom(r *contest.Result) int {
	return slices.IndexFunc(r.Rows, func(row contest.Row) bool { return row.Sealed })
}

// Figures of two runs are not compared: the page says which were measured later, and gives no
// cost of encryption for them.
func TestFiguresOfALaterRunAreNotComparedWithEarlierOnes(t *testing.T) {
	r := result()
	later := &contest.Result{Commit: "def", Date: "2026-02-03T04:05:06Z", Seconds: 9, Rounds: 2, Machine: contest.Machine{Others: 1.5, Load: 3}}
	for _, row := range r.Rows {
		if row.Contestant == "Go TLS over TCP" {
			later.Rows = append(later.Rows, row)
		}
	}
	r.Add(later)
	text := string(Markdown(r))
	for _, want := range []string{
		"A later run measured Go TLS over TCP: commit def, 2026-02-03T04:05:06Z, 9 s, 2 rounds; others used 1.5 cores during it, and the load before it was 3.0.",
		"| Go TLS over TCP † | 32.0 µs | 96.0 µs | 0.080 M/s | 1.50 GB/s | — | — | — |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "| P11 |") {
		t.Error("the page compares the figures of two runs")
	}
	if got := sealedSource(r); !strings.Contains(got, "figures of 2 runs") {
		t.Errorf("charts with figures of two runs say %q", got)
	}
	r.Rows = slices.DeleteFunc(r.Rows, func(row contest.Row) bool { return row.Sealed && contest.Weft(row.Contestant) })
	if got := sealedSource(r); !strings.Contains(got, "commit def; 2026-02-03; 2 rounds") {
		t.Errorf("charts with figures of the later run say %q", got)
	}
}

func TestTheGoalsArePrintedForATerminal(t *testing.T) {
	var out strings.Builder
	if err := WriteGoals(&out, result()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"P6   two hosts, 1 MiB one way ", "  nbdkit, 40.0 k/s ", "  ≥ 2    ", "missed by 33 %", "P10  64 B there and back with 1 % of loss, 99 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the goals lack %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := WriteGoals(&out, &contest.Result{}); err != nil || out.Len() > 0 {
		t.Errorf("of nothing it says %q, error %v", out.String(), err)
	}
}

func TestEveryPictureIsOnThePageAndWellFormed(t *testing.T) {
	r := result()
	text := string(Markdown(r))
	for _, p := range append(Pictures(r), Pictures(&contest.Result{})...) {
		if !strings.Contains(text, "]("+p.File+")") {
			t.Errorf("the page has no %s", p.File)
		}
		for d := xml.NewDecoder(bytes.NewReader(p.SVG)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", p.File, err)
			}
		}
		if bytes.Contains(p.SVG, []byte("NaN")) {
			t.Errorf("%s has figures that are none", p.File)
		}
	}
}

func TestEveryContestantThatCanBeThereHasItsColour(t *testing.T) {
	seen := make(map[string]string)
	for name, style := range styles {
		if other, ok := seen[style]; ok && !contest.Weft(name) {
			t.Errorf("%s and %s have one colour", name, other)
		}
		seen[style] = name
	}
}
