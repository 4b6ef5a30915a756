package daemon

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// What a daemon needs of file descriptors.
const (
	filesPerProcess  = 3   // its connection, the eventfd by which it rings, the socket by which it is woken
	filesPerPrepared = 2   // the memory of a VNI that is idle; those of one in use are its process's
	filesBesides     = 128 // link, gossip, epoll, log, tools, and what processes need for a moment while they attach
)

// filesNeeded is how many descriptors so many processes need at a time.
func filesNeeded(processes, prepared int) int {
	return filesBesides + filesPerProcess*processes + filesPerPrepared*prepared
}

// raiseFiles raises the limit on file descriptors to what is needed, and returns what it is then. The soft limit the Go
// runtime has raised already; the hard one only root may raise.
func raiseFiles(needed int) (limit int, err error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, fmt.Errorf("limit on file descriptors: %w", err)
	}
	if r.Cur >= uint64(needed) {
		return int(min(r.Cur, 1<<30)), nil
	}
	for _, most := range []uint64{max(r.Max, uint64(needed)), r.Max} {
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(most, max(uint64(needed), r.Cur)), Max: most}) == nil {
			return int(min(most, uint64(needed))), nil
		}
	}
	return int(r.Cur), nil
}

// provideFiles raises the limit on descriptors for as many processes as may attach to all links, or logs how many will find some.
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
		d.log.Warn("too few file descriptors for max_processes; raise the hard limit (ulimit -Hn, or LimitNOFILE of systemd)",
			"limit", limit, "needed", needed, "max_processes", p, "enough_for", enough)
	}
	return nil
}

// explainFiles adds to an error what can be done about it, if descriptors are short.
func explainFiles(err error) error {
	var r unix.Rlimit
	if !errors.Is(err, unix.EMFILE) || unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return err
	}
	return fmt.Errorf("%w: the daemon may have %d file descriptors; raise its limit (ulimit -n, or LimitNOFILE of systemd)", err, r.Cur)
}
