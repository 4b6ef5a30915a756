package workqueue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weftnet/weft"
)

// The largest numbers that a worker accepts and remembers.
const (
	MaxJob     = 1 << 20
	remembered = 1024
)

// jobKey identifies a job: ids belong to the asking process, in this life.
type jobKey struct {
	of weft.Address
	id uint64
}

// done holds the answers of a worker.
type done struct {
	answers map[jobKey][]byte
	order   []jobKey // oldest first
}

// Serve does the jobs of all queues, one after the other, until its process or ctx ends. It calls
// do once for each job.
func Serve(ctx context.Context, p *weft.Process, do func(of weft.Name, job []byte) []byte) error {
	o, err := p.Port(Port)
	if err != nil {
		return fmt.Errorf("workqueue: %w", err)
	}
	defer o.Close()
	d := done{answers: map[jobKey][]byte{}}
	for {
		m, err := o.RecvAlloc(ctx, weft.AnyProcess, weft.AnyTag, MaxJob)
		request := m.Data
		switch {
		case errors.Is(err, weft.ErrTruncated):
			continue // no queue sends such a job
		case err != nil:
			return fmt.Errorf("workqueue: serve: %w", err)
		case m.Tag != jobTag || !m.IsCall() || len(request) < idBytes:
			return fmt.Errorf("workqueue: %d bytes with tag %d came from %v, a call %v; "+
				"expected jobs on port %d alone", len(request), m.Tag, m.From, m.IsCall(), Port)
		}
		k := jobKey{m.Addr, binary.LittleEndian.Uint64(request)}
		answer, known := d.answers[k]
		if !known {
			answer = do(m.From, request[idBytes:])
			d.keep(k, answer)
		}
		if err := o.Reply(ctx, m, answer); err != nil && !gone(err) {
			return fmt.Errorf("workqueue: serve: %w", err)
		}
	}
}

// gone reports whether an answer failed because its asker no longer waits. If the asker lives, it
// asks again.
func gone(err error) bool {
	return again(err) && !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, weft.ErrCancelled)
}

// keep remembers an answer, and forgets the oldest one.
func (d *done) keep(k jobKey, answer []byte) {
	d.answers[k] = answer
	if d.order = append(d.order, k); len(d.order) > remembered {
		delete(d.answers, d.order[0])
		d.order = d.order[1:]
	}
}
