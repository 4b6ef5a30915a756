package interleave_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/interleave"
)

// scenarios are the packages whose tests have schedules, below internal/, all of them named so.
var scenarios = []string{"vni"}

const pattern = "^TestEveryScheduleOf"

// TestEverySchedule rewrites the sources, runs the schedules of each package, and then with each mutation, which one of them
// must show.
func TestEverySchedule(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the scenarios of the poller wait in Linux's ways")
	}
	dir := t.TempDir()
	overlay := rewrite(t, dir)
	binaries := map[string]string{}
	for _, pkg := range scenarios {
		binaries[pkg] = filepath.Join(dir, pkg+".test")
		out, err := command(t, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binaries[pkg], "../"+pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("the rewritten %s does not build: %v\n%s", pkg, err, out)
		}
	}
	for _, pkg := range scenarios {
		t.Run(pkg, func(t *testing.T) {
			out, err := schedules(t, binaries[pkg], pkg, "")
			if err != nil || !strings.Contains(out, "--- PASS: TestEveryScheduleOf") || strings.Contains(out, "--- SKIP") {
				t.Errorf("%v\n%s", err, out)
			}
			for _, line := range regexp.MustCompile(`(?m)^--- .*|^ .* schedules of .*`).FindAllString(out, -1) {
				t.Log(strings.TrimSpace(line))
			}
		})
	}
	if t.Failed() {
		return
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) { caught(t, binaries, m) })
	}
}

// caught fails the test if no schedule shows the mutation.
func caught(t *testing.T, binaries map[string]string, m mutation) {
	for _, pkg := range m.shown() {
		out, err := schedules(t, binaries[pkg], pkg, m.name)
		if err == nil {
			continue
		}
		found := regexp.MustCompile(`--- FAIL: (TestEveryScheduleOf\w+)[^\n]*\n\s*\S+ (schedule \d+, after \d+ steps: [^\n]*)`).FindStringSubmatch(out)
		if found == nil {
			t.Fatalf("%s ends otherwise than by a schedule:\n%s", pkg, out)
		}
		t.Logf("%s: %s, %s", m.what, found[1], found[2])
		return
	}
	t.Errorf("no schedule shows that %s", m.what)
}

// shown lists the packages whose schedules may show a mutation: its own first.
func (m *mutation) shown() []string {
	own, _, _ := strings.Cut(m.file, "/")
	all := slices.Clone(scenarios)
	slices.SortStableFunc(all, func(a, b string) int {
		switch {
		case a == own && b != own:
			return -1
		case b == own && a != own:
			return 1
		}
		return 0
	})
	return all
}

// schedules runs the tests of a rewritten binary, with a mutation if one is named.
func schedules(t *testing.T, binary, pkg, defect string) (string, error) {
	t.Helper()
	c := command(t, binary, "-test.run", pattern, "-test.v", "-test.failfast")
	c.Dir = filepath.Join("..", pkg)
	c.Env = append(c.Env, interleave.DefectVariable+"="+defect)
	out, err := c.CombinedOutput()
	return string(out), err
}

// patience bounds what ends soon unless something is broken.
const patience = 5 * time.Minute

func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	return c
}
