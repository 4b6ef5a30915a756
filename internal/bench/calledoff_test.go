package bench

import (
	"io"
	"strings"
	"testing"
)

// When a measurement is interrupted, its other programs end first. With them end the processes
// that this program waits for.
func TestAProgramOfProcessesThatIsCalledOffWaitsForNoOthers(t *testing.T) {
	p := crewPlan{App: "waits", Count: 1, To: []crewTo{{"ended", 0, 1}}}
	if err := p.run(t.Context(), strings.NewReader(""), io.Discard); err != nil {
		t.Errorf("%v; expected no error", err)
	}
}
