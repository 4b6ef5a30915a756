package launch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/launch/launchtest"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/sim"
)

// sweep is a job on an unreliable network, with a death, from one seed. The seed decides
// everything:
//
//	hosts, ranks, policy │ losses, copies, delays, partitions that heal │ the death, and its step
//
// A stranger sends forged messages to the launcher and to the keepers.
type sweep struct {
	*job
	rng    *rand.Rand
	faults bool
	death  *death // nil: none
	at     int    // step of the death
	host   int    // the host of the death

	failing  int // rank that fails in the first life; -1: none
	launcher *sim.Process
	dead     time.Duration // when the death was; 0: not yet
	lost     map[string]bool
	wrong    []string
}

func newSweep(seed uint64, defect mutate.LaunchDefect) *sweep {
	rng := rand.New(rand.NewPCG(seed, 33))
	hosts, perHost := 2+rng.IntN(4), 1+rng.IntN(2)
	cfg := sim.Config{Seed: seed, NICs: hosts}
	s := &sweep{rng: rng, faults: rng.IntN(3) > 0, failing: -1, lost: make(map[string]bool)}
	if s.faults {
		cfg.Faults = sim.Faults{Loss: 0.02 * rng.Float64(), Duplicate: 0.02 * rng.Float64(), Reorder: 0.02 * rng.Float64(),
			Delay: 0.02 * rng.Float64(), DelayMax: 50 * time.Millisecond}
		if rng.IntN(3) == 0 {
			cfg.Faults.Partitions = sim.Episodes{Every: 3 * time.Second, Lasting: time.Second}
		}
	}
	w := launchtest.New(cfg, perHost)
	s.job = &job{World: w, console: launchtest.NewConsole()}
	s.options = w.Options(perHost)
	s.options.Defect = defect
	w.Defect = defect
	s.options.OnDeath = []launch.OnDeath{{}, {Policy: launch.Shrink}, {Policy: launch.Restart, Restarts: 2}}[rng.IntN(3)]
	if rng.IntN(2) == 0 {
		s.failing = rng.IntN(hosts * perHost)
	}
	if rng.IntN(3) > 0 {
		s.death = &deaths[rng.IntN(len(deaths))]
		s.at, s.host = rng.IntN(8*hosts*perHost), 1+rng.IntN(hosts-1)
	}
	if rng.IntN(8) == 0 {
		w.Hosts[rng.IntN(hosts)].Slots = 0
	}
	w.Program = s.program
	w.At = s.step
	return s
}

// program writes, and one rank fails in its first life.
func (s *sweep) program(r *launchtest.Rank) launch.Exit {
	for i := range 4 {
		r.Print(fmt.Sprintf("rank %d, line %d\n", r.Number, i))
		if !r.Sleep(time.Duration(3+r.Number) * time.Millisecond) {
			return launch.Exit{}
		}
		if i == 2 && r.Number == s.failing && r.Restart == 0 {
			return launch.Exit{Status: 7}
		}
	}
	r.Sleep(s.last(r.Restart))
	return launch.Exit{}
}

// last returns how long the ranks stay that do not fail. If one fails, they stay until they are
// ended.
func (s *sweep) last(life int) time.Duration {
	if s.failing >= 0 && life == 0 && s.options.OnDeath.Policy != launch.Shrink {
		return time.Minute
	}
	return 50 * time.Millisecond
}

// step is called at every step of the job.
func (s *sweep) step(e launchtest.Event) {
	if e.What == "rank" {
		s.oneLife()
	}
	if s.death != nil && len(s.Events) == s.at+1 {
		s.F.After(0, func() {
			s.dead = s.F.Elapsed()
			s.death.dies(s.job, s.launcher, s.host)
		})
	}
}

// oneLife notes ranks of an earlier life of the job that live together with ranks of a later
// life, on hosts that the launcher reached.
func (s *sweep) oneLife() {
	for _, n := range s.console.Notes {
		if n.Kind == launch.NoteHostLost {
			s.lost[n.Host] = true
		}
	}
	latest := 0
	for _, h := range s.Hosts {
		for _, k := range h.Keepers {
			latest = max(latest, k.Restart)
		}
	}
	for i, h := range s.Hosts {
		for _, k := range h.Keepers {
			if k.Restart < latest && k.Alive() > 0 && !s.lost[fmt.Sprintf("h%d", i)] {
				s.wrong = append(s.wrong, fmt.Sprintf("host %d: ranks of life %d live beside life %d", i, k.Restart, latest))
			}
		}
	}
}

// stranger sends messages that only a launcher or a keeper may send, to the launcher and all
// keepers.
func (s *sweep) stranger(p *sim.Process) error {
	ctx := context.Background()
	for round := range 40 {
		for i := range s.options.Hosts {
			h := s.options.Hosts[i]
			start, err := json.Marshal(&launch.Start{Job: s.options.Job, Argv: s.options.Argv, Program: s.options.Program,
				Dir: s.options.Dir, Ranks: h.Ranks, Size: s.ranks()})
			if err != nil {
				return err
			}
			name := weft.Name{App: s.options.Job + ".run", Index: uint32(i + 1)}
			// A start.
			_ = p.Peer(name).Send(ctx, 1, append(append([]byte{1}, make([]byte, 9)...), start...))
			ended := fmt.Sprintf(`{"rank":%d,"pid":1,"exit":99}`, round%s.ranks())
			// An end.
			_ = p.Peer(launch.LauncherName(s.options.Job)).Send(ctx, 1, append([]byte{0x43}, ended...))
		}
		if err := p.Runtime().Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweep) ranks() (n int) {
	for _, h := range s.options.Hosts {
		n += len(h.Ranks)
	}
	return n
}

// run runs the job. Its error is a broken promise.
func (s *sweep) run() error {
	s.F.Serve(len(s.Hosts)-1, "stranger/0", s.stranger)
	s.launcher = s.start()
	if err := s.World.Run(s.launcher, 5*time.Minute, 45*time.Second); err != nil {
		return err
	}
	if len(s.wrong) > 0 {
		return errors.New(strings.Join(s.wrong, "\n"))
	}
	return s.judge()
}

// judge checks the launcher's result against what happened.
func (s *sweep) judge() error {
	r := s.result
	if r == nil {
		if s.dead > 0 && !s.death.launcherLives {
			return nil
		}
		return errors.New("the launcher returned no result")
	}
	for i := range r.Ranks {
		if r.Ranks[i].Status == 99 {
			return fmt.Errorf("rank %d has the status that a stranger sent", i)
		}
	}
	refused := s.refuses()
	switch undisturbed := s.dead == 0 && !s.faults; {
	case !undisturbed:
		return nil
	case refused:
		if r.Status != launch.StatusRefused || len(r.Refusals) != 1 || len(r.Ranks)+len(r.Unknown) > 0 {
			return fmt.Errorf("a host refused, and the result is %+v", r)
		}
	case s.failing >= 0 && s.options.OnDeath.Policy == launch.Restart:
		if r.Status != 0 || r.Restarts != 1 {
			return fmt.Errorf("a rank failed in its first life, and the result is %+v", r)
		}
	case s.failing >= 0 && s.options.OnDeath.Policy == launch.End:
		if r.Status != 7 || !strings.HasPrefix(r.Cause, fmt.Sprintf("rank %d on ", s.failing)) {
			return fmt.Errorf("rank %d failed, and the result is %+v", s.failing, r)
		}
	case s.failing < 0:
		if r.Status != 0 || len(r.Unknown) > 0 {
			return fmt.Errorf("all went well, and the result is %+v", r)
		}
	}
	if s.dead == 0 && !s.faults && s.took > 10*time.Second {
		return fmt.Errorf("the launcher took %v", s.took)
	}
	return nil
}

// refuses reports whether a host has no slots.
func (s *sweep) refuses() bool {
	for _, h := range s.Hosts {
		if h.Slots == 0 {
			return true
		}
	}
	return false
}

// The promises of a launch hold, whatever the network loses and whichever process dies.
func TestALaunchKeepsItsPromisesOnAnUnreliableNetwork(t *testing.T) {
	seeds := uint64(150)
	if *long {
		seeds = 5000
	}
	first := sim.Seed(1)
	for seed := first; seed < first+seeds; seed++ {
		if err := newSweep(seed, mutate.LaunchNone).run(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// Each defect breaks a promise for some seed. The first 34 seeds find all of them.
func TestEachDefectOfALaunchIsFound(t *testing.T) {
	const most = 1000
	for _, d := range mutate.LaunchDefects() {
		t.Run(string(d), func(t *testing.T) {
			for seed := uint64(1); seed <= most; seed++ {
				if err := newSweep(seed, d).run(); err != nil {
					t.Logf("seed %d: %.200v", seed, err)
					return
				}
			}
			t.Errorf("%d seeds do not find it", most)
		})
	}
}
