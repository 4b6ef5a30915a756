package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// weftModule is where the weft command is.
const weftModule = "github.com/weftnet/weft"

// weftBinary is the one that is named, or one that is built of what this module stands beside.
func weftBinary(ctx context.Context, named, dir string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	binary := filepath.Join(dir, "weft")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, weftModule+"/cmd/weft")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building weft (run this in bench/peers, or name a binary with --weft): %w: %s", err, out)
	}
	return binary, nil
}

// machine is what this runs on, as far as it tells.
func machine() contest.Machine {
	m := contest.Machine{CPU: "unknown", Cores: runtime.NumCPU(), Kernel: field("/proc/sys/kernel/osrelease", ""), Go: runtime.Version()}
	if cpu := field("/proc/cpuinfo", "model name"); cpu != "" {
		m.CPU = cpu
	}
	m.OS = strings.Trim(field("/etc/os-release", "PRETTY_NAME"), `"`)
	load, _, _ := strings.Cut(field("/proc/loadavg", ""), " ")
	m.Load, _ = strconv.ParseFloat(load, 64)
	return m
}

// field is the value of a line of a file, behind its name and = or a colon; without a name, the first line.
func field(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if name == "" {
			return strings.TrimSpace(line)
		}
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimLeft(rest, " \t:=")
		}
	}
	return ""
}

// commit names what was measured; with a + if files other than documents differ from it.
func commit(ctx context.Context) string {
	git := func(args ...string) string {
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	name := git("rev-parse", "--short=12", "HEAD")
	if name == "" {
		return "unknown"
	}
	if git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":!:/docs") != "" {
		name += "+"
	}
	return name
}
