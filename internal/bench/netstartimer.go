package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/hotel"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// TimerCost is the cost of one timer that is started with a frame and stopped by its
// acknowledgement, while others run.
type TimerCost struct {
	Running int     `json:"running"`
	Each    float64 `json:"ns_per_timer"` // started and stopped
	Look    float64 `json:"ns_per_look"`  // to check whether one has expired; 0: no check
	ToHotel float64 `json:"times_hotel"`  // ratio to the cost of the hotel
}

// Tick is the delay until a NIC finds a command in a process's queue.
type Tick struct {
	Every   int64 `json:"tick_ns"`
	TickP50 int64 `json:"tick_p50_ns"` // the NIC looks at ticks only
	// the process wakes the NIC by a system call; until the message is at the other process
	CallP50 int64   `json:"call_p50_ns"`
	Slower  float64 `json:"times_call"`
}

const (
	timersRunning = 1024
	timerLasts    = 100 * time.Millisecond
	tickEvery     = 10 * time.Millisecond
)

// timerCosts measures the hotel in comparison with timers of the Go runtime and of the kernel
// (NETSTAR-26).
func timerCosts(ctx context.Context, o NetstarOptions, out func(NetstarRow) error) error {
	hotel, err := hotelCost(o.Time)
	if err != nil {
		return err
	}
	if err := out(NetstarRow{How: "hotel", Timer: &hotel}); err != nil {
		return err
	}
	for _, other := range []struct {
		how  string
		cost func(d time.Duration) (TimerCost, error)
	}{{"Go's runtime", runtimeCost}, {"kernel, timerfd", kernelCost}} {
		c, err := other.cost(o.Time)
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", other.how, err)
		}
		c.ToHotel = c.Each / hotel.Each
		if err := out(NetstarRow{How: other.how, Timer: &c}); err != nil {
			return err
		}
	}
	return nil
}

// perTimer returns the mean time of a call of step in ns, over the time d. step stops the timer
// in a place and starts another.
func perTimer(d time.Duration, step func(place int) error) (float64, error) {
	begin := time.Now()
	for n := 0; ; {
		for place := range timersRunning {
			if err := step(place); err != nil {
				return 0, err
			}
		}
		n += timersRunning
		if took := time.Since(begin); took >= d {
			return float64(took.Nanoseconds()) / float64(n), nil
		}
	}
}

// hotelCost checks for expiry once per timer, as a poll does for all its sends.
func hotelCost(d time.Duration) (c TimerCost, err error) {
	t := hotel.New[int](rel.HotelShift, timersRunning)
	var rooms [timersRunning]int32
	var now clock.Time
	for i := range rooms {
		rooms[i] = t.CheckIn(now, now.Add(timerLasts), i)
	}
	look := func(int) error {
		if _, expired := t.Evict(now); expired {
			return errors.New("bench: a timer has expired that was just started")
		}
		return nil
	}
	c = TimerCost{Running: timersRunning, ToHotel: 1}
	c.Each, err = perTimer(d, func(i int) error {
		// otherwise all of them would be on one floor
		now += clock.Time(time.Microsecond)
		t.CheckOut(rooms[i])
		rooms[i] = t.CheckIn(now, now.Add(timerLasts), i)
		return look(i)
	})
	if err == nil {
		c.Look, err = perTimer(d/10, look)
	}
	return c, err
}

func runtimeCost(d time.Duration) (c TimerCost, err error) {
	var timers [timersRunning]*time.Timer
	for i := range timers {
		timers[i] = time.AfterFunc(timerLasts, func() {})
	}
	c.Running = timersRunning
	c.Each, err = perTimer(d, func(i int) error {
		timers[i].Stop()
		timers[i].Reset(timerLasts)
		return nil
	})
	for _, t := range timers {
		t.Stop()
	}
	return c, err
}

// ticks measures the alternative that the paper rejects (NETSTAR-23), with the real command
// queue, and the system call for comparison.
func ticks(ctx context.Context, o NetstarOptions, out func(NetstarRow) error) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	m, err := newCallMeter(ctx, &down, o.Self, o.Sealing)
	if err != nil {
		return err
	}
	call, err := m.measure(ctx, o.Time, 1, atRest, true)
	if err != nil {
		return err
	}
	p50, err := tickDelay(ctx, o.Time)
	if err != nil {
		return err
	}
	return out(NetstarRow{Size: callSize,
		Tick: &Tick{Every: tickEvery.Nanoseconds(), TickP50: p50, CallP50: call.P50,
			Slower: float64(p50) / float64(call.P50)}})
}

// tickDelay returns the median time from the post of a command until a NIC that looks at ticks
// has it.
func tickDelay(ctx context.Context, d time.Duration) (p50 int64, err error) {
	g := vni.Geometry{Commands: 256, Contexts: 64, Descriptors: 16}
	rw, ro := g.Sizes()
	seg, err := vni.NewSegment(vni.AlignedBytes(rw), vni.AlignedBytes(ro), g)
	if err != nil {
		return 0, err
	}
	p, n := seg.Process(), seg.NIC()
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() { stop(); <-ended }()
	found := make(chan time.Time)
	go func() {
		defer close(ended)
		tick := time.NewTicker(tickEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, ok := n.Next(); ok {
				select {
				case found <- time.Now():
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	var delays []int64
	for begin := time.Now(); len(delays) < 9 || time.Since(begin) < d; {
		if err := sleep(ctx, rand.N(tickEvery)); err != nil {
			return 0, err
		}
		posted := time.Now()
		if !p.Post(vni.Command{Code: vni.CodeBarrier}) {
			return 0, errors.New("bench: a queue that is empty takes no command")
		}
		select {
		case at := <-found:
			delays = append(delays, at.Sub(posted).Nanoseconds())
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return median(delays), nil
}
