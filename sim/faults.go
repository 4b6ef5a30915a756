package sim

import (
	"math"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// Faults are what goes wrong by chance. Rates are probabilities per frame; the zero value is a network without faults.
// Faults that are to happen at a chosen time are methods of Fabric: Partition, Clog, Narrow, StopNIC, Kill, …
type Faults struct {
	Loss      float64 // frames lost, in bursts of LossBurst on average
	LossBurst float64 // frames; 0 = 1. A burst ends after 2 ms at the latest
	Duplicate float64 // frames that come again, up to DelayMax later
	Reorder   float64 // frames that others overtake
	Corrupt   float64 // frames with one to four bytes damaged
	Truncate  float64 // frames cut short
	Delay     float64 // frames that hold up all behind them, up to DelayMax
	DelayMax  time.Duration

	Partitions Episodes // a random part of the NICs is cut off from the rest
	Clogs      Episodes // one direction between two NICs delivers nothing, then all at once
	Stalls     Episodes // one NIC gets no turn, as if its host were busy
	Reboots    Episodes // one host dies with its processes and starts again after the episode, its functions anew
}

// Episodes come at random, on average once in Every, and last Lasting on average. Zero Every: never.
type Episodes struct {
	Every   time.Duration
	Lasting time.Duration
}

// Counts says how often each fault has happened.
type Counts struct {
	Lost        uint64 `json:"lost"`
	Duplicated  uint64 `json:"duplicated"`
	Reordered   uint64 `json:"reordered"`
	Corrupted   uint64 `json:"corrupted"`
	Truncated   uint64 `json:"truncated"`
	Delayed     uint64 `json:"delayed"`
	Partitioned uint64 `json:"partitioned"` // frames lost to partitions
	Clogged     uint64 `json:"clogged"`     // frames held up by clogs
	TooLong     uint64 `json:"too_long"`    // frames lost because they were longer than their path carries
	Overflowed  uint64 `json:"overflowed"`  // frames lost because a receive queue was full
	Unplugged   uint64 `json:"unplugged"`   // frames that came to a stopped NIC

	Partitions uint64 `json:"partitions"`
	Clogs      uint64 `json:"clogs"`
	Narrows    uint64 `json:"narrows"` // paths that began to carry less
	Stalls     uint64 `json:"stalls"`
	Restarts   uint64 `json:"restarts"` // NICs stopped and started again
	Deaths     uint64 `json:"deaths"`   // processes killed
	Detached   uint64 `json:"detached"` // processes that their NIC would not serve any longer
}

// carry takes a frame that leaves its port at an instant and decides what becomes of it.
func (net *network) carry(f *frame, leaves clock.Time) {
	if !net.known(f.to) {
		net.release(f)
		return
	}
	at := net.path(f.from, f.to)
	arrives := leaves.Add(net.link.Latency + net.upTo(net.link.Jitter))
	if net.link.Reliable {
		net.arriveInOrder(f, at, arrives)
		return
	}
	if long := at.narrow > 0 && f.n > at.narrow; long || at.blocked > 0 || net.lose(at) {
		switch {
		case at.blocked > 0:
			net.counts.Partitioned++
		case long:
			net.counts.TooLong++
		default:
			net.counts.Lost++
		}
		at.underway -= f.n
		net.release(f)
		return
	}
	if net.chance(net.faults.Duplicate) {
		net.duplicate(f, arrives)
	}
	net.damage(f)
	switch {
	case net.chance(net.faults.Delay):
		net.counts.Delayed++
		net.arriveInOrder(f, at, arrives.Add(net.heavyTail()))
	case net.chance(net.faults.Reorder):
		net.counts.Reordered++
		net.s.push(max(arrives.Add(net.upTo(8*net.link.Latency)), at.clogged), f, 0)
	default:
		net.arriveInOrder(f, at, arrives)
	}
}

func (net *network) arriveInOrder(f *frame, at *path, arrives clock.Time) {
	if at.clogged > arrives {
		net.counts.Clogged++
		arrives = at.clogged
	}
	at.last = max(arrives, at.last+1)
	net.s.push(at.last, f, 0)
}

// lose decides about one frame. Losses come in bursts whose lengths are geometric, as from a full switch.
func (net *network) lose(at *path) bool {
	if at.burst > 0 && net.s.now < at.burstEnd {
		at.burst--
		return true
	}
	mean := max(net.faults.LossBurst, 1)
	if !net.chance(net.faults.Loss / mean) {
		return false
	}
	at.burstEnd = net.s.now.Add(2 * time.Millisecond)
	for at.burst = 0; at.burst < 1000 && net.chance(1-1/mean); {
		at.burst++
	}
	return true
}

// duplicate sends a copy, sometimes so late that its session is over.
func (net *network) duplicate(f *frame, arrives clock.Time) {
	net.counts.Duplicated++
	c := net.newFrame()
	c.from, c.to, c.n = f.from, f.to, f.n
	copy(c.buf, f.buf[:f.n])
	net.path(f.from, f.to).underway += c.n
	net.s.push(arrives.Add(net.heavyTail()), c, 0)
}

// damage corrupts or truncates a frame, or leaves it as it is.
func (net *network) damage(f *frame) {
	if net.chance(net.faults.Corrupt) && f.n > 0 {
		net.counts.Corrupted++
		for range 1 + net.rng.IntN(4) {
			f.buf[net.rng.IntN(f.n)] ^= byte(1 + net.rng.IntN(255))
		}
	}
	if net.chance(net.faults.Truncate) && f.n > 0 {
		net.counts.Truncated++
		n := net.rng.IntN(f.n)
		net.path(f.from, f.to).underway -= f.n - n
		f.n = n
	}
}

func (net *network) chance(p float64) bool { return p > 0 && net.rng.Float64() < p }

func (net *network) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(net.rng.Int64N(int64(d)))
}

// heavyTail draws a delay up to DelayMax of which most are short: uniform in its logarithm.
func (net *network) heavyTail() time.Duration {
	most := max(net.faults.DelayMax, 10*net.link.Latency)
	span := math.Log(float64(most) / float64(time.Microsecond))
	return time.Duration(math.Exp(net.rng.Float64()*span) * float64(time.Microsecond))
}
