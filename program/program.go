// Package program loads programs into NICs and sends messages to them.
//
// A program is written in PDL and compiled by package pdl. It runs in the NIC, beside the processes:
// it answers a message without waking any of them. A message to a program names a NIC, the program's
// number there, and one of its triggers.
//
//	m, err := pdl.Compile("count.pdl", source)       // the module
//	c := program.On(p)                                // p is a *weft.Process
//	placed, err := c.Load(ctx, []weft.NICID{0}, m.Encode(), program.Options{Start: true})
//	at := program.Address{ID: placed[0].ID}           // NIC 0 is the process's own
//	err = c.SendHandled(ctx, at, 1, []byte("hello"))  // to trigger 1
//
// Load, start and list programs with [Client.Load], [Client.Start] and [Client.List]; send to one
// with [Client.Send]; read what it displays with [Client.Log]. A program sends to a process by the
// process's [Client.Number], and the process receives the message from [NameOf] that program. A
// segment that a program and processes share is a [weft.SharedSegment].
package program

import (
	"context"
	"fmt"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/expose"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
)

// MaxMessage is the length of the longest message to a program, in bytes.
const MaxMessage = proc.MaxProgramMessage // 16384

// ID is the number of a program in its NIC. No program has 0.
type ID uint32

// Address is a program of a NIC. NIC 0 is the process's own.
type Address struct {
	NIC weft.NICID
	ID  ID
}

// NameOf returns the process name that messages of a program come from: program/N for program N. The
// message's tag is the trigger that the program sent with.
func NameOf(id ID) weft.Name { return weft.Name{App: "program", Index: uint32(id)} }

// Client reaches the programs of NICs on behalf of a process. [On] makes one. Any number of
// goroutines may use it at once.
type Client struct {
	parts expose.Programs
	c     deploy.Client
}

// On returns the Client of a process. It needs no Close.
//
// A process with an embedded NIC may change the programs of that NIC. With a daemon, the daemon's own
// user, root, and the users that the daemon's configuration names may change its programs; another
// NIC must grant them the role program.
func On(p *weft.Process) *Client {
	parts := expose.ProgramsOf(p)
	return &Client{parts: parts, c: deploy.Client{InTurn: true, Ask: parts.Ask}}
}

// Number returns the number by which programs send to the process, in the PDL statement SEND … TO.
func (c *Client) Number() ID { return ID(c.parts.Number) }

// Send sends a message, the concatenation of parts, to a trigger of a program, and returns when the
// parts may be used again. The program handles the message once, unless the session with its NIC ends
// first. A message to a resident program may be lost. Send fails with [weft.ErrBadArgument] if the
// message is longer than [MaxMessage].
func (c *Client) Send(ctx context.Context, to Address, trigger uint32, parts ...[]byte) error {
	return c.send(ctx, to, trigger, false, parts)
}

// SendHandled is Send that returns when the program has handled the message. It fails with
// [weft.ErrNoProgram] if there is no such program or trigger, or if the program takes no messages,
// and with [weft.ErrProgramFailed] if the program was aborted. The message is reliable even to a
// resident program. If ctx ends first, the program may still handle the message.
func (c *Client) SendHandled(ctx context.Context, to Address, trigger uint32, parts ...[]byte) error {
	return c.send(ctx, to, trigger, true, parts)
}

func (c *Client) send(ctx context.Context, to Address, trigger uint32, handled bool, parts [][]byte) error {
	if err := ctx.Err(); err != nil {
		return &weft.OpError{Op: "send", Addr: weft.Address{NIC: to.NIC}, Err: err}
	}
	return c.parts.Error(c.parts.Half.SendProgram(ctx, uint64(to.NIC), uint32(to.ID), trigger, handled, parts...))
}

// Load loads a module, as the compiler encodes it, into each of the NICs or into none; NIC 0 is the
// process's own. The error names the NICs that failed.
func (c *Client) Load(ctx context.Context, nics []weft.NICID, module []byte, o Options) ([]Placed, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("weft: load program: %w", err)
	}
	ids := make([]nicid.ID, len(nics))
	for i, n := range nics {
		ids[i] = nicid.ID(n)
	}
	all, err := c.c.Load(ctx, ids, module, o.deploy())
	if err != nil {
		return nil, fmt.Errorf("weft: load program: %w", err)
	}
	placed := make([]Placed, len(all))
	for i, at := range all {
		placed[i] = placedOf(at)
	}
	return placed, nil
}

// Unload removes a program from its NIC. Later messages to it fail with [weft.ErrNoProgram].
func (c *Client) Unload(ctx context.Context, a Address) error {
	return c.change(ctx, a, ctl.ProgramUnload)
}

// Start runs the initialisation of a program. From then on the program takes messages.
func (c *Client) Start(ctx context.Context, a Address) error {
	return c.change(ctx, a, ctl.ProgramStart)
}

func (c *Client) change(ctx context.Context, a Address, what string) error {
	if _, err := c.c.Ask(ctx, nicid.ID(a.NIC), &ctl.Program{Do: what, ID: uint32(a.ID)}); err != nil {
		return fmt.Errorf("weft: %s program: %w", what, err)
	}
	return nil
}

// List returns the programs of a NIC by number, with their profiles.
func (c *Client) List(ctx context.Context, nic weft.NICID) ([]Info, error) {
	all, err := c.c.List(ctx, nicid.ID(nic))
	if err != nil {
		return nil, fmt.Errorf("weft: list programs: %w", err)
	}
	infos := make([]Info, len(all))
	for i := range all {
		infos[i] = infoOf(&all[i])
	}
	return infos, nil
}

// Log returns the values that a program has displayed, beginning with value number from, and the
// number of the first one returned. A NIC keeps the last 4,096 values.
func (c *Client) Log(ctx context.Context, a Address, from uint64) (values []int64, first uint64, err error) {
	values, first, err = c.c.Log(ctx, nicid.ID(a.NIC), uint32(a.ID), "", from)
	if err != nil {
		return nil, 0, fmt.Errorf("weft: log of program: %w", err)
	}
	return values, first, nil
}
