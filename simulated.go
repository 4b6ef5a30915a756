package weft

import "github.com/weftnet/weft/internal/proc"

// Simulated processes, those of package sim, have no NIC that this package has made.
func init() {
	proc.Public = func(half *proc.Process, leave func() error, time proc.Time) any {
		id := half.Identity()
		p := &Process{time: time, name: nameOf(id.Name), addr: Address{NICID(id.NIC), id.Slot, id.Gen}, leave: leave}
		p.init(half)
		return p
	}
}
