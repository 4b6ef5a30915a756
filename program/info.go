package program

import (
	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
)

// Options controls how [Client.Load] loads a program. With the zero value, Load gives the program a
// free number and does not start it.
type Options struct {
	ID      ID   // number of the program; 0 means a number that is free on all the NICs
	Replace bool // on each NIC, replace the program with this ID or, if ID is 0, the module's name
	Start   bool // run the initialisation of the program

	// Resident makes messages from other NICs arrive as datagrams. With "vm", messages arrive at
	// the virtual machine. With "xdp", messages arrive in the driver of the link. With "auto",
	// messages arrive in the driver if the driver can run the program, and otherwise at the virtual
	// machine. If Resident is empty, messages arrive reliably.
	Resident string

	// Guards is the process whose messages the program filters, such as "app/3". Empty means
	// none.
	Guards  string
	Trigger uint32 // the trigger that gets the messages of the process in Guards

	// Outgoing makes the program filter the messages that the process in Guards sends, in place of
	// the messages that it receives. Such a program can delay a message by up to 10 s. A message
	// that it drops fails at the sender with [weft.ErrRefused]. Each process has at most one guard
	// for each direction.
	Outgoing bool
}

func (o *Options) deploy() deploy.Options {
	return deploy.Options{ID: uint32(o.ID), Replace: o.Replace, Start: o.Start,
		Resident: o.Resident, Guards: o.Guards, Outgoing: o.Outgoing, Trigger: o.Trigger}
}

// Placed describes where [Client.Load] placed a program.
type Placed struct {
	NIC  weft.NICID // as given to Load: 0 stands for the process's own NIC
	ID   ID         // number of the program in this NIC
	Kept bool       // the new program kept the data of the replaced program

	Resident string // "vm" or "xdp" if the program is resident, else empty
	Why      string // why "auto" did not choose the driver
	Aborted  string // why the initialisation aborted, else empty; an abort stops the program
}

func placedOf(p deploy.Placed) Placed {
	return Placed{NIC: weft.NICID(p.NIC), ID: ID(p.ID), Kept: p.Kept,
		Resident: p.Resident, Why: p.Why, Aborted: p.Aborted}
}

// Info describes a loaded program and its cost. `weft program list --json` prints the same fields.
type Info struct {
	ID    ID         `json:"id"`
	Name  string     `json:"name"`
	NIC   weft.NICID `json:"nic"`
	State string     `json:"state"`          // "running", "loaded" or "stopped"
	Why   string     `json:"why,omitempty"`  // the reason for the program's last abort
	Line  int        `json:"line,omitempty"` // the source line of the program's last abort

	// Owner is the user ID of the loader. It is -1 for a user of another NIC.
	Owner    int        `json:"owner"`
	OwnerNIC weft.NICID `json:"owner_nic,omitempty"` // the loader's NIC, if not this NIC
	// OwnerUser is the loader's user name. It is empty if the NIC is embedded.
	OwnerUser string `json:"owner_user,omitempty"`

	Resident string `json:"resident,omitempty"` // "vm" or "xdp" if the program is resident
	// Lacks names the segments that the program cannot reach from the driver, and why.
	Lacks    string `json:"lacks,omitempty"`
	Guards   string `json:"guards,omitempty"`   // the process whose messages the program filters
	Outgoing bool   `json:"outgoing,omitempty"` // it filters the messages that this process sends

	Triggers []uint32 `json:"triggers"`
	Hash     string   `json:"hash"` // hash of the module
	Code     int      `json:"code"` // number of instructions
	Data     int      `json:"data"` // number of 64-bit words

	Activations  uint64 `json:"activations"`
	Instructions uint64 `json:"instructions"` // instructions executed
	Time         int64  `json:"time_ns"`      // execution time in nanoseconds
	Refused      uint64 `json:"refused"`      // messages for a missing trigger or a stopped program
	Shown        uint64 `json:"shown"`        // values displayed
	Dropped      uint64 `json:"dropped"`      // messages that the program dropped as a filter
	// Delayed counts the messages that the program delayed as a filter of outgoing messages.
	Delayed uint64 `json:"delayed"`

	Aborts map[string]uint64 `json:"aborts,omitempty"` // activations aborted, by cause
	Lost   map[string]uint64 `json:"lost,omitempty"`   // messages lost in the driver, by cause
}

func infoOf(i *ctl.ProgramInfo) Info {
	return Info{
		ID: ID(i.ID), Name: i.Name, NIC: weft.NICID(i.NIC), State: i.State, Why: i.Why, Line: i.Line,
		Owner: i.Owner, OwnerNIC: weft.NICID(i.OwnerNIC), OwnerUser: i.OwnerUser,
		Resident: i.Resident, Lacks: i.Lacks, Guards: i.Guards, Outgoing: i.Outgoing,
		Triggers: i.Triggers, Hash: i.Hash, Code: i.Code, Data: i.Data,
		Activations: i.Activations, Instructions: i.Instructions, Time: i.Time, Refused: i.Refused,
		Shown: i.Shown, Dropped: i.Dropped, Delayed: i.Delayed,
		Aborts: i.Aborts, Lost: i.Lost,
	}
}
