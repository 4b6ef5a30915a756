package ranks

import (
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// order is the order in which the ranks of the tests below die.
var order = []int{3, 1, 4, 0, 2}

// chain starts ranks of which each dies after the one before it in the order.
func (r *recorder) chain(change func(*Config)) *Set {
	r.t.Helper()
	c := r.config(len(order), argv("follow")...)
	dir := r.t.TempDir()
	c.EnvOf = func(rank int) []string {
		env := []string{"SELF=" + dir + "/" + itoa(rank)}
		if i := slices.Index(order, rank); i > 0 {
			env = append(env, "BEFORE="+dir+"/"+itoa(order[i-1]))
		}
		return env
	}
	change(&c)
	s := r.start(c)
	for i := range order {
		r.awaitText(i, "ready\n")
	}
	return s
}

// awaitDead waits until every rank is dead, whether or not it is reaped.
func awaitDead(t *testing.T, s *Set) {
	t.Helper()
	for _, pid := range s.PIDs() {
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			if p, ok := readProcess(pid); !ok || p.Ended() {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %d lives after %v", pid, patience)
			}
		}
	}
}

// checkOrder checks that the times of death are in the order of the deaths.
func (r *recorder) checkOrder() {
	r.t.Helper()
	last := time.Time{}
	for _, rank := range order {
		e := r.exit(rank)
		if e.Status != 1 || !e.Died.After(last) {
			r.t.Errorf("rank %d ended with %q at %v; expected status 1 after %v, in the order %v",
				rank, e.Cause, e.Died, last, order)
		}
		last = e.Died
	}
}

func TestTheTimesOfDeathAreInOrderThoughTheKeeperIsLate(t *testing.T) {
	r := newRecorder(t)
	s := r.chain(func(*Config) {})
	s.mu.Lock() // neither the reaper nor note goes on
	s.signal(unix.SIGUSR1)
	awaitDead(t, s)
	s.mu.Unlock()
	r.checkOrder()
}

func TestTheTimeOfDeathIsThatOfTheDeathAndNotOfTheReport(t *testing.T) {
	r := newRecorder(t)
	taken := make(chan struct{})
	take := sync.OnceFunc(func() { close(taken) })
	defer take()
	s := r.chain(func(c *Config) {
		c.Output = func(rank, stream int, b []byte) error {
			err := r.output(rank, stream, b)
			if rank == order[0] {
				<-taken
			}
			return err
		}
	})
	s.Signal(unix.SIGUSR1)
	for _, rank := range order[1:] {
		r.exit(rank)
	}
	take() // the first death is reported last
	r.checkOrder()
}

func TestWithoutPidfdsEveryDeathHasItsOwnTime(t *testing.T) {
	r := newRecorder(t)
	s := r.chain(func(c *Config) { c.noPidfds = true })
	before := time.Now()
	s.Signal(unix.SIGUSR1)
	seen := make(map[time.Time]bool)
	for rank := range order {
		seen[r.exit(rank).Died] = true
		if e := r.exit(rank); e.Died.Before(before) {
			t.Errorf("rank %d died at %v; expected a time after %v", rank, e.Died, before)
		}
	}
	if len(seen) != len(order) {
		t.Errorf("%d ranks died at %d times; expected a time for each", len(order), len(seen))
	}
}
