package ground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// AwaitPort waits until a program on p's host listens at a port of network, tcp or udp. It asks
// the kernel, since some servers take any connection for their client's, and print nothing
// before that.
func (p *Program) AwaitPort(ctx context.Context, network string, port int) error {
	for {
		if p.listens(network, port) {
			return nil
		}
		select {
		case <-p.ended:
			return errors.Join(errors.New("it ended at once"), p.Failure())
		case <-ctx.Done():
			return fmt.Errorf("it does not listen at %s port %d: %w", network, port, context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
	}
}

func (p *Program) listens(network string, port int) bool {
	for _, table := range []string{network, network + "6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", p.Process.Pid, table))
		if err == nil && hasPort(string(b), network, port) {
			return true
		}
	}
	return false
}

// hasPort looks for a socket in a table of the kernel. A line has the local and the foreign
// address in hexadecimal, then the state. A listening TCP socket has the state 0A.
func hasPort(table, network string, port int) bool {
	for line := range strings.SplitSeq(table, "\n") {
		f := strings.Fields(line)
		if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && (network == "udp" || f[3] == "0A") {
			return true
		}
	}
	return false
}
