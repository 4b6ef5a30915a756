package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/trust"
)

// A user acts on the reason: the end of a closed NIC is not a fault of the network.
func TestTheLogSaysHowASessionEnded(t *testing.T) {
	a, b := netip.MustParseAddrPort("10.0.0.1:7700"), netip.MustParseAddrPort("10.0.0.2:7700")
	for _, c := range []struct {
		why   error
		text  string
		level slog.Level
	}{
		{rel.ErrGoodbye, "its NIC was closed", slog.LevelInfo},
		{rel.ErrRestarted, "its NIC has restarted", slog.LevelInfo},
		{rel.ErrDisplaced, "another NIC has its address", slog.LevelInfo},
		{rel.ErrForgotten, "neither the list of nodes nor the gossip", slog.LevelInfo},
		{nil, "neither the list of nodes nor the gossip", slog.LevelInfo},
		{&rel.ElsewhereError{Addr: a, From: b}, "silent at 10.0.0.1:7700, and its frames come from another address, 10.0.0.2:7700", slog.LevelWarn},
		{rel.ErrUnreachable, "it is silent", slog.LevelWarn},
		{errors.New("it was revoked"), "it was revoked", slog.LevelWarn},
	} {
		text, level := endOf(c.why)
		if !strings.Contains(text, c.text) || level != c.level {
			t.Errorf("%v: %q at %v; expected %q at %v", c.why, text, level, c.text, c.level)
		}
	}
}

func TestTheStateOfAProcessIsThatOfItsThreads(t *testing.T) {
	x := exec.Command("sleep", "600")
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	pid := x.Process.Pid
	defer func() { x.Process.Kill(); x.Wait() }()
	becomes := func(want string) {
		t.Helper()
		eventually(t, want, func() bool { return processState(pid) == want })
	}
	becomes(ctl.RankSleeping)
	if err := x.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	becomes(ctl.RankStopped)
	if err := errors.Join(x.Process.Signal(unix.SIGCONT), x.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	becomes(ctl.RankEnded) // nothing has reaped it
	if s := processState(os.Getpid()); s != ctl.RankRunning {
		t.Errorf("this process, which runs, is %s", s)
	}
	for state, want := range map[byte]string{'R': ctl.RankRunning, 'D': ctl.RankUninterruptible, 'S': ctl.RankSleeping, 'I': ctl.RankSleeping} {
		if got := stateName(state); got != want {
			t.Errorf("%c is %s; expected %s", state, got, want)
		}
	}
}

func TestAUserWhoIsNotOnThisHostGetsNoKeeper(t *testing.T) {
	if a, err := accountOf(true, "no-such-user", 0); err == nil {
		t.Errorf("a user of another NIC without an account is %+v", a)
	}
	const none = 2_000_000_011
	// the name of a local user does not count
	if a, err := accountOf(false, "root", none); err == nil {
		t.Errorf("a user without an account is %+v", a)
	}
	if no := runsAs(nil, errors.New("none")); no == nil || no.What != ctl.RefusedUser || no.Cure == "" {
		t.Errorf("the refusal is %+v", no)
	}
	own, err := accountOf(false, "", os.Getuid())
	if err != nil || own.uid != os.Getuid() {
		t.Fatalf("the user of this daemon is %+v, %v", own, err)
	}
	if no := runsAs(own, nil); no != nil {
		t.Errorf("the user of this daemon is refused: %+v", no)
	}
	if a := (&account{name: "toor", uid: 0}); a.trusted() != trust.Root {
		t.Errorf("a user of number 0 is %s", a.trusted())
	}
	if bob.trusted() != "bob" {
		t.Errorf("bob is %s", bob.trusted())
	}
}

// A keeper of another user must not use the cache of the daemon's user.
func TestTheCacheOfTheDaemonIsForKeepersOfItsUser(t *testing.T) {
	own := &account{name: "me", uid: os.Getuid(), home: "/h", shell: "/bin/sh"}
	for _, cache := range []string{"", "/cache"} {
		t.Setenv("XDG_CACHE_HOME", cache)
		if got := slices.Contains(own.environment(), "XDG_CACHE_HOME=/cache"); got != (cache != "") {
			t.Errorf("with the cache %q its keeper has %q", cache, own.environment())
		}
		env := bob.environment()
		if slices.ContainsFunc(env, func(s string) bool { return strings.HasPrefix(s, "XDG_CACHE_HOME=") }) {
			t.Errorf("the keeper of another user has %q", env)
		}
		if !slices.Contains(own.environment(), "HOME=/h") || !slices.Contains(env, "LOGNAME=bob") {
			t.Errorf("the environments are %q and %q", own.environment(), env)
		}
	}
}

func TestTheSystemsReasonsFitIntoOneLine(t *testing.T) {
	err := fmt.Errorf("cgroup: make job-1-0: %w", errors.Join(errors.New("mkdir /a: no"), errors.New("mkdir /b: no")))
	if got := noGroupText(err, "job-1-0"); got != "mkdir /a: no; mkdir /b: no" {
		t.Errorf("%q", got)
	}
	if grouplessLevel(0) != slog.LevelWarn || grouplessLevel(1000) != slog.LevelInfo {
		t.Error("root expects control groups, and other users do not")
	}
	if got := escapeGlob(`/a*b?c[d]\e`); got != `/a\*b\?c\[d]\\e` {
		t.Errorf("%q", got)
	}
	if howEnded(nil) != "exit status 0" || howEnded(os.ErrClosed) != os.ErrClosed.Error() {
		t.Errorf("%q, %q", howEnded(nil), howEnded(os.ErrClosed))
	}
}

// A NIC that is refused again and again does not fill the log. Each kind of request is logged.
func TestARefusalIsToldOnceForEachNICAndKindOfRequest(t *testing.T) {
	var f refusals
	for i, c := range []struct {
		nic uint64
		op  string
		due bool
	}{{1, "job", true}, {1, "job", false}, {1, "stat", true}, {2, "job", true}, {2, "job", false}, {1, "stat", false}} {
		if f.due(c.nic, c.op) != c.due {
			t.Errorf("refusal %d, of NIC %d and %s, is told: %v", i, c.nic, c.op, !c.due)
		}
	}
	f.told[refusedOp{1, "job"}] = time.Now().Add(-repeatRefusalAfter)
	if !f.due(1, "job") || f.due(1, "job") {
		t.Error("a refusal is not told again once when its time has come")
	}
}
