package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// busy reports whether other programs used enough of the machine to affect the figures.
func busy(r *contest.Result) bool { return r.Machine.Others > 0.1*float64(r.Machine.Cores) }

// why gives known reasons for missed goals. A reason with busy set only holds on a busy machine.
var why = []struct {
	goals []string
	busy  bool
	text  string
}{
	{[]string{"P1", "P3", "P4"}, true,
		"A side of Weft that waits gives its processor to others who want it, and then sleeps. " +
			"Where others keep one of two processors busy, the kernel wakes both sides on " +
			"the one that is left, and they take turns there: about 6 µs a round trip over shared memory, " +
			"14 over AF_XDP, 18 over UDP, which is what `taskset -c 0 weft bench latency …` shows as well. " +
			"On two processors shared memory has 0.27 to 0.7 µs. Who spins never gives a processor up, " +
			"and so keeps one for itself."},
	{[]string{"P1"}, false,
		"UCX and Open MPI look for a message from a peer that they know, in memory that they own, " +
			"with one thread that does nothing else. A message of Weft's passes " +
			"two processes of a name each that any number of goroutines may use, a NIC that any number of processes " +
			"share, credit, and a wait that ends with its peer's death: some 55 ns of computing " +
			"each way, where it was 500. Where the two processors share a cache, so that `line` takes 0.14 µs, " +
			"Weft has 0.27 to 0.35 µs, and Open MPI and UCX 0.34 to 0.45; where they are far apart, and " +
			"`line` takes 0.55, most is the way of two lines, and Weft has 0.7, Open MPI 1.2 and UCX 1.4. " +
			"The machine changes between the two from second to second, and each has its own share of either."},
	{[]string{"P2"}, false,
		"Where 1 MiB is what is missed: Weft copies twice, into the ring and out of it, as the limit `stream` does. " +
			"Open MPI and UCX may read the sender's memory through the kernel, " +
			"one copy, which asks for the right to trace it. Where the two processors are far apart, " +
			"so that `line` takes 0.5 µs, two copies through memory that both have in their caches " +
			"come to 2 to 5 GB/s, the limit's to 4 to 5; where they are near, to 35; " +
			"Weft, which writes past the caches where that is faster, has 13 to 15 and 21 to 27. " +
			"The machine changes between the two from minute to minute."},
	{[]string{"P3"}, false,
		"Half of a round trip is the kernel's: a bare AF_XDP program takes 4.5 to 6 µs of it. " +
			"Of the rest each side of Weft computes some 0.5 µs, where it was 1."},
	{[]string{"P5"}, false,
		"As many as the bare program `udp-rate` sends, 0.9 to 1.3 of it: 15 to 20 M/s where that has 15 or more, " +
			"7 to 12 in hours in which the machine has half of its kernel's speed. " +
			"And so many times the best other as that has had a good round or a bad one: 2.6 to 5.4 in nine runs."},
	{[]string{"P6"}, false,
		"TCP hands up to 64 KiB from one of these hosts to the other as one piece: nothing on the way cuts it, " +
			"and the receiver copies it once. Weft has a header and a checksum of its own for each 1,500 bytes. " +
			"A bare program that sends such frames, and does nothing else, is the limit `udp-bandwidth`: " +
			"it has 5.0 to 5.5 GB/s where TCP has 6.4, and 1.6 to 4.2 where that has 2.9 to 4.7, " +
			"and Weft 0.87 to 1.5 of it."},
	{[]string{"P9"}, false,
		"Here the ratio is of two medians of five turns, each of a fraction of a second and with processes of its " +
			"own, which strays by 0.13 whatever is lost. In turns of 0.1 s within one run, `weft bench loss` " +
			"has 0.95 to 0.98 with 1 %, and 0.87 to 0.91 with 5 %; " +
			"and a run over UDP with 5 % had 0.55 now and then, [until losses counted for the round that had posted " +
			"what was lost](tried.md#p9-and-p10-loss)."},
}

// reasons writes the reasons for missed goals: where the time goes.
func reasons(b *strings.Builder, r *contest.Result, missed map[string]bool) {
	var lines []string
	for _, w := range why {
		of := slices.DeleteFunc(slices.Clone(w.goals), func(g string) bool { return !missed[g] })
		if len(of) > 0 && (busy(r) || !w.busy) {
			lines = append(lines, fmt.Sprintf("- %s. %s\n", strings.Join(of, ", "), w.text))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "\nWhy a goal is missed, as far as it is known; "+
			"[where the time goes](tried.md#bounds-of-each-goal) goal by goal, met or not:\n\n%s",
			strings.Join(lines, ""))
	}
}
