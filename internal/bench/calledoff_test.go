package bench

import (
	"io"
	"strings"
	"testing"
)

// The other programs of a measurement that is interrupted end first, and with them the processes that this one waits for.
func TestAProgramOfProcessesThatIsCalledOffWaitsForNoOthers(t *testing.T) {
	p := crewPlan{App: "waits", Count: 1, To: []crewTo{{"ended", 0, 1}}}
	if err := p.run(t.Context(), strings.NewReader(""), io.Discard); err != nil {
		t.Errorf("%v; expected no error", err)
	}
}
