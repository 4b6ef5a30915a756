package sim

import (
	"math"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// Faults holds the rates of random faults. A rate is a probability for each frame, from 0 to 1. The
// zero value causes no faults. Methods of Fabric, such as Partition and Kill, cause faults at
// chosen times.
type Faults struct {
	// Loss is the rate of lost frames.
	Loss float64
	// LossBurst is the mean number of frames lost in a burst. 0 means 1. A burst ends within 2 ms.
	LossBurst float64
	// Duplicate is the rate of frames that arrive twice, the second time up to DelayMax later.
	Duplicate float64
	// Reorder is the rate of frames that later frames overtake.
	Reorder float64
	// Corrupt is the rate of frames with one to four damaged bytes.
	Corrupt float64
	// Truncate is the rate of frames cut short.
	Truncate float64
	// Delay is the rate of frames that arrive up to DelayMax late and delay the frames behind them.
	Delay float64
	// DelayMax is the longest delay. It is at least 10 × Link.Latency, even if the field is
	// smaller.
	DelayMax time.Duration

	Partitions Episodes // a random set of NICs is cut off from the rest
	Clogs      Episodes // frames from one NIC to another are held up, then all are delivered
	Stalls     Episodes // one NIC does nothing, as if its host were busy
	Reboots    Episodes // one host dies with its processes, then starts again with them
}

// Episodes holds the rate of random faults that last for some time.
type Episodes struct {
	Every   time.Duration // mean time between two episodes; 0 means never
	Lasting time.Duration // mean duration of an episode
}

// Counts holds the number of faults of each kind.
type Counts struct {
	Lost        uint64 `json:"lost"`        // lost frames
	Duplicated  uint64 `json:"duplicated"`  // duplicated frames
	Reordered   uint64 `json:"reordered"`   // reordered frames
	Corrupted   uint64 `json:"corrupted"`   // corrupted frames
	Truncated   uint64 `json:"truncated"`   // truncated frames
	Delayed     uint64 `json:"delayed"`     // delayed frames
	Partitioned uint64 `json:"partitioned"` // frames lost to partitions
	Clogged     uint64 `json:"clogged"`     // frames held up by clogs
	TooLong     uint64 `json:"too_long"`    // frames lost because they were too long for their path
	Overflowed  uint64 `json:"overflowed"`  // frames lost to a full receive queue
	Unplugged   uint64 `json:"unplugged"`   // frames lost to a stopped NIC

	Partitions uint64 `json:"partitions"` // partitions
	Clogs      uint64 `json:"clogs"`      // clogs
	Narrows    uint64 `json:"narrows"`    // narrowed paths
	Stalls     uint64 `json:"stalls"`     // stalls
	Pauses     uint64 `json:"pauses"`     // paused processes
	Restarts   uint64 `json:"restarts"`   // restarted NICs
	Deaths     uint64 `json:"deaths"`     // killed processes
	Detached   uint64 `json:"detached"`   // processes expelled by their NIC
}

// carry decides what happens to a frame that leaves its port.
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

// lose decides whether a frame is lost. Losses come in bursts of geometric length, as from a full
// switch.
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

// duplicate sends a copy of a frame, sometimes so late that the frame's session is over.
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

// heavyTail draws a delay up to DelayMax. Most delays are short: their logarithm is uniform.
func (net *network) heavyTail() time.Duration {
	most := max(net.faults.DelayMax, 10*net.link.Latency)
	span := math.Log(float64(most) / float64(time.Microsecond))
	return time.Duration(math.Exp(net.rng.Float64()*span) * float64(time.Microsecond))
}
