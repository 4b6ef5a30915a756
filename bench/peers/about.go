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

// weftModule is where the weft command is.
const weftModule = "github.com/weftnet/weft"

// weftBinary is the one that is named, or one that is built of the module that this one stands beside.
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
	for _, stamp := range []string{"auto", "false"} { // git may be unwilling to say which commit this is
		build := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(module)), "-buildvcs="+stamp, "-o", binary, "./cmd/weft")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err = build.CombinedOutput(); err == nil {
			return binary, nil
		}
	}
	return "", fmt.Errorf(where+"%w: %s", err, out)
}

// machine is what this runs on, as far as it tells.
func machine() contest.Machine {
	kernel, _, _ := strings.Cut(field("/proc/sys/kernel/osrelease", ""), "-") // what comes then is the builder's
	m := contest.Machine{CPU: "unknown", Cores: runtime.NumCPU(), Kernel: kernel, Go: runtime.Version()}
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

// commit names the Weft that was measured: by what the binary says of itself, with a + if it was built of files that differ
// from it. It says so of a document that differs, too; of that, git is asked where the binary was built of what is here.
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

// differs reports whether files differ from their commit, other than documents and this module.
func differs(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude,top)docs", ":(exclude,top)bench/peers").Output()
	return err != nil || strings.TrimSpace(string(out)) != ""
}

// processorTime is what all programs of this machine have used, and what this one has with all that it has started and waited for.
// The kernel's own work for the network is in neither.
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

// othersTook returns a function that tells how many cores others have used since.
func othersTook() func() float64 {
	begin := time.Now()
	all, ours := processorTime()
	return func() float64 {
		allNow, oursNow := processorTime()
		return max(0, ((allNow-all)-(oursNow-ours)).Seconds()/time.Since(begin).Seconds())
	}
}
