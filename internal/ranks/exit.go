package ranks

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// cause returns why the rank ended, as the end of a sentence "rank 3 on h1: …". It is empty for
// status 0.
func (e *Exit) cause() string {
	var b strings.Builder
	switch {
	case e.Unkillable:
		return fmt.Sprintf("process %d cannot be killed", e.PID)
	case e.Signal != 0:
		fmt.Fprintf(&b, "killed by %s", signalName(syscall.Signal(e.Signal)))
	case e.Status != 0:
		fmt.Fprintf(&b, "exited with status %d", e.Status)
	}
	if e.Core {
		b.WriteString(", core dumped")
	}
	if e.OOM != "" {
		fmt.Fprintf(&b, ", out of memory: %s", e.OOM)
	}
	return b.String()
}

// signalName returns a signal's name, such as SIGKILL.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig))
}
