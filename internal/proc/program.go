package proc

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// MaxProgramMessage is the longest message to a program, in bytes.
const MaxProgramMessage = 16 << 10

// SendProgram sends a message, the concatenation of parts, to a trigger of a program in a NIC.
// NIC 0 is this process's own NIC. SendProgram returns when the parts may be reused, or, if
// handled is set, when the program has handled the message. With handled, it fails with
// ErrNoProgram if the program or the trigger does not exist, or if the program has stopped. It
// fails with ErrProgramFailed if the program was aborted. If ctx ends first, the program may
// still handle the message.
func (p *Process) SendProgram(ctx context.Context, nic uint64, program, trigger uint32, handled bool,
	parts ...[]byte) error {
	r := request{what: "send", code: vni.CodeProgram, with: Dest{NIC: nic}}
	r.send.NIC, r.send.Gen, r.send.Tag = nic, program, uint64(trigger)
	if handled {
		r.send.Flags = vni.WantAccept
	}
	parts, err := p.gather(&r, parts)
	switch {
	case err != nil:
	case program == 0:
		err = fmt.Errorf("%w: program 0 is none", ErrBadArgument)
	case r.length > MaxProgramMessage:
		err = fmt.Errorf("%w: message of %d bytes to a program, at most %d", ErrBadArgument, r.length,
			MaxProgramMessage)
	}
	if err != nil {
		return r.fail(err)
	}
	return p.run(ctx, &r, parts)
}

// Await waits until ready returns true or ctx ends. It calls ready again whenever the NIC has
// news for this process.
func (p *Process) Await(ctx context.Context, ready func() bool) error {
	if !p.enter() {
		return ErrClosed
	}
	defer p.leave()
	err := p.w.Wait(ctx, func() bool { return ready() || p.over() })
	switch {
	case errors.Is(err, ErrNICGone):
		p.fail()
	case err == nil && !ready():
		p.mu.Lock()
		err = p.usable()
		p.mu.Unlock()
	}
	return err
}
