package daemon

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Numbers of file descriptors that a daemon needs.
const (
	filesPerProcess  = 3 // its connection, the eventfd that it rings, the socket that wakes it
	filesPerPrepared = 2 // the memory of an idle VNI; the memory of a used one is its process's
	// filesBesides covers link, gossip, epoll, log, tools, and the short needs of attaching
	// processes.
	filesBesides = 128
)

// filesNeeded returns how many descriptors the daemon needs for that many processes.
func filesNeeded(processes, prepared int) int {
	return filesBesides + filesPerProcess*processes + filesPerPrepared*prepared
}

// raiseFiles raises the limit on file descriptors to the needed number, and returns the new
// limit. The Go runtime has raised the soft limit already; only root may raise the hard limit.
func raiseFiles(needed int) (limit int, err error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, fmt.Errorf("limit on file descriptors: %w", err)
	}
	if r.Cur >= uint64(needed) {
		return int(min(r.Cur, 1<<30)), nil
	}
	for _, most := range []uint64{max(r.Max, uint64(needed)), r.Max} {
		if unix.Setrlimit(unix.RLIMIT_NOFILE,
			&unix.Rlimit{Cur: min(most, max(uint64(needed), r.Cur)), Max: most}) == nil {
			return int(min(most, uint64(needed))), nil
		}
	}
	return int(r.Cur), nil
}

// provideFiles raises the limit on descriptors for all processes that may attach to all links. If
// that fails, it logs for how many the limit is enough.
func (h *door) provideFiles() error {
	d := h.links[0]
	p, prepared := len(h.links)*d.settings.config.maxProcesses(), len(h.links)*d.settings.prepared
	needed := filesNeeded(p, prepared)
	limit, err := raiseFiles(needed)
	if err != nil {
		return err
	}
	if limit < needed {
		enough := max(0, limit-filesNeeded(0, prepared)) / filesPerProcess
		d.log.Warn("too few file descriptors for max_processes; raise the hard limit (ulimit -Hn, "+
			"or LimitNOFILE of systemd)",
			"limit", limit, "needed", needed, "max_processes", p, "enough_for", enough)
	}
	return nil
}

// explainFiles adds the cure to an error that is due to a lack of descriptors.
func explainFiles(err error) error {
	var r unix.Rlimit
	if !errors.Is(err, unix.EMFILE) || unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return err
	}
	return fmt.Errorf("%w: the daemon may have %d file descriptors; raise its limit (ulimit -n, "+
		"or LimitNOFILE of systemd)",
		err, r.Cur)
}
