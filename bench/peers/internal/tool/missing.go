package tool

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Missing is what a contestant lacks, and the Debian packages that have it.
type Missing struct {
	What     string
	Packages string
}

// Error says both.
func (m *Missing) Error() string {
	return fmt.Sprintf("no %s: apt-get install %s", m.What, m.Packages)
}

// need looks for programs.
func need(packages string, programs ...string) error {
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			return &Missing{name, packages}
		}
	}
	return nil
}

// compilePatience is how long a compiler may take.
const compilePatience = time.Minute

// compiles runs a compiler. It fails where headers or libraries are not there, and then says which in its first line.
func compiles(ctx context.Context, packages string, argv ...string) error {
	ctx, cancel := context.WithTimeout(ctx, compilePatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err == nil {
		return nil
	}
	first := err.Error()
	for line := range strings.SplitSeq(string(out), "\n") {
		if strings.Contains(line, "error") || strings.Contains(line, "cannot find") {
			first = strings.TrimSpace(line)
			break
		}
	}
	return &Missing{fmt.Sprintf("way to compile it (%s)", first), packages}
}
