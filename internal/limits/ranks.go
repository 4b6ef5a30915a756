package limits

import "time"

// Processes of a job on one host (internal/ranks, internal/cgroup).
const (
	// RankLineBytes is the longest run of bytes without a newline that waits for its newline. It is
	// the capacity of a pipe, so one read may fill it.
	RankLineBytes = 64 << 10

	// RankLineDelay is how long the beginning of a line waits for its newline. A prompt appears
	// at once for a person, and a line that a rank writes in two pieces stays whole.
	RankLineDelay = 100 * time.Millisecond

	// RankDrainDelay is how long the end of a rank waits for the end of its output. The rank's
	// own bytes are read in any case. The delay counts only if another process holds the pipe
	// open.
	RankDrainDelay = 100 * time.Millisecond

	// RankInputBytes is how many bytes of input a rank may have that are not yet in its pipe. A
	// launcher that waits for requests has at most one line here.
	RankInputBytes = 1 << 20

	// RankStopDelay is how long a rank may take to stop by itself after SIGTSTP, to restore a
	// terminal for instance. SIGSTOP follows.
	RankStopDelay = 500 * time.Millisecond

	// KillWait is how long a killed process may take to end. A slower process is stuck in the
	// kernel. It is reported, and Weft stops waiting for it.
	KillWait = time.Second
)
