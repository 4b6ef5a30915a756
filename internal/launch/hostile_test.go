package launch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/launch/launchtest"
	"github.com/weftnet/weft/sim"
)

func launcherOf(r *ctl.Reserve) weft.Address {
	return weft.Address{NIC: weft.NICID(r.Launcher.NIC), Slot: r.Launcher.Slot, Generation: r.Launcher.Generation}
}

// A keeper runs as the user, so it may be any program. If it sends a message that no keeper
// sends, its host loses its place in the job, and nothing else happens.
func TestAKeeperThatSendsNonsenseLosesItsHostOnly(t *testing.T) {
	for what, b := range map[string][]byte{
		"no bytes":            {},
		"an unknown kind":     {0x7f},
		"a launcher's kind":   {5},
		"a rank of another":   {0x41, 0, 0, 0, 0},
		"a rank of no job":    {0x41, 0xff, 0xff, 0, 0},
		"a long message":      bytes.Repeat([]byte{0x40}, 100_000),
		"no JSON":             []byte("\x43{"),
		"too many entries":    append([]byte{0x45, 1}, bytes.Repeat([]byte{1}, 40_000)...),
		"a barrier of no PMI": {0x45, 0},
	} {
		t.Run(what, func(t *testing.T) {
			j := newJob(3, 1, sleeps(10*time.Second))
			j.options.OnDeath = launch.OnDeath{Policy: launch.Shrink}
			j.Hosts[2].Keep = func(p *sim.Process, r *ctl.Reserve) error {
				ctx := context.Background()
				if _, err := p.PeerAt(launcherOf(r)).Recv(ctx, 1, make([]byte, 10_000)); err != nil {
					return err
				}
				_ = p.PeerAt(launcherOf(r)).Send(ctx, 1, b)
				_, err := p.PeerAt(launcherOf(r)).Recv(ctx, 3, nil)
				return err
			}
			r := j.run(t)
			if r.Status != 0 || r.Ranks[0].Failed() || r.Ranks[1].Failed() || !r.Ranks[2].Failed() {
				t.Errorf("%+v", r)
			}
			if !strings.Contains(r.Ranks[2].Cause, "host h2: its keeper sent a ") {
				t.Errorf("rank 2: %q", r.Ranks[2].Cause)
			}
		})
	}
}

// A stranger can send any messages to the launcher and to the keepers. They have no effect, and
// take no room from the job.
func TestStrangersNeitherSpeakForKeepersNorBlockThem(t *testing.T) {
	j := newJob(3, 1, func(r *launchtest.Rank) launch.Exit {
		for range 100 {
			r.Print(strings.Repeat("z", 50_000) + "\n")
			r.Sleep(10 * time.Millisecond)
		}
		return launch.Exit{}
	})
	sent := 0
	j.F.Serve(1, "stranger/0", func(p *sim.Process) error {
		ctx := context.Background()
		var to []weft.Name
		for host := range 3 {
			to = append(to, launch.KeeperName(&ctl.Reserve{Job: j.options.Job, Host: host}))
		}
		to = append(to, launch.LauncherName(j.options.Job))
		for _, name := range to {
			if _, err := p.WaitName(ctx, name); err != nil {
				return err
			}
		}
		for i := 0; ; i++ {
			for _, name := range to {
				tag := weft.Tag(1 + i%3)
				for _, b := range [][]byte{append([]byte{4}, make([]byte, 16)...), []byte("\x43{\"rank\":0,\"exit\":9}"), make([]byte, 10_000)} {
					if p.Send(ctx, name, tag, b) == nil {
						sent++
					}
				}
			}
			if err := p.Runtime().Sleep(ctx, time.Millisecond); err != nil {
				return nil
			}
		}
	})
	r := j.run(t)
	if r.Status != 0 || r.Strangers == 0 {
		t.Errorf("%+v", r)
	}
	for n := range 3 {
		if len(j.console.Of(n)) != 100*50_001 {
			t.Errorf("rank %d wrote %d bytes", n, len(j.console.Of(n)))
		}
	}
	if sent < 3000 {
		t.Errorf("the stranger sent %d messages; expected more", sent)
	}
}

func TestAJobThatADaemonEndsHasThatCause(t *testing.T) {
	j := newJob(3, 2, sleeps(time.Hour))
	j.F.After(time.Second, func() { j.World.Kill(1, 100*time.Millisecond) })
	if r := j.run(t); r.Status != 143 || r.Cause != "host h1: its daemon was asked to end the job" || j.took > 3*time.Second {
		t.Errorf("%+v after %v", r, j.took)
	}
	j = newJob(3, 2, sleeps(time.Hour))
	j.World.KilledBy = "user alice on h9 (NIC 0:0:0:0:0:0:0:9)"
	j.F.After(time.Second, func() { j.World.Kill(1, 100*time.Millisecond) })
	want := "host h1: its daemon was asked to end the job by user alice on h9 (NIC 0:0:0:0:0:0:0:9)"
	if r := j.run(t); r.Status != 143 || r.Cause != want {
		t.Errorf("%+v; expected %s", r, want)
	}
}

func TestAKeeperThatDoesNotEndIsEndedByItsDaemon(t *testing.T) {
	j := newJob(3, 1, func(r *launchtest.Rank) launch.Exit {
		r.Unkillable = r.Number == 2
		if r.Number == 0 {
			r.Sleep(100 * time.Millisecond)
			return launch.Exit{Status: 4}
		}
		r.Sleep(time.Hour)
		return launch.Exit{}
	})
	r := j.run(t)
	if r.Status != 4 || j.Killed != 1 || len(r.Unknown) != 1 || j.took > time.Second+launch.Patience {
		t.Errorf("%+v after %v; %d kills", r, j.took, j.Killed)
	}
}

func TestStagingComesBeforeAnyRank(t *testing.T) {
	brought := 0
	j := newJob(3, 1, func(r *launchtest.Rank) launch.Exit {
		if brought != 3 {
			return launch.Exit{Status: 1}
		}
		return launch.Exit{}
	})
	j.options.Stage = &launch.Stage{
		Manifest: func(restart int) []byte { return fmt.Appendf(nil, "content of life %d", restart) },
		Serve: func(ctx context.Context, p *weft.Process, _ int) error {
			return p.Runtime().Sleep(ctx, time.Hour)
		},
	}
	j.Stage = func(ctx context.Context, p *weft.Process, manifest []byte, hosts int) error {
		if string(manifest) != "content of life 0" || hosts != 3 {
			return fmt.Errorf("%q for %d hosts", manifest, hosts)
		}
		// Longer than a keeper waits for a start without staging.
		err := p.Runtime().Sleep(ctx, 40*time.Second)
		brought++
		return err
	}
	if r := j.run(t); r.Status != 0 {
		t.Errorf("%+v", r)
	}
}

func TestAHostThatCannotStageRefusesTheJob(t *testing.T) {
	n := 0
	j := newJob(3, 1, hello)
	j.options.Stage = &launch.Stage{
		Manifest: func(int) []byte { return []byte("content") },
		Serve:    func(ctx context.Context, p *weft.Process, _ int) error { return p.Runtime().Sleep(ctx, time.Hour) },
	}
	j.Stage = func(context.Context, *weft.Process, []byte, int) error {
		if n++; n == 2 {
			return errors.New("no room on the disk")
		}
		return nil
	}
	r := j.run(t)
	if r.Status != launch.StatusRefused || len(r.Refusals) != 1 || r.Refusals[0].Text != "no room on the disk" || len(r.Ranks) != 0 {
		t.Errorf("%+v", r)
	}
}
