package bench

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime returns how long the threads of all programs have run on a processor, in sum.
func processorTime(pids []int) (sum time.Duration, err error) {
	for _, pid := range pids {
		var ts unix.Timespec
		// A program's processor clock counts nanoseconds; /proc has ticks of ten milliseconds.
		clock := int32(^pid<<3 | processClock)
		if err := unix.ClockGettime(clock, &ts); err != nil {
			return 0, fmt.Errorf("bench: processor time of %d: %w", pid, err)
		}
		sum += time.Duration(ts.Nano())
	}
	return sum, nil
}

// processClock is the kind of clock that counts the time of a process as the scheduler has
// recorded it.
const processClock = 2
