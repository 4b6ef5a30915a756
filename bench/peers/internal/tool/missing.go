package tool

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Missing is what a contestant lacks, with the Debian packages that provide it.
type Missing struct {
	What     string
	Packages string
}

// Error names both.
func (m *Missing) Error() string {
	return fmt.Sprintf("no %s: apt-get install %s", m.What, m.Packages)
}

// need returns an error if a program is not installed.
func need(packages string, programs ...string) error {
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			return &Missing{name, packages}
		}
	}
	return nil
}

// compilePatience bounds the time of a compiler.
const compilePatience = time.Minute

// compiles runs a compiler. If headers or libraries are missing, the error has the compiler's
// first line, which names them.
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
