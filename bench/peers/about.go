package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// weftModule is the module of the weft command.
const weftModule = "github.com/weftnet/weft"

// weftBinary returns the named binary. If none is named, it builds one from Weft's module, and
// returns that.
func weftBinary(ctx context.Context, named, dir string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	const where = "building weft (run this in bench/peers, or name a binary with --weft): "
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", weftModule).Output()
	if err != nil {
		return "", fmt.Errorf(where+"looking for its module: %w", err)
	}
	binary := filepath.Join(dir, "weft")
	var out []byte
	// git may refuse to say which commit this is
	for _, stamp := range []string{"auto", "false"} {
		build := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(module)), "-buildvcs="+stamp,
			"-o", binary, "./cmd/weft")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err = build.CombinedOutput(); err == nil {
			return binary, nil
		}
	}
	return "", fmt.Errorf(where+"%w: %s", err, out)
}

// machine describes this machine, as far as the kernel tells.
func machine() contest.Machine {
	// the rest is the builder's
	kernel, _, _ := strings.Cut(field("/proc/sys/kernel/osrelease", ""), "-")
	m := contest.Machine{CPU: "unknown", Cores: runtime.NumCPU(), Kernel: kernel, Go: runtime.Version()}
	if cpu := field("/proc/cpuinfo", "model name"); cpu != "" {
		m.CPU = cpu
	}
	m.OS = strings.Trim(field("/etc/os-release", "PRETTY_NAME"), `"`)
	load, _, _ := strings.Cut(field("/proc/loadavg", ""), " ")
	m.Load, _ = strconv.ParseFloat(load, 64)
	return m
}

// field returns the value of a line of a file, after its name and = or a colon. Without a name,
// it returns the first line.
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

// commit returns the commit of the measured Weft, as the binary records it, with a + if the
// binary was built from files that differ from that commit. The binary counts changed documents
// as well. If the binary was built here, commit therefore asks git about the other files.
func commit(ctx context.Context, binary string, named bool) string {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "unknown"
	}
	var revision, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			modified = s.Value
		}
	}
	if revision == "" {
		return "unknown"
	}
	name := revision[:min(12, len(revision))]
	if modified == "true" && (named || differs(ctx)) {
		name += "+"
	}
	return name
}

// differs reports whether files other than documents and this module differ from their commit.
func differs(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no", "--", ":/",
		":(exclude,top)docs", ":(exclude,top)bench/peers").Output()
	return err != nil || strings.TrimSpace(string(out)) != ""
}

// processorTime returns the processor time of all programs on this machine, and that of this
// program with its finished children. Neither has the kernel's own work for the network.
func processorTime() (all, ours time.Duration) {
	const jiffy = 10 * time.Millisecond // of /proc/stat, everywhere
	words := strings.Fields(field("/proc/stat", "cpu "))
	for i, w := range words {
		if i < 3 { // user, nice, system
			n, _ := strconv.ParseInt(w, 10, 64)
			all += time.Duration(n) * jiffy
		}
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			ours += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return all, ours
}

// othersTook returns a function that returns how many cores other programs have used since.
func othersTook() func() float64 {
	begin := time.Now()
	all, ours := processorTime()
	return func() float64 {
		allNow, oursNow := processorTime()
		return max(0, ((allNow-all)-(oursNow-ours)).Seconds()/time.Since(begin).Seconds())
	}
}
