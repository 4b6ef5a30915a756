package daemon_test

import (
	"strings"
	"testing"

	"github.com/weftnet/weft"
)

// If a program does not print why it could not attach, its host's operator has only the daemon's
// log.
func TestTheLogSaysWhichProcessCouldNotAttach(t *testing.T) {
	c := configs(t, 1)[0]
	c.MaxProcesses = 1
	log := run(t, c)
	refused := func(process, why string, g weft.Geometry) {
		t.Helper()
		p, err := weft.Attach(t.Context(), weft.AttachConfig{Socket: c.Socket, Name: name(t, process), Geometry: g})
		if err == nil {
			p.Close()
			t.Fatalf("%s has attached", process)
		}
		line := lineWith(log.String(), "process="+process)
		for _, part := range []string{"level=WARN", "process not attached", "pid=", "uid=", why} {
			if !strings.Contains(line, part) {
				t.Errorf("of %s the log says %q; expected %q in it", process, line, part)
			}
		}
	}
	refused("greedy/0", "1048576", weft.Geometry{Contexts: 1 << 20})
	mustAttach(t, c, "first/0")
	refused("late/0", "all 1 have one", weft.Geometry{})
}

// lineWith returns the first line of a text that contains part.
func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}
