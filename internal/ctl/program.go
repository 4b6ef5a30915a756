package ctl

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/registry"
)

// Values of Program.Do.
const (
	// ProgramPut takes a piece of a module. The first piece has key 0; the answer holds the key
	// for the others.
	ProgramPut = "put"
	// ProgramPrepare verifies the module that was put under a key, and takes memory for it.
	ProgramPrepare = "prepare"
	ProgramCommit  = "commit" // puts the prepared program in its place
	ProgramUndo    = "undo"   // undoes the commit, or the preparation
	ProgramSettle  = "settle" // makes the commit final
	ProgramUnload  = "unload"
	ProgramStart   = "start"
	ProgramSend    = "send" // sends a message to a program, from no process
	ProgramList    = "list"
	ProgramLog     = "log"
)

// Places of a resident program, to which messages of other NICs come as datagrams.
const (
	ResidentVM   = "vm"   // in the virtual machine
	ResidentXDP  = "xdp"  // in the driver of the link
	ResidentAuto = "auto" // in the driver if it can, else in the virtual machine
)

// ProgramPiece is how many bytes of a module one request carries, so that it fits, encoded, with
// the rest of the request.
const ProgramPiece = 2048

// ProgramValues is how many values of a log one reply carries.
const ProgramValues = 1024

// Program is a request about the programs of a NIC.
type Program struct {
	Do      string `json:"do"`
	ID      uint32 `json:"id,omitempty"`
	Name    string `json:"name,omitempty"` // instead of the id
	Key     uint64 `json:"key,omitempty,string"`
	Total   int    `json:"total,omitempty"`  // bytes of a module
	Offset  int    `json:"offset,omitempty"` // of Bytes in it
	Bytes   []byte `json:"bytes,omitempty"`  // of a module, or a message
	Replace bool   `json:"replace,omitempty"`
	Start   bool   `json:"start,omitempty"`
	// Resident is ResidentVM, ResidentXDP or ResidentAuto; empty: not resident.
	Resident string `json:"resident,omitempty"`
	Guards   string `json:"guards,omitempty"`
	// Outgoing guards what the process sends, not what it receives.
	Outgoing bool   `json:"outgoing,omitempty"`
	Trigger  uint32 `json:"trigger,omitempty"`
	From     uint64 `json:"from,omitempty"` // for a log: the first value wanted
	// User is the asking user, between NICs: the asking NIC vouches for it. A tool leaves it
	// empty.
	User string `json:"user,omitempty"`
}

// ProgramReply is the answer to a Program request.
type ProgramReply struct {
	Key  uint64 `json:"key,omitempty,string"`
	ID   uint32 `json:"id,omitempty"`
	Kept bool   `json:"kept,omitempty"` // the data of the replaced program was kept
	// Resident is the place of a prepared program: ResidentVM or ResidentXDP.
	Resident string `json:"resident,omitempty"`
	// Why tells why the program is not in the driver, if the NIC chose.
	Why      string        `json:"why,omitempty"`
	Outcome  string        `json:"outcome,omitempty"`
	Programs []ProgramInfo `json:"programs,omitempty"`
	Values   []int64       `json:"values,omitempty"`
	First    uint64        `json:"first,omitempty"` // number of the first value
	Next     uint64        `json:"next,omitempty"`  // number of the next value; 0: no more
}

// ProgramInfo describes a program that is loaded.
type ProgramInfo struct {
	ID    uint32         `json:"id"`
	Name  string         `json:"name"`
	NIC   registry.NICID `json:"nic"`
	State string         `json:"state"`          // running, loaded, or stopped
	Why   string         `json:"why,omitempty"`  // of its last abort
	Line  int            `json:"line,omitempty"` // source line of the abort
	// Owner is the local user that loaded it; -1: a user of another NIC.
	Owner    int            `json:"owner"`
	OwnerNIC registry.NICID `json:"owner_nic,omitempty"` // that NIC
	// OwnerUser is the user's name, here or there; empty if the NIC is inside a program.
	OwnerUser string `json:"owner_user,omitempty"`
	// Resident is ResidentVM or ResidentXDP; empty: not resident.
	Resident string `json:"resident,omitempty"`
	// Lacks tells which segments a program in the driver lacks there, and why.
	Lacks  string `json:"lacks,omitempty"`
	Guards string `json:"guards,omitempty"`
	// Outgoing means that it judges what the guarded process sends.
	Outgoing     bool     `json:"outgoing,omitempty"`
	Triggers     []uint32 `json:"triggers"`
	Hash         string   `json:"hash"`
	Code         int      `json:"code"` // instructions
	Data         int      `json:"data"` // words
	Activations  uint64   `json:"activations"`
	Instructions uint64   `json:"instructions"`
	Time         int64    `json:"time_ns"`
	// Refused counts messages for an unknown trigger, or while it did not run.
	Refused uint64 `json:"refused"`
	Shown   uint64 `json:"shown"` // values displayed
	// Dropped counts messages that it kept from the guarded process, or refused it.
	Dropped uint64            `json:"dropped"`
	Delayed uint64            `json:"delayed,omitempty"` // messages of the guarded process
	Aborts  map[string]uint64 `json:"aborts,omitempty"`
	// Lost counts the losses of a program in the driver, by cause.
	Lost map[string]uint64 `json:"lost,omitempty"`
}

// check reports what is wrong with a request about programs.
func (p *Program) check() error {
	switch p.Resident {
	case "", ResidentVM, ResidentXDP, ResidentAuto:
	default:
		return fmt.Errorf("%w: resident %q; expected %s, %s or %s", ErrBadRequest, p.Resident, ResidentAuto,
			ResidentVM, ResidentXDP)
	}
	switch p.Do {
	case ProgramPut, ProgramPrepare, ProgramCommit, ProgramUndo, ProgramSettle, ProgramUnload, ProgramStart,
		ProgramSend, ProgramList, ProgramLog:
		return nil
	}
	return fmt.Errorf("%w: unknown request %q about programs", ErrBadRequest, p.Do)
}

// Program sends the NIC a request about its programs, and returns the answer.
func (n NIC) Program(ctx context.Context, p *Program) (*ProgramReply, error) {
	r, _, err := n.c.call(ctx, &Request{Op: OpProgram, NIC: n.id, Program: p}, 0)
	if err != nil {
		return nil, err
	}
	if r.Program == nil {
		return nil, errors.New("the reply to \"program\" lacks its answer")
	}
	return r.Program, nil
}
