package doctor

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/ctl"
)

// Ask asks the daemon of the host. It takes at most about 3 seconds, and less if all NICs answer.
// A daemon that does not understand the request is of another build. Its NIC then holds only the
// process of the daemon.
func Ask(ctx context.Context, conn *ctl.Conn) (*NIC, error) {
	info, _, unmap, err := conn.Stat(ctx)
	if errors.Is(err, ctl.ErrVersion) || errors.Is(err, ctl.ErrBadRequest) {
		return &NIC{Info: ctl.Info{PID: conn.DaemonPID(), Version: "of another build", Commit: unknownCommit}}, nil
	} else if err != nil {
		return nil, err
	}
	if err := unmap(); err != nil {
		return nil, err
	}
	n := &NIC{Info: *info}
	// Info has the process in the daemon's own PID namespace.
	n.Info.PID, n.Contained = conn.DaemonPID(), info.PID != conn.DaemonPID()
	if n.Checks, err = conn.NIC(0).Check(ctx); err != nil {
		return n, err
	}
	n.Nodes, err = conn.Nodes(ctx)
	return n, err
}
