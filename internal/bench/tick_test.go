package bench

import (
	"testing"
	"time"
)

// The measured alternative is the rejected one: a look every 10 ms. A shorter tick would be
// another experiment.
func TestTheTickIsTenMilliseconds(t *testing.T) { // NETSTAR-23, NETSTAR-30
	if tickEvery != 10*time.Millisecond {
		t.Errorf("a NIC that looks at ticks looks every %v, expected every 10ms", tickEvery)
	}
	p50, err := tickDelay(t.Context(), time.Millisecond)
	if err != nil || p50 <= 0 {
		t.Errorf("the delay until the next tick is %d ns: %v", p50, err)
	}
}
