//go:build !linux

package poller

import "time"

// lookEvery is the interval of looks at a link with a descriptor, on systems where the sleeper
// cannot watch one.
const lookEvery = 500 * time.Microsecond

// sleeper parks one goroutine until a time has passed or wake is called. It watches no
// descriptor, and instead sleeps briefly.
type sleeper struct {
	woken chan struct{}
	timer *time.Timer
	link  bool
}

func newSleeper(link int) (*sleeper, error) {
	return &sleeper{woken: make(chan struct{}, 1), timer: time.NewTimer(0), link: link >= 0}, nil
}

// sleep parks for d, without limit if d is negative. It may end early.
func (s *sleeper) sleep(d time.Duration) {
	if s.link && (d < 0 || d > lookEvery) {
		d = lookEvery
	}
	if d < 0 {
		<-s.woken
		return
	}
	s.timer.Reset(d)
	select {
	case <-s.woken:
	case <-s.timer.C:
	}
}

// sleepAlone is sleep: the runtime waits for it in any case.
func (s *sleeper) sleepAlone(d time.Duration) { s.sleep(d) }

// wake ends the present or the next sleep.
func (s *sleeper) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

func (s *sleeper) close() error {
	s.timer.Stop()
	return nil
}
