package sim

import (
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
)

// Package simulated gives Weft's own tests access to the inside of a fabric.
func init() {
	simulated.SetHooks = func(config any, h simulated.Hooks) { config.(*Config).hooks = h }
	simulated.Engine = func(f any, host int) *nic.Engine { return f.(*Fabric).nodes[host].engine }
	simulated.Addr = func(f any, host int) link.Addr { return f.(*Fabric).nodes[host].port.addr }
	simulated.Turn = func(f any, host int) { f.(*Fabric).nodes[host].soon(noticeTime) }
	simulated.Inject = func(f any, from, to int, frame []byte) { f.(*Fabric).inject(from, to, frame) }
	simulated.UsesOf = func(f any) simulated.Uses { return f.(*Fabric).net.uses }
	simulated.Half = func(p any) *proc.Process { return p.(*Process).half }
	simulated.Slot = func(p any) (uint16, uint32) { return p.(*Process).slot, p.(*Process).gen }
	simulated.VNI = func(p any) (*vni.Segment, []byte) { return p.(*Process).seg, p.(*Process).rw }
	simulated.Ring = func(p any) { waiter{p.(*Process)}.Kick() }
}
