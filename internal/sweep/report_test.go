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
