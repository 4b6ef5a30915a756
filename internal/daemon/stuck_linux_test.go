package daemon_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
)

// stuckPair is two daemons with two ranks of a job each, and a tool at the first daemon that asks
// both.
type stuckPair struct {
	t     *testing.T
	ranks []*weft.Process // rank r is on host r/2
	hosts []ctl.NIC
}

func newStuckPair(t *testing.T) *stuckPair {
	c := configs(t, 2)
	run(t, c...)
	s := &stuckPair{t: t}
	for r := range 4 {
		s.ranks = append(s.ranks, mustAttach(t, c[r/2], "work/"+string(rune('0'+r))))
	}
	for _, p := range s.ranks {
		for r := range 4 {
			wait(t, p, "work/"+string(rune('0'+r)))
		}
	}
	conn := dialTool(t, c[0])
	s.hosts = []ctl.NIC{conn.NIC(0), conn.NIC(idOf(t, dialTool(t, c[1])))}
	return s
}

// until asks where rank r stands until that is as expected. The test fails if it never is.
func (s *stuckPair) until(r int, what string, ok func(*ctl.Standing) bool) {
	s.t.Helper()
	var last *ctl.Standing
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		part, err := s.hosts[r/2].Stuck(s.t.Context(), "work")
		if err != nil {
			s.t.Fatal(err)
		}
		rows := part.Processes
		if len(rows) != 2 || rows[0].Rank != r/2*2 || rows[1].Rank != rows[0].Rank+1 {
			s.t.Fatalf("the host of rank %d lists %+v", r, rows)
		}
		row := rows[r%2]
		if !row.Attached || row.PID != os.Getpid() || row.State != ctl.RankRunning && row.State != ctl.RankSleeping && row.State != ctl.RankUninterruptible {
			s.t.Fatalf("rank %d is listed as %+v", r, row)
		}
		if last = row.Standing; ok(last) {
			return
		}
	}
	s.t.Errorf("%s: rank %d stands so: %+v", what, r, last)
}

// waits runs call, which blocks. It fails the test unless the NIC reports this wait.
func (s *stuckPair) waits(r int, what string, want ctl.Wait, call func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	s.until(r, what, func(at *ctl.Standing) bool {
		return at.Parked && slices.ContainsFunc(at.Waits, func(w ctl.Wait) bool {
			if (w.At == nil) != (want.Peer == "" || want.Why == "name") || w.For < 0 {
				return false
			}
			w.At, w.For = nil, 0
			return w == want
		})
	})
	cancel()
	if err := ends(s.t, what, done); err != nil && !errors.Is(err, context.Canceled) {
		s.t.Errorf("%s ended with %v", what, err)
	}
	s.until(r, what+" has ended", func(at *ctl.Standing) bool {
		return !slices.ContainsFunc(at.Waits, func(w ctl.Wait) bool { return w.What == want.What && w.Peer == want.Peer })
	})
}

func TestTheNICTellsEachBlockingCallOfAnAttachedProcess(t *testing.T) {
	s := newStuckPair(t)
	long := make([]byte, 4<<20)
	for _, host := range []int{0, 1} {
		r := 2 * host
		p, beside, far := s.ranks[r], s.ranks[r+1].Name(), s.ranks[3-r].Name()
		port, err := p.Port(5)
		if err != nil {
			t.Fatal(err)
		}
		for _, peer := range []weft.Name{beside, far} {
			s.waits(r, "Recv", ctl.Wait{What: "receive", Peer: peer.String(), Tag: 7, Bytes: 10}, func(ctx context.Context) error {
				_, err := p.Recv(ctx, peer, 7, make([]byte, 10))
				return err
			})
			s.waits(r, "RecvAlloc", ctl.Wait{What: "probe", Peer: peer.String(), Tag: 7}, func(ctx context.Context) error {
				_, err := p.RecvAlloc(ctx, peer, 7, 100)
				return err
			})
			s.waits(r, "Call", ctl.Wait{What: "reply", Peer: peer.String(), Bytes: 10}, func(ctx context.Context) error {
				_, err := p.Peer(peer).Call(ctx, 3, []byte("x"), make([]byte, 10))
				return err
			})
			s.waits(r, "Send of a long message", ctl.Wait{What: "send", Why: "permission", Peer: peer.String(), Tag: 9, Bytes: uint64(len(long))}, func(ctx context.Context) error {
				return p.Send(ctx, peer, 9, long)
			})
			s.waits(r, "Multicast of a long message", ctl.Wait{What: "multicast", Why: "copies", Peer: peer.String(), Tag: 9, Bytes: uint64(len(long)), Left: 1}, func(ctx context.Context) error {
				return p.Multicast(ctx, []weft.Name{peer}, 9, long)
			})
			s.waits(r, "Call with a long request", ctl.Wait{What: "send", Why: "permission", Peer: peer.String(), Tag: 3, Bytes: uint64(len(long))}, func(ctx context.Context) error {
				_, err := p.Peer(peer).Call(ctx, 3, long, nil)
				return err
			})
		}
		s.waits(r, "Recv of any", ctl.Wait{What: "receive", Any: true, AnyTag: true, Port: 5}, func(ctx context.Context) error {
			_, err := port.Recv(ctx, weft.AnyProcess, weft.AnyTag, nil)
			return err
		})
		s.waits(r, "RecvDatagram", ctl.Wait{What: "datagram", Any: true, Port: 5, Tag: 2, Bytes: 10}, func(ctx context.Context) error {
			_, err := port.RecvDatagram(ctx, 2, make([]byte, 10))
			return err
		})
		s.waits(r, "WaitName", ctl.Wait{What: "name", Why: "name", Peer: "absent/1"}, func(ctx context.Context) error {
			_, err := p.WaitName(ctx, name(t, "absent/1"))
			return err
		})
		inbox, err := p.Inbox(weft.AnyProcess, 11, 100)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		next := start(func() error {
			_, err := inbox.Next(ctx)
			return err
		})
		s.until(r, "an Inbox", func(at *ctl.Standing) bool {
			return len(at.Waits) == 1 && at.Waits[0].What == "inbox" && at.Waits[0].Any && at.Waits[0].Tag == 11
		})
		cancel()
		if err := ends(t, "Next", next); !errors.Is(err, context.Canceled) {
			t.Errorf("Next ended with %v", err)
		}
		inbox.Close()
		s.until(r, "a closed Inbox", func(at *ctl.Standing) bool { return len(at.Waits) == 0 })
	}
}

func TestTheNICTellsTheOperationOfEachMemberOfAGroup(t *testing.T) {
	s := newStuckPair(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	groups := make([]*weft.Group, 4)
	joins := make([]<-chan error, 4)
	join := func(r int) {
		joins[r] = start(func() (err error) {
			groups[r], err = s.ranks[r].Join(ctx, "world", 4)
			return err
		})
	}
	for r := range 3 {
		join(r)
	}
	for r := range 3 {
		s.until(r, "a join without one member", func(at *ctl.Standing) bool {
			return len(at.Groups) == 1 && at.Groups[0].Group == "world" && at.Groups[0].State == "joining" && at.Groups[0].Present == 3 && at.Groups[0].Size == 4 &&
				at.Groups[0].In.Kind == "join"
		})
	}
	join(3)
	for r := range 4 {
		if err := ends(t, "join", joins[r]); err != nil {
			t.Fatal(err)
		}
	}
	var calls []<-chan error
	for r := range 3 {
		calls = append(calls, start(func() error { return groups[r].Broadcast(ctx, 3, make([]byte, 8)) }))
	}
	for r := range 4 {
		s.until(r, "a broadcast whose root is elsewhere", func(at *ctl.Standing) bool {
			g := at.Groups[0]
			open := g.State == "open" && g.Size == 4 && g.Rank == r && g.Done == 0
			if r == 3 {
				return open && g.In == nil
			}
			return open && g.In != nil && *g.In == ctl.GroupStep{Number: 1, Kind: "broadcast", Root: "work/3"} && at.Parked
		})
	}
	if err := groups[3].Broadcast(ctx, 3, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if err := ends(t, "broadcast", c); err != nil {
			t.Fatal(err)
		}
	}
	s.until(0, "after it", func(at *ctl.Standing) bool { return at.Groups[0].In == nil && at.Groups[0].Done == 1 })
}

func TestARankThatIsStoppedIsToldAsStopped(t *testing.T) {
	c := configs(t, 1)
	run(t, c...)
	x := child(t, "client", "work/0 at "+c[0].Socket)
	conn := dialTool(t, c[0])
	state := func(want string) {
		t.Helper()
		var last []ctl.RankInfo
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			part, err := conn.NIC(0).Stuck(t.Context(), "work")
			if err != nil {
				t.Fatal(err)
			}
			last = part.Processes
			if len(last) == 1 && last[0].State == want && last[0].PID == x.Process.Pid {
				return
			}
		}
		t.Errorf("the NIC tells %+v; expected it to be %s", last, want)
	}
	state(ctl.RankSleeping)
	if err := x.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	state(ctl.RankStopped)
	if err := x.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	state(ctl.RankSleeping)
}

func TestAManyRankedHostTellsOfAllInPages(t *testing.T) {
	c := configs(t, 1)
	c[0].MaxProcesses = 400
	run(t, c...)
	const n = 300
	child(t, "crowd", "300 at "+c[0].Socket)
	part, err := dialTool(t, c[0]).NIC(0).Stuck(t.Context(), "crowd")
	rows := part.Processes
	if err != nil || len(rows) != n {
		t.Fatalf("%d ranks are told, %v", len(rows), err)
	}
	for i, r := range rows {
		if r.Rank != i {
			t.Fatalf("row %d is of rank %d", i, r.Rank)
		}
	}
}

func TestANICWithoutARoleIsToldNothingOfAJob(t *testing.T) {
	c := configs(t, 2)
	c[1].Grants = nil
	run(t, c...)
	a, b := mustAttach(t, c[0], "work/0"), mustAttach(t, c[1], "work/1")
	wait(t, a, "work/1")
	wait(t, b, "work/0")
	part, err := dialTool(t, c[0]).NIC(idOf(t, dialTool(t, c[1]))).Stuck(t.Context(), "work")
	if !errors.Is(err, ctl.ErrRefused) || part.Processes != nil {
		t.Errorf("it was told %+v, %v; expected a refusal", part, err)
	}
}

func TestAJobThatNoApplicationIsNamedAsIsRefused(t *testing.T) {
	var c daemon.Config = configs(t, 1)[0]
	run(t, c)
	for _, id := range []string{"", "Work", "a/0", "a b", "abcdefghijklmnopqrstuvwxyz"} {
		if _, err := dialTool(t, c).NIC(0).Stuck(t.Context(), id); !errors.Is(err, ctl.ErrBadRequest) {
			t.Errorf("job %q: %v; expected ErrBadRequest", id, err)
		}
	}
}
