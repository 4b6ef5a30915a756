package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// aKeeper returns the daemon's side of a keeper, and the other end of its link for the test. The
// keeper's process sleeps.
func aKeeper(t *testing.T) (k *keeper, end *ctl.KeeperLink) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	var links [2]*ctl.KeeperLink
	for i, fd := range pair {
		if links[i], err = ctl.NewKeeperLink(os.NewFile(uintptr(fd), "keeper link")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { links[i].Close() })
	}
	k = &keeper{link: links[0], cmd: exec.Command("sleep", "600"), answer: make(chan *ctl.FromKeeper, 1), gone: make(chan struct{}),
		mute: make(chan struct{}), waiting: make(map[chan<- []ctl.RankInfo]bool)}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.cmd.Process.Kill(); k.cmd.Wait() })
	return k, links[1]
}

// isKilled waits until the process of a keeper is killed.
func (k *keeper) isKilled(t *testing.T, what string) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- k.cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Errorf("%s: the keeper has ended by itself", what)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s: the keeper is not killed", what)
	}
}

func TestTheStateOfAJobIsWhatItsKeeperSaid(t *testing.T) {
	k := &keeper{}
	for _, c := range []struct {
		m    ctl.FromKeeper
		want string
		pids int
	}{
		{ctl.FromKeeper{}, ctl.JobReserved, 0},
		{ctl.FromKeeper{Started: []int{4, 5}}, ctl.JobRunning, 2},
		{ctl.FromKeeper{Started: []int{6}}, ctl.JobRunning, 2}, // no second start
		{ctl.FromKeeper{Ending: true}, ctl.JobEnding, 2},
		{ctl.FromKeeper{}, ctl.JobEnding, 2},
	} {
		if k.take(&c.m); k.state() != c.want || len(k.started) != c.pids {
			t.Errorf("behind %+v the job is %s with %d ranks; expected %s with %d", c.m, k.state(), len(k.started), c.want, c.pids)
		}
	}
}

// A keeper runs as a user, and may report without end.
func TestTheReportOfAKeeperIsBounded(t *testing.T) {
	k := &keeper{waiting: map[chan<- []ctl.RankInfo]bool{}}
	k.take(&ctl.FromKeeper{Ranks: make([]ctl.RankInfo, limits.RanksPerHost-1)})
	k.take(&ctl.FromKeeper{Ranks: make([]ctl.RankInfo, 2)})
	if n := len(k.report); n != limits.RanksPerHost-1 {
		t.Errorf("%d ranks are kept", n)
	}
	k.take(&ctl.FromKeeper{Ranks: make([]ctl.RankInfo, 1)})
	if n := len(k.report); n != limits.RanksPerHost {
		t.Errorf("%d ranks are kept; expected %d", n, limits.RanksPerHost)
	}
	if k.take(&ctl.FromKeeper{Report: true}); k.report != nil {
		t.Errorf("behind the report %d ranks are kept", len(k.report))
	}
}

func TestAKeeperIsAskedOnceForAllThatWaitForItsReport(t *testing.T) {
	k, end := aKeeper(t)
	if err := k.link.Tell(&ctl.ToKeeper{Begin: &ctl.KeeperBegin{Reserve: &ctl.Reserve{Job: "job-00000001", Size: 1, Ranks: 1,
		Launcher: ctl.Address{NIC: 1, Slot: 1}, Program: "/p", Dir: "/"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := end.Told(); err != nil {
		t.Fatal(err)
	}
	got := make(chan []ctl.RankInfo, 2)
	for range cap(got) {
		go func() { got <- k.ranks() }()
	}
	if m, err := end.Told(); err != nil || !m.Report {
		t.Fatalf("%+v, %v; expected a request for a report", m, err)
	}
	eventually(t, "the second asker", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.waiting) == 2
	})
	k.take(&ctl.FromKeeper{Ranks: []ctl.RankInfo{{PID: 5}}, Report: true})
	for range cap(got) {
		if ranks := <-got; len(ranks) != 1 || ranks[0].PID != 5 {
			t.Errorf("an asker gets %+v", ranks)
		}
	}
	if err := k.link.Tell(&ctl.ToKeeper{Stops: true}); err != nil {
		t.Fatal(err)
	}
	if m, err := end.Told(); err != nil || m.Report {
		t.Errorf("%+v, %v; expected no second request for a report", m, err)
	}
}

func TestAKeeperThatIsGoneReportsNothingAndKeepsNoAsker(t *testing.T) {
	k, _ := aKeeper(t)
	k.ended()
	if ranks := k.ranks(); ranks != nil || len(k.waiting) > 0 {
		t.Errorf("a keeper that has ended reports %v, and %d ask", ranks, len(k.waiting))
	}
	k, end := aKeeper(t)
	end.Close()
	if ranks := k.ranks(); ranks != nil || len(k.waiting) > 0 {
		t.Errorf("a keeper without a link reports %v, and %d ask", ranks, len(k.waiting))
	}
}

// The earliest end counts. A keeper that ends in time is not killed: another process may have its
// pid by then.
func TestAKeeperIsKilledAtTheEarliestEndThatWasAskedFor(t *testing.T) {
	k, _ := aKeeper(t)
	k.killWithin(time.Hour)
	first := k.latest
	k.killWithin(2 * time.Hour)
	if k.latest != first {
		t.Error("a later end has taken the place of an earlier one")
	}
	k.killWithin(time.Millisecond)
	if !k.latest.Before(first) {
		t.Error("the earlier end is not noted")
	}
	k.isKilled(t, "the earlier end")
	k, _ = aKeeper(t)
	k.killWithin(time.Hour)
	if k.ended(); k.limit.Stop() {
		t.Error("the end of a keeper leaves its timer")
	}
	(&keeper{gone: make(chan struct{})}).ended() // a keeper without a timer
}

func TestAKeeperLearnsWhoEndsItsJobAndThatOneWithoutALinkIsKilled(t *testing.T) {
	k, end := aKeeper(t)
	before := time.Now()
	k.end(time.Minute, "alice")
	if k.state() != ctl.JobEnding || k.latest.Sub(before) < time.Minute+limits.KeeperExtra || k.latest.Sub(before) > 2*time.Minute {
		t.Errorf("%s, killed within %v", k.state(), k.latest.Sub(before))
	}
	end.Close()
	before = time.Now()
	k.end(time.Minute, "alice")
	if d := k.latest.Sub(before); d > time.Minute {
		t.Errorf("a keeper without a link is killed within %v; expected %v", d, limits.KeeperExtra)
	}
	k.limit.Stop()
}

// A keeper that sends a malformed packet is killed. One that ends in order is not.
func TestWhatAKeeperSaysFirstIsItsAnswerAndNonsenseEndsIt(t *testing.T) {
	k, end := aKeeper(t)
	go k.listen()
	for _, m := range []*ctl.FromKeeper{{Started: []int{3}}, {Refusals: []ctl.Refusal{{What: ctl.RefusedDir}}}, {Ready: true}} {
		if err := end.Answer(m); err != nil {
			t.Fatal(err)
		}
	}
	m, err := k.firstAnswer(t.Context())
	if err != nil || m.Ready || len(m.Refusals) != 1 {
		t.Errorf("the first answer is %+v, %v", m, err)
	}
	if err := end.Answer(&ctl.FromKeeper{Ranks: []ctl.RankInfo{{Standing: &ctl.Standing{}}}}); err != nil {
		t.Fatal(err)
	}
	k.isKilled(t, "nonsense")
	close(k.mute)
	if m, err := k.firstAnswer(t.Context()); err == nil || !strings.Contains(err.Error(), "has ended before it was ready") {
		t.Errorf("the answer of one that has ended is %+v, %v", m, err)
	}
	quiet, end := aKeeper(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if m, err := quiet.firstAnswer(ended); err == nil || !strings.Contains(err.Error(), "going down") {
		t.Errorf("the answer at the end of the daemon is %+v, %v", m, err)
	}
	end.Close()
	if quiet.listen(); errors.Is(quiet.cmd.Process.Signal(unix.Signal(0)), os.ErrProcessDone) {
		t.Error("a keeper that ends in order is killed")
	}
}

func TestWhatAKeeperWritesIsLoggedWithinItsBounds(t *testing.T) {
	said, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer says.Close()
		fmt.Fprintln(says, strings.Repeat("a", 3*limits.KeeperLineBytes)+"b")
		for i := range limits.KeeperLines + 10 {
			fmt.Fprintln(says, "line", i)
		}
	}()
	var log bytes.Buffer
	k := &keeper{mute: make(chan struct{})}
	k.logLines(said, slog.New(slog.NewTextHandler(&log, nil)))
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	last := fmt.Sprint("line ", limits.KeeperLines-2)
	if len(lines) != limits.KeeperLines || !strings.Contains(lines[0], "cut=true") || strings.Contains(lines[0], "b ") || strings.Contains(lines[1], "aaa") ||
		!strings.Contains(lines[len(lines)-1], last) || k.lastWords() != ": "+last {
		t.Errorf("%d lines, the last words are %q; expected %d and %q", len(lines), k.lastWords(), limits.KeeperLines, last)
	}
	if _, err := said.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) || errors.Is(err, io.EOF) {
		t.Errorf("the pipe is open: %v", err)
	}
}
