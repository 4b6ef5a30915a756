package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
)

// An empty id would begin every id, and so end the only job that runs.
func TestAnIDOfAJobWithoutADigitNamesNoJob(t *testing.T) {
	only := []ctl.JobInfo{{ID: "job-1a2b3c4d", Ranks: 1, Size: 1}}
	socket := filepath.Join(t.TempDir(), "nic.sock") // the command line is refused before anybody is asked
	for _, id := range []string{"", "job-"} {
		if parts, err := findJob(only, id); err == nil {
			t.Errorf("%q names the job %s", id, parts[0].ID)
		}
		for _, command := range []string{"kill", "show", "stuck"} {
			status, _, errs := weft("job", command, "--socket", socket, id)
			if status != exitUsage || !strings.Contains(errs, "hexadecimal digit") {
				t.Errorf("weft job %s %q: status %d, %s", command, id, status, errs)
			}
		}
	}
	for _, id := range []string{"1", "job-1", "1a2b3c4d", "job-1a2b3c4d"} {
		if parts, err := findJob(only, id); err != nil || len(parts) != 1 {
			t.Errorf("%q names %v, %v", id, parts, err)
		}
	}
}
