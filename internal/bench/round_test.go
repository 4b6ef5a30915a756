package bench

import (
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/bench/limit"
)

// The machine becomes half as fast between the two turns of the third round. Each other round
// has a ratio of 1.5. But the median of Weft's figures is from the slow half, and that of the
// limit from the fast one, so their ratio is 0.75.
func TestTheRatioIsThatOfTurnsBesideOneAnother(t *testing.T) {
	var weft []sample
	var limits []limit.Result
	for _, round := range [][2]float64{{15, 10}, {15, 10}, {7.5, 10}, {7.5, 5}, {7.5, 5}} {
		weft = append(weft, sample{Rate: round[0]})
		limits = append(limits, limit.Result{MessagesPerSec: round[1]})
	}
	var r Row
	k := kindOf(KindRate)
	k.fill(&r, weft)
	r.Against = k.against("ring", weft, limits)
	if r.Ratio != 1.5 || r.LimitMessagesPerS != 10 || r.MessagesPerSecond != 7.5 || !slices.Equal(r.RoundRatios, []float64{1.5, 1.5, 0.75, 1.5, 1.5}) {
		t.Errorf("the ratio is %v, of %v; Weft has %v, and the limit %v", r.Ratio, r.RoundRatios, r.MessagesPerSecond, r.LimitMessagesPerS)
	}
}
