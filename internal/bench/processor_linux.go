package bench

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is how long programs have run on a processor, all together, with all their threads.
func processorTime(pids []int) (sum time.Duration, err error) {
	for _, pid := range pids {
		var ts unix.Timespec
		// A program's processor clock, in nanoseconds; /proc has ticks of ten milliseconds.
		clock := int32(^pid<<3 | processClock)
		if err := unix.ClockGettime(clock, &ts); err != nil {
			return 0, fmt.Errorf("bench: processor time of %d: %w", pid, err)
		}
		sum += time.Duration(ts.Nano())
	}
	return sum, nil
}

// processClock says that a clock counts what the scheduler has counted, of a process.
const processClock = 2
