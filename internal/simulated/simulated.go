// Package simulated reaches inside package sim, for Weft's own tests and sweeps: to the engines and
// process halves of a fabric, to its frames, and to defects that it is to have. What users of sim
// see has none of that. Package sim fills in the functions here; fabrics, processes and
// configurations are sim's, which this package cannot name.
package simulated

import (
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
)

// Hooks are what a fabric has that no user's has. The zero value is what users run.
type Hooks struct {
	Defect       mutate.Defect
	Faults       rel.Faults
	Geometry     vni.Geometry // of every process; zero: the default
	Pool         bool         // processes stage through their pool, as attached ones do, instead of lending their memory
	StagingBytes int
	CreditBytes  int
	Requests     int
	IdlePolls    int
	RelaySaves   int
	MaxProcesses int                                   // of one NIC
	Peers        func(a, b int) bool                   // which NICs know of each other; nil: all
	Hearsay      bool                                  // NICs call those that their peers tell of
	MaxEvents    uint64                                // a run with more of them fails; 0: any number
	Sealed       bool                                  // sessions are sealed, each NIC with a key of its own
	Security     func(host int, s *rel.Security)       // changes what a NIC of a sealed fabric has; nil: nothing
	Trust        func(host int, c *trust.PolicyConfig) // likewise, what it believes
	Policy       func(host int, p *trust.Policy)       // told what a NIC of a sealed fabric believes, at each start
	IDs          []uint64                              // of the first NICs, in place of sim.NICID
	NewIDs       bool                                  // a NIC has another id in each life, as one without a key file; the others know its address alone
	Check        func(*nic.Engine) error               // asked after every poll; an error ends the run
	Tap          func(from, to int, frame []byte)      // told of every frame that leaves
	Life         func(process any) vni.Life            // of a process of a rank; nil: no process is of one
	Refused      func(process any, err error)          // told of a process whose name is another's; nil: that ends the run
}

// Hooked is a configuration, a sim.Config, with hooks.
func Hooked[Config any](c Config, h Hooks) Config {
	SetHooks(&c, h)
	return c
}

// What package sim fills in. A fabric is a *sim.Fabric, a process a *sim.Process.
var (
	// SetHooks gives a *sim.Config its hooks; Hooked is the form to use.
	SetHooks func(config any, h Hooks)

	// Engine is the NIC of a host, nil while it is stopped.
	Engine func(fabric any, host int) *nic.Engine

	// Addr is the address of a host, whether its NIC is stopped or not.
	Addr func(fabric any, host int) link.Addr

	// Turn gives the NIC of a host a turn soon, as must be after its Engine has been called.
	Turn func(fabric any, host int)

	// Inject puts a frame on the wire as if a host had sent it now: one of an earlier session, or a
	// forged one.
	Inject func(fabric any, from, to int, frame []byte)

	// UsesOf says how often the NICs of a fabric have used what its links can do besides.
	UsesOf func(fabric any) Uses

	// Half is the process half behind the *weft.Process.
	Half func(process any) *proc.Process

	// Slot is a process's place in its NIC's process table, and which process of that place it is.
	Slot func(process any) (slot uint16, gen uint32)

	// VNI is a process's interface to its NIC and the memory that both write.
	VNI func(process any) (seg *vni.Segment, rw []byte)

	// Ring makes the NIC look at a process's commands, as must be after some have been posted
	// through VNI.
	Ring func(process any)
)
