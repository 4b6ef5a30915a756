package procstat_test

import (
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/procstat"
)

func TestALineOfStatIsReadWhateverTheProgramIsCalled(t *testing.T) {
	// stat is a line of process 77.
	stat := func(name, state, parent, threads, began string) string {
		return "77 (" + name + ") " + state + " " + parent +
			" 78 79 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 " + threads + " 0 " + began + " 100 200"
	}
	for text, want := range map[string]procstat.Stat{
		stat("a) S 9 (b", "S", "1", "1", "4711"): {Name: "a) S 9 (b", State: 'S', Parent: 1, Threads: 1, Began: 4711},
		stat("", "D", "5", "1", "4712"):          {State: 'D', Parent: 5, Threads: 1, Began: 4712},
		stat("x\ny", "Z", "1", "3", "4713"):      {Name: "x\ny", State: 'Z', Parent: 1, Threads: 3, Began: 4713},
	} {
		want.PID, want.Group = 77, 78
		if got, ok := procstat.Parse([]byte(text)); !ok || got != want {
			t.Errorf("%q is read as %+v, %v; expected %+v", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "1", "1 (a", "1 a)", ")(", "1 (a) S 1 2", "x" + stat("a", "S", "1", "1", "1"),
		stat("a", "SS", "1", "1", "1"), stat("a", "S", "x", "1", "1"), stat("a", "S", "1", "x", "1"),
		stat("a", "S", "1", "1", "-1"),
	} {
		if got, ok := procstat.Parse([]byte(text)); ok {
			t.Errorf("%q is read as %+v; expected no process", text, got)
		}
	}
	dying := strings.Replace(stat("a", "R", "1", "1", "1"), "4194560", "4194564", 1)
	if got, ok := procstat.Parse([]byte(dying)); !ok || !got.Exiting {
		t.Errorf("%q is read as %+v; expected a process that ends", dying, got)
	}
	if zombie := (procstat.Stat{State: 'Z', Threads: 2}); zombie.Ended() {
		t.Error("a process whose first thread has ended counts as ended while another thread runs")
	}
}
