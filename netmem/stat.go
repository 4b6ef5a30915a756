package netmem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft"
)

// statTag is the tag of the calls that ask a server for its statistics.
const statTag weft.Tag = 0x7061676574

// maxStat is the largest length of an answer to such a call, in bytes.
const maxStat = 4096

// maxVolumes is the largest number of volumes in an answer. That many volumes always fit into
// maxStat bytes.
const maxVolumes = 8

// Stat asks a server for its statistics. Any process of the fabric may call Stat. Stat waits until
// the fabric knows the name of the server and the server has answered. If ctx ends first, Stat
// fails with the error of ctx.
func Stat(ctx context.Context, p *weft.Process, server weft.Name) (st ServerStats, err error) {
	if _, err := p.WaitName(ctx, server); err != nil {
		return st, fmt.Errorf("netmem: statistics of %v: %w", server, err)
	}
	buf := make([]byte, maxStat)
	m, err := p.Peer(server).Call(ctx, statTag, nil, buf)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: it does not answer as a page server does", err)
	}
	if err == nil {
		err = json.Unmarshal(buf[:m.Len], &st)
	}
	if err != nil {
		return st, fmt.Errorf("netmem: statistics of %v: %w", server, err)
	}
	return st, nil
}

// statPatience is the time for which a server tries to send its answer.
const statPatience = time.Second

// tell answers requests for statistics until the server ends.
func (s *Server) tell() {
	for {
		m, err := s.port.p.Recv(s.port.ctx, weft.AnyProcess, statTag, nil)
		if err != nil && !errors.Is(err, weft.ErrTruncated) {
			return
		}
		if !m.IsCall() {
			continue
		}
		text, err := json.Marshal(s.Stats())
		if err != nil {
			panic(err) // statistics always marshal
		}
		ctx, cancel := s.port.p.Runtime().WithTimeout(s.port.ctx, statPatience)
		_ = s.port.p.Reply(ctx, m, text) // the asking process may have ended
		cancel()
	}
}
