package daemon

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/procstat"
)

// awaitDeath waits until a process that is about to end is dead, for at most limits.DeathWait. A
// process closes its connection some time before it is dead: the kernel frees its memory in
// between. If other processes heard of the end at once, they could die earlier than it, and their
// keepers would take them for the cause. awaitDeath does not wait for a process that has only
// closed its connection.
func (d *Daemon) awaitDeath(pid int) {
	if pid <= 0 || d.ctx.Err() != nil {
		return
	}
	p, ok := procstat.Read(pid)
	if !ok || !p.Exiting || p.Ended() {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for until := time.Now().Add(limits.DeathWait); ; {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		if _, err := unix.Poll(ready, int(left.Milliseconds())+1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
