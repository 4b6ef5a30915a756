// Package program loads programs into NICs and sends messages to them.
//
// A program is written in PDL and compiled by package pdl. It runs in the NIC, outside the
// processes, and answers a message without waking any process. A message to a program names a NIC,
// the number of the program on that NIC, and one of its triggers.
//
//	m, err := pdl.Compile("count.pdl", source)       // the module
//	c := program.On(p)                                // p is a *weft.Process
//	placed, err := c.Load(ctx, []weft.NICID{0}, m.Encode(), program.Options{Start: true})
//	at := program.Address{ID: placed[0].ID}           // NIC 0 is the process's own
//	err = c.SendHandled(ctx, at, 1, []byte("hello"))  // to trigger 1
//
// [Client.Load], [Client.Start] and [Client.List] load, start and list programs. [Client.Send]
// sends a message to a program. [Client.Log] returns the values that a program has displayed. To
// send to a process, a program uses the number that [Client.Number] returns. The sender of the
// message that the process receives is the name that [NameOf] returns. A [weft.SharedSegment] is
// memory that programs and processes share.
package program

import (
	"context"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/expose"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
)

// MaxMessage is the length of the longest message to a program, in bytes.
const MaxMessage = proc.MaxProgramMessage // 16384

// ID is the number of a program in its NIC. No program has the number 0.
type ID uint32

// Address identifies a program in a NIC. If NIC is 0, the program is in the process's own NIC.
type Address struct {
	NIC weft.NICID
	ID  ID
}

// NameOf returns the sender name of messages from a program: program/N for program N. The tag of
// such a message is the trigger that the SEND statement of the program names.
func NameOf(id ID) weft.Name { return weft.Name{App: "program", Index: uint32(id)} }

// Client gives a process access to the programs of NICs. [On] returns the Client of a process. Any
// number of goroutines may use a Client at once.
type Client struct {
	parts expose.Programs
	c     deploy.Client
}

// On returns the Client of a process. A Client needs no Close.
//
// A process with an embedded NIC may load, list and change programs only in that NIC. It may
// send to the programs of every NIC. The programs of a daemon may be changed by root, by the
// daemon's own user, and by the users named in the daemon's configuration. Before these users
// can change the programs of another NIC, that NIC must grant them the role "program".
func On(p *weft.Process) *Client {
	parts := expose.ProgramsOf(p)
	return &Client{parts: parts, c: deploy.Client{InTurn: true, Ask: parts.Ask}}
}

// Number returns the number of the process. To send to the process, a program in a NIC uses this
// number in the PDL statement SEND … TO.
func (c *Client) Number() ID { return ID(c.parts.Number) }

// Send sends one message to a trigger of a program. The message consists of the given slices, in
// order. Send returns when the slices may be reused. The program handles the message once, unless
// the session with the program's NIC ends first. A message to a resident program may be lost. If
// the program or the trigger does not exist, Send does not report this. [Client.SendHandled]
// reports it. Send fails with [weft.ErrBadArgument] if the message is longer than [MaxMessage].
func (c *Client) Send(ctx context.Context, addr Address, trigger uint32, parts ...[]byte) error {
	return c.send(ctx, addr, trigger, false, parts)
}

// SendHandled sends a message like Send, but returns when the program has handled the message.
// SendHandled fails with [weft.ErrNoProgram] if the program or the trigger does not exist, or if
// the program takes no messages. SendHandled fails with [weft.ErrProgramFailed] if the program was
// aborted. SendHandled is reliable even if the program is resident. If ctx ends first, the program
// may still handle the message.
func (c *Client) SendHandled(ctx context.Context, addr Address, trigger uint32, parts ...[]byte) error {
	return c.send(ctx, addr, trigger, true, parts)
}

func (c *Client) send(ctx context.Context, addr Address, trigger uint32, handled bool, parts [][]byte) error {
	if err := ctx.Err(); err != nil {
		return &weft.OpError{Op: "send", Addr: weft.Address{NIC: addr.NIC}, Err: err}
	}
	return c.parts.Error(c.parts.Half.SendProgram(ctx, uint64(addr.NIC), uint32(addr.ID), trigger, handled, parts...))
}

// Load loads a module, in the encoding of the compiler, into all the given NICs or into none of
// these NICs. The NIC ID 0 means the process's own NIC. If Load fails, the error names the NICs
// that failed.
func (c *Client) Load(ctx context.Context, nics []weft.NICID, module []byte, o Options) ([]Placed, error) {
	if err := ctx.Err(); err != nil {
		return nil, fail("load program", err)
	}
	ids := make([]nicid.ID, len(nics))
	for i, n := range nics {
		ids[i] = nicid.ID(n)
	}
	all, err := c.c.Load(ctx, ids, module, o.deploy())
	if err != nil {
		return nil, fail("load program", err)
	}
	placed := make([]Placed, len(all))
	for i, at := range all {
		placed[i] = placedOf(at)
	}
	return placed, nil
}

// Unload removes a program from its NIC. A later [Client.SendHandled] to the program fails with
// [weft.ErrNoProgram]. A later [Client.Send] succeeds, and the NIC discards the message.
func (c *Client) Unload(ctx context.Context, a Address) error {
	return c.change(ctx, a, ctl.ProgramUnload)
}

// Start runs the initialisation of a program. After the initialisation, the program takes messages.
func (c *Client) Start(ctx context.Context, a Address) error {
	return c.change(ctx, a, ctl.ProgramStart)
}

func (c *Client) change(ctx context.Context, a Address, what string) error {
	if _, err := c.c.Ask(ctx, nicid.ID(a.NIC), &ctl.Program{Do: what, ID: uint32(a.ID)}); err != nil {
		return fail(what+" program", err)
	}
	return nil
}

// List returns the programs of a NIC with the profile of each program, in the order of the program
// numbers.
func (c *Client) List(ctx context.Context, nic weft.NICID) ([]Info, error) {
	all, err := c.c.List(ctx, nicid.ID(nic))
	if err != nil {
		return nil, fail("list programs", err)
	}
	infos := make([]Info, len(all))
	for i := range all {
		infos[i] = infoOf(&all[i])
	}
	return infos, nil
}

// Log returns the values that a program has displayed, from the value whose number is start. Log
// also returns, as first, the number of the earliest returned value. A NIC keeps the last 4,096
// values.
func (c *Client) Log(ctx context.Context, a Address, start uint64) (values []int64, first uint64, err error) {
	values, first, err = c.c.Log(ctx, nicid.ID(a.NIC), uint32(a.ID), "", start)
	if err != nil {
		return nil, 0, fail("log of program", err)
	}
	return values, first, nil
}

// fail returns the error of an operation on programs.
func fail(op string, err error) error { return &weft.OpError{Op: op, Err: err} }
