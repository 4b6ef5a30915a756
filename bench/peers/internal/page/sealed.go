package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// sealedGrounds are the grounds on which contestants with encryption are compared.
var sealedGrounds = []string{contest.Host, contest.Veth}

// anySealed reports whether a contestant of these grounds encrypts.
func anySealed(r *contest.Result) bool {
	return slices.ContainsFunc(sealedGrounds, func(ground string) bool { return len(r.SealedContestants(ground)) > 0 })
}

// sealedPictures draws the charts of the contestants that encrypt.
func sealedPictures(r *contest.Result) []Picture {
	picture := func(file, title string, svg func(title string) []byte) Picture {
		return Picture{file, title, svg(title)}
	}
	return []Picture{
		picture("sealed-round-trip.svg", "With encryption: 64 bytes, a round trip", func(title string) []byte {
			return summary(r, title, sealedSource(r), r.SealedContestants, contest.Latency, contest.SmallSize,
				"median; on the left is better")
		}),
		picture("sealed-bandwidth.svg", "With encryption: messages of 1 MiB, one way", func(title string) []byte {
			return summary(r, title, sealedSource(r), r.SealedContestants, contest.Bandwidth, contest.LargeSize,
				"GB/s; on the right is better")
		}),
		picture("sealed-latency-veth.svg",
			"With encryption: round trip by length, two hosts", func(title string) []byte {
				return bySize(r, title, sealedSource(r), r.SealedContestants(contest.Veth), contest.Veth,
					contest.Latency,
					"Round trip, median")
			}),
		picture("sealed-bandwidth-veth.svg",
			"With encryption: bandwidth by length, two hosts", func(title string) []byte {
				return bySize(r, title, sealedSource(r), r.SealedContestants(contest.Veth), contest.Veth,
					contest.Bandwidth,
					"Bandwidth, one way")
			}),
	}
}

// sealedSource names the runs that have measured the contestants that encrypt.
func sealedSource(r *contest.Result) string {
	runs := make(map[int]bool)
	for _, ground := range sealedGrounds {
		for _, name := range r.SealedContestants(ground) {
			runs[r.RunOf(name)] = true
		}
	}
	if len(runs) == 1 && !runs[-1] {
		for i := range runs {
			return addedSource(&r.Added[i])
		}
	}
	if len(runs) > 1 {
		return fmt.Sprintf("encrypted links; %s, %d cores; figures of %d runs, which the page names",
			r.Machine.CPU, r.Machine.Cores, len(runs))
	}
	return "encrypted links; " + source(r)
}

func addedSource(a *contest.Added) string {
	return "encrypted links; " + source(&contest.Result{Machine: a.Machine, Commit: a.Commit, Date: a.Date,
		Rounds: a.Rounds})
}

// sealed writes the section about the contestants that encrypt.
func sealed(b *strings.Builder, r *contest.Result) {
	if !anySealed(r) {
		return
	}
	b.WriteString(`
## With encryption

The contestants of this section encrypt everything that they carry. ` +
		`TLS and QUIC use TLS 1.3 with AES-128-GCM, and WireGuard uses ChaCha20-Poly1305.
The server makes its certificate or its keys at its start, ` +
		`and the handshake is over before the time of a figure begins. ` +
		`WireGuard has a TUN device in each
host, so it is measured between two hosts only: the kernel's TCP or UDP runs inside the tunnel.
`)
	if slices.ContainsFunc(r.Rows, func(row contest.Row) bool { return row.Sealed && contest.Weft(row.Contestant) }) {
		b.WriteString("Weft, sealed is `weft bench … --sealed on`.\n")
	} else {
		b.WriteString("Sealed links of Weft are not part of this run; `go run . --sealed` measures them.\n")
	}
	for _, ground := range sealedGrounds {
		sealedTable(b, r, ground)
	}
	sealedGoals(b, r)
	for _, p := range sealedPictures(r) {
		fmt.Fprintf(b, "\n![%s](%s)\n", p.Title, p.File)
	}
}

// sealedTable writes the figures of a ground. If the same run has measured the same work
// unencrypted, it adds the cost of encryption.
func sealedTable(b *strings.Builder, r *contest.Result, ground string) {
	who := r.SealedContestants(ground)
	if len(who) == 0 {
		return
	}
	columns := contest.Columns(ground)
	costs := slices.ContainsFunc(who, func(name string) bool { return twinOf(r, name) != "" })
	fmt.Fprintf(b, "\n| %s", headings[ground])
	for _, c := range columns {
		fmt.Fprintf(b, " | %s", c.Head)
	}
	if costs {
		b.WriteString(" | beside | round trip added | 1 MiB, share of plain")
	}
	fmt.Fprintf(b, " |\n|---%s%s|\n", strings.Repeat("|---:", len(columns)),
		map[bool]string{true: "|---|---:|---:"}[costs])
	for _, name := range who {
		fmt.Fprintf(b, "| %s", bold(name, label(r, name)))
		for _, c := range columns {
			fmt.Fprintf(b, " | %s", r.Cell(name, c))
		}
		if costs {
			fmt.Fprintf(b, " | %s", cost(r, name, ground))
		}
		b.WriteString(" |\n")
	}
}

// twinOf returns the contestant that did the same work unencrypted in the same run; "" if there
// is none. Figures of two runs would show changes of the machine, and not the cost of
// encryption.
func twinOf(r *contest.Result, name string) string {
	twin := contest.Twin(name)
	if twin == "" || r.RunOf(twin) != r.RunOf(name) {
		return ""
	}
	return twin
}

// cost returns three cells: the plain contestant, the time that encryption adds to a round trip,
// and the share of the bandwidth that it leaves.
func cost(r *contest.Result, name, ground string) string {
	twin := twinOf(r, name)
	if twin == "" {
		return "— | — | —"
	}
	added, share := "—", "—"
	if ours, theirs, ok := both(r, name, twin, ground, contest.Latency, contest.SmallSize); ok {
		added = fmt.Sprintf("%+.1f µs", (ours-theirs)/1e3)
	}
	if ours, theirs, ok := both(r, name, twin, ground, contest.Bandwidth, contest.LargeSize); ok {
		share = fmt.Sprintf("%.2f", ours/theirs)
	}
	return strings.Join([]string{twin, added, share}, " | ")
}

// both returns one figure of two contestants, if both have it.
func both(r *contest.Result, name, twin, ground, measure string, size int) (ours, theirs float64, ok bool) {
	a, ok1 := r.Find(name, ground, 0, measure, size)
	b, ok2 := r.Find(twin, ground, 0, measure, size)
	return a.Value, b.Value, ok1 && ok2 && a.Value > 0 && b.Value > 0
}

// sealedGoalsOf returns the goals of sealed links compared with other contestants that encrypt.
func sealedGoalsOf() []goal {
	veth := contest.Columns(contest.Veth)
	return []goal{{"P11", "two hosts, 1 MiB one way, sealed", contest.SealedName("Weft, udp"), "Go TLS over TCP",
		veth[3], nil, 1}}
}

func sealedGoals(b *strings.Builder, r *contest.Result) {
	all, _ := compareAll(r, sealedGoalsOf())
	if len(all) == 0 {
		return
	}
	b.WriteString("\n| | what | Weft | the other | advantage | aim | |\n|---|---|---|---|---|---|---|\n")
	for _, c := range all {
		fmt.Fprintf(b, "| %s |\n", c.line(" | "))
	}
}

// plainChart returns the source line of a chart of plain links.
func plainChart(r *contest.Result) string { return "plain links; " + source(r) }

// lossSource returns the source line of a chart with plain and encrypted contestants.
func lossSource(r *contest.Result) string { return starred(r) + "; † encrypts" }

// laterRuns writes which rows come from a later run.
func laterRuns(b *strings.Builder, r *contest.Result) {
	for _, a := range r.Added {
		fmt.Fprintf(b, "\nA later run measured %s: commit %s, %s, %.0f s, %d rounds; "+
			"others used %.1f cores during it, and the load before it was %.1f. "+
			"Compare these figures only with one another.\n", strings.Join(a.Contestants, "; "), a.Commit, a.Date,
			a.Seconds, a.Rounds, a.Machine.Others, a.Machine.Load)
	}
}

// bold marks Weft in a table.
func bold(contestant, text string) string {
	if contest.Weft(contestant) {
		return "**" + text + "**"
	}
	return text
}
