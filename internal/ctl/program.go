package ctl

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/registry"
)

// What a Program request has the NIC do.
const (
	ProgramPut     = "put"     // takes a piece of a module; the first one, of key 0, is answered with the key of the others
	ProgramPrepare = "prepare" // verifies the module that was put under a key and takes memory for it
	ProgramCommit  = "commit"  // puts what was prepared in its place
	ProgramUndo    = "undo"    // takes that back, or what was prepared
	ProgramSettle  = "settle"  // makes it final
	ProgramUnload  = "unload"
	ProgramStart   = "start"
	ProgramSend    = "send" // sends a message to a program, of no process
	ProgramList    = "list"
	ProgramLog     = "log"
)

// Where a resident program is: one whose messages of other NICs come as datagrams.
const (
	ResidentVM   = "vm"   // in the virtual machine
	ResidentXDP  = "xdp"  // in the driver of the link
	ResidentAuto = "auto" // in the driver if it can, else in the virtual machine
)

// ProgramPiece is how many bytes of a module one request carries: as much as fits, encoded, beside the rest.
const ProgramPiece = 2048

// ProgramValues is how many values of a log one reply carries.
const ProgramValues = 1024

// Program is a request about the programs of a NIC.
type Program struct {
	Do       string `json:"do"`
	ID       uint32 `json:"id,omitempty"`
	Name     string `json:"name,omitempty"` // in place of the id
	Key      uint64 `json:"key,omitempty,string"`
	Total    int    `json:"total,omitempty"`  // bytes of a module
	Offset   int    `json:"offset,omitempty"` // of Bytes in it
	Bytes    []byte `json:"bytes,omitempty"`  // of a module, or a message
	Replace  bool   `json:"replace,omitempty"`
	Start    bool   `json:"start,omitempty"`
	Resident string `json:"resident,omitempty"` // one of the words below; empty: it is not
	Guards   string `json:"guards,omitempty"`
	Outgoing bool   `json:"outgoing,omitempty"` // what the process sends, in place of what it is sent
	Trigger  uint32 `json:"trigger,omitempty"`
	From     uint64 `json:"from,omitempty"` // of a log: the first value wanted
	User     string `json:"user,omitempty"` // between NICs: the user that asks, for whom the asking NIC vouches; a tool leaves it empty
}

// ProgramReply is the answer.
type ProgramReply struct {
	Key      uint64        `json:"key,omitempty,string"`
	ID       uint32        `json:"id,omitempty"`
	Kept     bool          `json:"kept,omitempty"`     // the data of what was replaced
	Resident string        `json:"resident,omitempty"` // where a program that was prepared is to be, ResidentVM or ResidentXDP,
	Why      string        `json:"why,omitempty"`      // and why not in the driver, if that was left to the NIC
	Outcome  string        `json:"outcome,omitempty"`
	Programs []ProgramInfo `json:"programs,omitempty"`
	Values   []int64       `json:"values,omitempty"`
	First    uint64        `json:"first,omitempty"` // number of the first value
	Next     uint64        `json:"next,omitempty"`  // where the log goes on; 0: that was all
}

// ProgramInfo describes a program that is loaded.
type ProgramInfo struct {
	ID           uint32            `json:"id"`
	Name         string            `json:"name"`
	NIC          registry.NICID    `json:"nic"`
	State        string            `json:"state"`                // running, loaded, or stopped
	Why          string            `json:"why,omitempty"`        // of its last abort
	Line         int               `json:"line,omitempty"`       // of the source, where that was
	Owner        int               `json:"owner"`                // the local user that has loaded it; -1: one of another NIC
	OwnerNIC     registry.NICID    `json:"owner_nic,omitempty"`  // that NIC
	OwnerUser    string            `json:"owner_user,omitempty"` // the user's name, here or there; empty if the NIC is inside a program
	Resident     string            `json:"resident,omitempty"`   // where, ResidentVM or ResidentXDP; empty: it is not
	Lacks        string            `json:"lacks,omitempty"`      // of one in the driver: which segments it does not find there, and why
	Guards       string            `json:"guards,omitempty"`
	Outgoing     bool              `json:"outgoing,omitempty"` // it judges what that process sends
	Triggers     []uint32          `json:"triggers"`
	Hash         string            `json:"hash"`
	Code         int               `json:"code"` // instructions
	Data         int               `json:"data"` // words
	Activations  uint64            `json:"activations"`
	Instructions uint64            `json:"instructions"`
	Time         int64             `json:"time_ns"`
	Refused      uint64            `json:"refused"`           // messages for a trigger that it has not, or when it did not run
	Shown        uint64            `json:"shown"`             // values displayed
	Dropped      uint64            `json:"dropped"`           // messages that it has kept from the process that it guards, or refused it
	Delayed      uint64            `json:"delayed,omitempty"` // messages of the process that it guards
	Aborts       map[string]uint64 `json:"aborts,omitempty"`
	Lost         map[string]uint64 `json:"lost,omitempty"` // of one in the driver: what was lost there, by cause
}

// check says what is wrong with a request about programs.
func (p *Program) check() error {
	switch p.Resident {
	case "", ResidentVM, ResidentXDP, ResidentAuto:
	default:
		return fmt.Errorf("%w: resident %q; expected %s, %s or %s", ErrBadRequest, p.Resident, ResidentAuto, ResidentVM, ResidentXDP)
	}
	switch p.Do {
	case ProgramPut, ProgramPrepare, ProgramCommit, ProgramUndo, ProgramSettle, ProgramUnload, ProgramStart, ProgramSend, ProgramList, ProgramLog:
		return nil
	}
	return fmt.Errorf("%w: unknown request %q about programs", ErrBadRequest, p.Do)
}

// Program asks the NIC something about its programs.
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
