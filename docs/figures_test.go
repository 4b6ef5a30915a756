package docs_test

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// recording holds the part of a measurement of bench/peers that other pages quote.
type recording struct {
	Machine struct {
		CPU    string
		Cores  int
		Kernel string
	}
	Rows []struct {
		Contestant, Ground, Measure string
		Size                        int
		Sealed                      bool
		Value                       float64 // of a latency, in nanoseconds
	}
}

// roundTrip returns the recorded round trip of 64 bytes over plain links, with three digits, like
// the page of the run.
func (r *recording) roundTrip(t *testing.T, contestant, ground string) string {
	t.Helper()
	for _, row := range r.Rows {
		if row.Contestant == contestant && row.Ground == ground && row.Measure == "latency" && row.Size == 64 && !row.Sealed {
			us := row.Value / 1000
			digits := max(0, 2-int(math.Floor(math.Log10(us))))
			return strconv.FormatFloat(us, 'f', digits, 64) + " µs"
		}
	}
	t.Fatalf("docs/performance/peers.json has no plain round trip of 64 bytes of %q on %q", contestant, ground)
	return ""
}

func recorded(t *testing.T) *recording {
	t.Helper()
	r := new(recording)
	if err := json.Unmarshal([]byte(read(t, "docs/performance/peers.json")), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestQuotedFiguresAreThoseOfTheRecordedRun(t *testing.T) {
	r := recorded(t)
	tcp := r.roundTrip(t, "Go net TCP", "veth")
	udp := r.roundTrip(t, "Weft, udp", "veth")
	daemons := r.roundTrip(t, "Weft, udp, daemons", "veth")
	for page, rows := range map[string][]string{
		"README.md": {
			fmt.Sprintf("| embedded NIC, UDP | %s | %s |", udp, tcp),
			fmt.Sprintf("| NIC daemons, UDP | %s | %s |", daemons, tcp),
		},
		"docs/links.md": {
			fmt.Sprintf("| shared memory, one host | %s | |", r.roundTrip(t, "Weft, shm", "host")),
			fmt.Sprintf("| AF_XDP, two hosts | %s | |", r.roundTrip(t, "Weft, xdp", "veth")),
			fmt.Sprintf("| UDP, two hosts | %s | %s |", udp, daemons),
			fmt.Sprintf("| for comparison: Go's TCP, two hosts | %s | |", tcp),
		},
	} {
		text := read(t, page)
		if quoted := strings.Count(text, " µs |"); quoted != strings.Count(strings.Join(rows, "\n"), " µs |") {
			t.Errorf("%s quotes %d round trips in tables; the test compares others", page, quoted)
		}
		for _, row := range rows {
			if !slices.Contains(strings.Split(text, "\n"), row) {
				t.Errorf("%s lacks a row of the recorded run:\n%s", page, row)
			}
		}
	}
}

func TestREADMENamesTheMachineOfItsFigures(t *testing.T) {
	m := recorded(t).Machine
	want := fmt.Sprintf("%s with %d cores (virtual, Linux %s)", m.CPU, m.Cores, m.Kernel)
	if !strings.Contains(read(t, "README.md"), want) {
		t.Errorf("README.md does not name the machine of its figures: expected %q", want)
	}
}

func TestTheIndexListsEveryPage(t *testing.T) {
	index := read(t, "docs/README.md")
	found := 0
	for _, name := range files(t, ".md") {
		page, ok := strings.CutPrefix(name, "docs/")
		if !ok || path.Base(page) == "README.md" {
			continue
		}
		found++
		if !strings.Contains(index, "]("+page+")") {
			t.Errorf("docs/README.md does not list %s", page)
		}
	}
	if found < 20 {
		t.Errorf("found %d pages; the search must be broken", found)
	}
}
