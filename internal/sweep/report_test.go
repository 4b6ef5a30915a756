package sweep

import (
	"strings"
	"testing"

	"github.com/weftnet/weft/sim"
)

func TestAReportIsInWordsThatFitItsNumbers(t *testing.T) {
	r := &Report{Totals: Totals{Seeds: 1, Bytes: 18_000_000, Faults: Faults{Counts: sim.Counts{Lost: 7}, Renamed: 3}}, Seconds: 0.5}
	var b strings.Builder
	r.Write(&b)
	for _, want := range []string{"1 seed in 0.5 s: ", " messages of 18.0 MB, ", "faults: 7 lost, ", ", 3 registered again\n", "\nviolations: 0\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	r.Seeds = 2
	b.Reset()
	if r.Write(&b); !strings.HasPrefix(b.String(), "2 seeds in ") {
		t.Errorf("expected 2 seeds in\n%s", b.String())
	}
}

// Some violations end in the replay command, as failures of a fabric do. The report prints the
// command once.
func TestAReportHasTheReplayOfASeedOnce(t *testing.T) {
	const again = "weft sim --seed 7"
	r := &Report{Findings: []Finding{{7, []string{"team: seed 7, after 3m0s: none ends\nreplay: " + again, "a message is damaged:\n\tits last byte"}, again}}}
	var out strings.Builder
	r.Write(&out)
	if want := "seed 7:\n    team: seed 7, after 3m0s: none ends\n    a message is damaged:\n    \tits last byte\n    replay: " + again + "\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("the report begins\n%swant\n%s", out.String(), want)
	}
}
