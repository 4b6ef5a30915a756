package interleave_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/interleave"
)

// scenarios lists the packages below internal/ whose tests have schedules. The names of these
// tests match pattern.
var scenarios = []string{"vni", "proc", "poller", "nic", "driver", "ctl"}

const pattern = "^TestEveryScheduleOf"

// TestEverySchedule rewrites the sources and runs the schedules of each package. Then it runs
// them with each mutation, which a schedule must detect.
func TestEverySchedule(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the scenarios of the poller wait in Linux's ways")
	}
	dir := t.TempDir()
	overlay := rewrite(t, dir)
	if testing.Short() {
		t.Skip("the sources can be rewritten; the schedules take half a minute")
	}
	build := []string{"test", "-c", "-vet=off", "-overlay", overlay, "-o", dir + "/"}
	for _, pkg := range scenarios {
		build = append(build, "../"+pkg)
	}
	if out, err := command(t, "go", build...).CombinedOutput(); err != nil {
		t.Fatalf("the rewritten sources do not build: %v\n%s", err, out)
	}
	t.Run("right", func(t *testing.T) {
		for _, pkg := range scenarios {
			t.Run(pkg, func(t *testing.T) {
				t.Parallel()
				passes(t, dir, pkg)
			})
		}
	})
	if t.Failed() {
		return
	}
	for _, m := range mutations {
		if m.shown == "" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			caught(t, dir, m)
		})
	}
}

// passes runs all schedules of a package.
func passes(t *testing.T, dir, pkg string) {
	out, err := schedules(t, dir, pkg, pattern, "")
	if err != nil || !strings.Contains(out, "--- PASS: TestEveryScheduleOf") || strings.Contains(out, "--- SKIP") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, line := range regexp.MustCompile(`(?m)^--- .*|^ .* schedules of .*`).FindAllString(out, -1) {
		t.Log(strings.TrimSpace(line))
	}
}

// caught fails the test if no schedule detects the mutation.
func caught(t *testing.T, dir string, m mutation) {
	pkg, test, _ := strings.Cut(m.shown, "/")
	out, err := schedules(t, dir, pkg, pattern+test+"$", m.name)
	if err == nil {
		t.Fatalf("no schedule shows that %s:\n%s", m.what, out)
	}
	found := regexp.MustCompile(`schedule \d+, after \d+ steps: [^\n]*`).FindString(out)
	if found == "" {
		t.Fatalf("%s ends otherwise than by a schedule:\n%s", m.shown, out)
	}
	t.Logf("%s: %s", m.what, found)
}

// schedules runs tests of a package's rewritten binary, with a mutation if one is given.
func schedules(t *testing.T, dir, pkg, tests, defect string) (string, error) {
	t.Helper()
	c := command(t, filepath.Join(dir, pkg+".test"), "-test.run", tests, "-test.v", "-test.failfast")
	c.Dir = filepath.Join("..", pkg)
	c.Env = append(c.Env, interleave.DefectVariable+"="+defect)
	out, err := c.CombinedOutput()
	return string(out), err
}

// patience limits waits for events that happen soon unless something is broken.
const patience = 20 * time.Minute

func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	return c
}
