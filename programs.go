package weft

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/poller"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/resident"
)

// ProgramID is the number of a program in its NIC. 0 is none.
type ProgramID uint32

// ProgramAddress is a program of a NIC. NIC 0 is the process's own.
type ProgramAddress struct {
	NIC NICID
	ID  ProgramID
}

// MaxProgramMessage is the longest message to a program, in bytes.
const MaxProgramMessage = proc.MaxProgramMessage

// SendProgram sends a message, the concatenation of parts, to a trigger of a program. It returns when the parts may be used again; the program handles
// the message once, unless the session with its NIC ends before. To a program that its NIC has announced as resident the message may
// be lost.
func (p *Process) SendProgram(ctx context.Context, to ProgramAddress, trigger uint32, parts ...[]byte) error {
	if err := ended(ctx, "send"); err != nil {
		return err
	}
	return p.p.SendProgram(ctx, uint64(to.NIC), uint32(to.ID), trigger, false, parts...)
}

// SendProgramHandled is SendProgram that returns when the program has handled the message. It fails with [ErrNoProgram] if there is no such program or
// trigger, or if it takes no messages, and with [ErrProgramFailed] if it was aborted. The message goes reliably, also to a resident program.
// If ctx ends first, it may be handled all the same.
func (p *Process) SendProgramHandled(ctx context.Context, to ProgramAddress, trigger uint32, parts ...[]byte) error {
	if err := ended(ctx, "send"); err != nil {
		return err
	}
	return p.p.SendProgram(ctx, uint64(to.NIC), uint32(to.ID), trigger, true, parts...)
}

// ProgramNumber is the number by which programs send to this process, in TO. Their messages come to [Process.Recv] from the process
// program/N, N being the number of the program that sent one, with the trigger as tag.
func (p *Process) ProgramNumber() ProgramID {
	return ProgramID(program.ProcessNumber(p.addr.Slot, p.addr.Generation))
}

// ProgramName is the process that messages of a program are from, as [Process.Recv] has it.
func ProgramName(id ProgramID) Name { return Name{App: "program", Index: uint32(id)} }

// ProgramOptions say how a program is to be loaded. The zero value loads it under a number that is free, and does not start it.
//
//	ID        its number; 0: one that is free, the same on all NICs
//	Replace   in the place of the program of that number or, if ID is 0, of the one of its name on each NIC
//	Start     run its initialisation
//	Resident  messages of other NICs come as datagrams: to the virtual machine ("vm"), to the driver of the link ("xdp"), or to the
//	          driver if that can be ("auto"); empty: they come reliably
//	Guards    the process that it filters messages for, such as "app/3"; empty: none
//	Trigger   by which it sees these
type ProgramOptions = deploy.Options

// ProgramInfo describes a program that is loaded, and what it has cost. `weft program list --json` prints it; the words in brackets are its keys there.
//
//	ID, Name, NIC          which it is, and where [id, name, nic]
//	State                  "running", "loaded" or "stopped" [state]
//	Why, Line              of its last abort, and where that was in the source [why, line]
//	Owner                  the local user that has loaded it; -1: a user of another NIC [owner]
//	OwnerNIC, OwnerUser    that NIC, and the user's name [owner_nic, owner_user]
//	Resident, Lacks        "vm" or "xdp", empty if it is not resident; which segments it does not find in the driver, and why [resident, lacks]
//	Guards, Dropped        the process that it filters messages for, and how many it has dropped [guards, dropped]
//	Triggers, Hash         those that it has, and the hash of its module [triggers, hash]
//	Code, Data             its length in instructions, and that of its data in words of 64 bits [code, data]
//	Activations            [activations]
//	Instructions, Time     that it has executed, and took, in nanoseconds [instructions, time_ns]
//	Refused                messages for a trigger that it has not, or while it did not run [refused]
//	Shown                  values that it has displayed [shown]
//	Aborts, Lost           how many activations were aborted, and how much was lost in the driver, by cause [aborts, lost]
type ProgramInfo = ctl.ProgramInfo

// PlacedProgram is where a program has been put.
//
//	NIC, ID   the NIC, and the program's number there
//	Kept      it goes on with the data of the one that it has replaced
//	Resident  where a resident program is, "vm" or "xdp"
//	Why       why it is not in the driver, where that was left to the NIC
//	Aborted   why its initialisation was, after which it is stopped; empty: it was not
type PlacedProgram = deploy.Placed

// Programs are those of NICs: of this process's own, and, if that is a daemon, of the others that it knows.
type Programs struct{ c deploy.Client }

// Programs gives access to programs of NICs. The daemon's own user, root, and the users in its
// configuration may change the programs of a daemon. At another NIC this one needs the role program
// for the user.
func (p *Process) Programs() *Programs {
	return &Programs{deploy.Client{InTurn: true, Ask: func(ctx context.Context, nic NICID, r *ctl.Program) (*ctl.ProgramReply, error) {
		return p.askProgram(ctx, nic, r) // by the process's one connection, if its NIC is a daemon
	}}}
}

// Load puts a module, as the compiler encodes it, into all of some NICs, or into none; NIC 0 is the process's own. The error names the NICs that
// have failed.
func (g *Programs) Load(ctx context.Context, nics []NICID, module []byte, o ProgramOptions) ([]PlacedProgram, error) {
	if err := ended(ctx, "load program"); err != nil {
		return nil, err
	}
	all, err := g.c.Load(ctx, nics, module, o)
	if err != nil {
		return nil, fmt.Errorf("weft: load program: %w", err)
	}
	return all, nil
}

// Unload takes a program out of its NIC. Messages for it that wait find none.
func (g *Programs) Unload(ctx context.Context, a ProgramAddress) error {
	return g.change(ctx, a, ctl.ProgramUnload)
}

// Start runs the initialisation of a program; from then on it takes messages.
func (g *Programs) Start(ctx context.Context, a ProgramAddress) error {
	return g.change(ctx, a, ctl.ProgramStart)
}

func (g *Programs) change(ctx context.Context, a ProgramAddress, what string) error {
	if _, err := g.c.Ask(ctx, a.NIC, &ctl.Program{Do: what, ID: uint32(a.ID)}); err != nil {
		return fmt.Errorf("weft: %s program: %w", what, err)
	}
	return nil
}

// List lists the programs of a NIC by number, with their profiles.
func (g *Programs) List(ctx context.Context, nic NICID) ([]ProgramInfo, error) {
	l, err := g.c.List(ctx, nic)
	if err != nil {
		return nil, fmt.Errorf("weft: list programs: %w", err)
	}
	return l, nil
}

// Log returns what a program has displayed, from its value number from on, and the number of the first that is returned: a NIC keeps the last 4,096.
func (g *Programs) Log(ctx context.Context, a ProgramAddress, from uint64) (values []int64, first uint64, err error) {
	values, first, err = g.c.Log(ctx, a.NIC, uint32(a.ID), "", from)
	if err != nil {
		return nil, 0, fmt.Errorf("weft: log of program: %w", err)
	}
	return values, first, nil
}

// newSite makes the NIC's side of loading programs, for processes inside the same program.
func (n *NIC) newSite() *deploy.Site {
	s := &deploy.Site{NIC: n.id, May: deploy.Everything, Do: func(f func(*program.Table)) {
		n.poller.Do(func(clock.Time) { f(n.engine.Programs()) })
	}}
	if l, ok := n.link.(resident.Link); ok { // one that is wrapped sees all frames itself
		if !n.engine.PlainPrograms() {
			s.Driver = resident.Sealed
			return s
		}
		n.resident = resident.New(resident.Config{Link: l, Do: s.Do, Now: poller.Now})
		s.Driver = n.resident.Prepare
	}
	return s
}

// askProgram answers a request of a process inside this program.
func (n *NIC) askProgram(ctx context.Context, nic NICID, r *ctl.Program) (*ctl.ProgramReply, error) {
	if nic != 0 && nic != n.id {
		return nil, fmt.Errorf("%w: NIC %v: a NIC inside a program loads its own programs only", ErrBadArgument, nic)
	}
	if err := errors.Join(ctx.Err(), n.alive()); err != nil {
		return nil, err
	}
	return n.site.Answer(deploy.Asker{}, r)
}
