package interleave_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hooked lists the packages below internal/ whose source is rewritten.
var hooked = []string{"vni", "idle", "poller", "proc", "nic", "driver", "ctl"}

const prefix = "github.com/weftnet/weft/internal/interleave"

// edit is a change of one file that makes its code usable for schedules, or wrong. The old text
// must occur exactly once.
type edit struct {
	file     string // path below internal/
	old, new string
}

// ground lists the places where the code uses the kernel or the runtime to wait or to get the
// time. A timer of one nanosecond expires at once.
var ground = []edit{
	{"interleave/instrumented.go", "const Instrumented = false", "const Instrumented = true"},
	{"poller/poller.go", "clock.Time(time.Since(epoch))", "clock.Time(interleave.Now())"},
	{"poller/poller.go", "var epoch = time.Now()", "var _ = time.Now"},
	{"poller/poller.go", "\tselect {\n\tcase <-w.Woken():",
		"\tinterleave.Block(func() bool { return len(w.Woken()) > 0 || ctx.Err() != nil })\n\tselect {\n\tcase <-w.Woken():"},
	{"poller/poller.go", "\tgo p.help()", "\tinterleave.Spawn(\"helper\", p.help)"},
	{"poller/poller.go", "\t\t<-p.stopped\n", closed("p.stopped")},
	{"idle/waiters.go", "\tselect {\n\tcase <-w.Woken():",
		"\tinterleave.Block(func() bool { return len(w.Woken()) > 0 || ctx.Err() != nil })\n\tselect {\n\tcase <-w.Woken():"},
	{"idle/idle.go", "return p.rest(now, yield, clock, switches)", "return p.rest(now, yield, clock, func() int64 { return 0 })"},
	{"idle/idle.go", "int(pollers.Load()) >= runtime.GOMAXPROCS(0)", "int(pollers.Load()) >= 2"},
	{"idle/idle_linux.go", "func YieldThread() { ", "func YieldThread() {\n\tif interleave.Running() {\n\t\tinterleave.Yield()\n\t\treturn\n\t}\n"},
	{"poller/sleeper_linux.go", "_ = unix.TimerfdSettime(s.timer, 0, &unix.ItimerSpec{Value: at}, nil)", "_ = at"},
	{"poller/sleeper_linux.go", "_, _ = unix.Ppoll(fds, nil, nil)", `interleave.BlockFor(func() bool {
		n, _ := unix.Ppoll(fds, new(unix.Timespec), nil)
		return n > 0
	}, d)`},
	{"poller/sleeper_linux.go", "_ = s.conn.Read(s.came)", `interleave.BlockFor(func() bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(s.epoll), Events: unix.POLLIN}}, 0)
		return n > 0
	}, d)
	s.came(uintptr(s.epoll))`},
	{"poller/loop_linux.go", "\t\"runtime\"\n", ""}, // imported for the next alone
	{"poller/loop_linux.go", "\truntime.LockOSThread()\n\tdefer runtime.UnlockOSThread()\n", ""},
	{"poller/loop_linux.go", "if d == 0 { // returns at once", `if d != 0 {
		interleave.BlockFor(func() bool {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(l.epoll), Events: unix.POLLIN}}, 0)
			return n > 0
		}, d)
		d = 0
	}
	if d == 0 { // returns at once`},
	{"poller/loop_linux.go", "context.AfterFunc(ctx, ", "ctx.(interface{ AfterFunc(func()) func() bool }).AfterFunc("},
	{"poller/loop_linux.go", "\t\t\t<-woken", strings.TrimSuffix(closed("woken"), "\n")},
	{"poller/jobs_linux.go", "\t<-done\n", closed("done")},
	{"ctl/attach.go", "\tgo w.listen()\n", "\tinterleave.Spawn(\"listener\", w.listen)\n"},
	{"ctl/waiter.go", "clock.Time(time.Since(epoch))", "clock.Time(interleave.Now())"},
	{"ctl/waiter.go", "var epoch = time.Now()", "var _ = time.Now"},
	{"ctl/waiter.go", "\t\tn, err := w.a.wake.Read(buf[:])\n", "\t\tinterleave.Block(w.a.comes)\n\t\tn, err := w.a.wake.Read(buf[:])\n"},
	{"ctl/waiter.go", "\tselect {\n\tcase <-p.Woken():",
		"\tinterleave.Block(func() bool { return len(p.Woken()) > 0 || ctx.Err() != nil })\n\tselect {\n\tcase <-p.Woken():"},
}

// closed returns code that waits until a channel is closed.
func closed(channel string) string {
	return fmt.Sprintf(`	interleave.Block(func() bool {
		select {
		case <-%s:
			return true
		default:
			return false
		}
	})
`, channel)
}

// rewrite writes the changed sources to dir, and returns the overlay with which the go command
// uses them.
func rewrite(t *testing.T, dir string) string {
	t.Helper()
	text := map[string]string{}
	for _, pkg := range append([]string{"interleave"}, hooked...) {
		files, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources of %s: %v", pkg, err)
		}
		for _, name := range files {
			if !strings.HasSuffix(name, "_test.go") {
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				text[pkg+"/"+filepath.Base(name)] = string(b)
			}
		}
	}
	for _, e := range append(ground, compiledIn(t, text)...) {
		if n := strings.Count(text[e.file], e.old); n != 1 {
			t.Fatalf("%s has %d times, expected once:\n%s", e.file, n, e.old)
		}
		text[e.file] = strings.Replace(text[e.file], e.old, e.new, 1)
	}
	replace := map[string]string{}
	for name, s := range text {
		to := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(to, []byte(hook(name, s)), 0o600); err != nil {
			t.Fatal(err)
		}
		from, err := filepath.Abs(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		replace[from] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// hook makes a source import the hooked packages. The imports are on the line of the package
// clause, so that lines keep their numbers.
func hook(name, s string) string {
	if strings.HasPrefix(name, "interleave/") {
		return s
	}
	s = strings.Replace(s, "\t\"sync/atomic\"\n", fmt.Sprintf("\tatomic %q\n", prefix+"/atomic"), 1)
	s = strings.Replace(s, "import \"sync/atomic\"\n", fmt.Sprintf("import atomic %q\n", prefix+"/atomic"), 1)
	s = strings.Replace(s, "\t\"sync\"\n", fmt.Sprintf("\tsync %q\n", prefix+"/sync"), 1)
	if strings.Contains(s, "runtime.Gosched()") {
		s = strings.ReplaceAll(s, "runtime.Gosched()", "interleave.Yield()") + "\nvar _ = runtime.Gosched\n"
	}
	if !strings.Contains(s, "interleave.") {
		return s
	}
	at := strings.Index(s, "\npackage ") + 1
	end := at + strings.Index(s[at:], "\n")
	return s[:end] + fmt.Sprintf("; import %q", prefix) + s[end:]
}
