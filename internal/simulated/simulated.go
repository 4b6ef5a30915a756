// Package simulated gives Weft's own tests and sweeps access to the internals of package sim: the
// engines and process halves of a fabric, its frames, and the defects to switch on. The public
// API of sim shows none of them. Package sim fills in the functions here. Fabrics, processes and
// configurations are types of sim, which this package cannot name.
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

// Hooks holds the settings of a fabric that no user can set. The zero value is the user's fabric.
type Hooks struct {
	Defect   mutate.Defect
	Faults   rel.Faults
	Geometry vni.Geometry // of every process; zero: the default
	// If Pool is set, processes stage through their pool, as attached ones do, and do not lend
	// their memory.
	Pool         bool
	StagingBytes int
	CreditBytes  int
	Requests     int
	IdlePolls    int
	RelaySaves   int
	MaxProcesses int                                   // for one NIC
	Peers        func(a, b int) bool                   // which NICs know of each other; nil: all
	Hearsay      bool                                  // NICs call the NICs that their peers report
	MaxEvents    uint64                                // a run with more events fails; 0: no limit
	Sealed       bool                                  // sessions are sealed, and each NIC has its own key
	Security     func(host int, s *rel.Security)       // changes the settings of a NIC of a sealed fabric; or nil
	Trust        func(host int, c *trust.PolicyConfig) // changes the trust settings of such a NIC; or nil
	Policy       func(host int, p *trust.Policy)       // gets the policy of a NIC of a sealed fabric, at each start
	IDs          []uint64                              // of the first NICs, instead of sim.NICID
	// If NewIDs is set, a NIC has another id in each life, like a NIC without a key file. The
	// others know only its address.
	NewIDs  bool
	Check   func(*nic.Engine) error          // called after every poll; an error ends the run
	Tap     func(from, to int, frame []byte) // called for every outgoing frame
	Life    func(process any) vni.Life       // life of a process of a rank; nil: no process belongs to a rank
	Refused func(process any, err error)     // called if a process lost its name; nil: that ends the run
}

// Hooked returns a configuration, which is a sim.Config, with hooks.
func Hooked[Config any](c Config, h Hooks) Config {
	SetHooks(&c, h)
	return c
}

// Package sim fills in these functions. A fabric is a *sim.Fabric, a process is a *sim.Process.
var (
	// SetHooks gives a *sim.Config its hooks. Callers use Hooked.
	SetHooks func(config any, h Hooks)

	// Engine returns the NIC of a host, or nil while it is stopped.
	Engine func(fabric any, host int) *nic.Engine

	// Addr returns the address of a host, even while its NIC is stopped.
	Addr func(fabric any, host int) link.Addr

	// Turn gives the NIC of a host a turn soon. This is necessary after a call of its Engine.
	Turn func(fabric any, host int)

	// Inject puts a frame on the wire as if a host had just sent it. The frame may belong to an
	// earlier session, or be forged.
	Inject func(fabric any, from, to int, frame []byte)

	// UsesOf returns how often the NICs of a fabric have used the capabilities of its links.
	UsesOf func(fabric any) Uses

	// Half returns the process half of a *weft.Process.
	Half func(process any) *proc.Process

	// Slot returns a process's slot in its NIC's process table, and its generation.
	Slot func(process any) (slot uint16, gen uint32)

	// VNI returns a process's interface to its NIC, and the memory that both write.
	VNI func(process any) (seg *vni.Segment, rw []byte)

	// Ring makes the NIC look at a process's commands. This is necessary after commands were
	// posted through VNI.
	Ring func(process any)
)
