package deploy

import (
	"context"
	"slices"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/pdl/prog"
)

// Which number a program has on each NIC:
//
//	--id N            N
//	--id N --replace  N, in the place of what has it
//	                  one that is free on all NICs
//	--replace         where there is one of the module's name: its number there, as the NIC finds it;
//	                  elsewhere that of the first NIC that has one, if it is free, or else one that is
//
// A program of another name is replaced only by its number. What a list says may have changed when the module is prepared, so the NIC
// decides: it finds the name itself, and a number that was taken meanwhile is refused.

// places are the options for each NIC. number is the one that was chosen here, from some number on; 0: none was.
func (c *Client) places(ctx context.Context, nics []registry.NICID, module []byte, o Options, from uint32) (number uint32, places []Options, err error) {
	places = slices.Repeat([]Options{o}, len(nics))
	if o.ID != 0 || len(nics) == 1 {
		return 0, places, nil
	}
	name := ""
	if m, err := prog.Decode(module); err == nil && o.Replace { // what is no module is refused by each NIC
		name = m.Name
	}
	taken := map[uint32]bool{} // on a NIC that is to get a number from here
	var first uint32           // that a program of the name has
	var lacking []int
	for i, nic := range nics {
		l, err := c.List(ctx, nic)
		if err != nil {
			return 0, nil, At(nic, err)
		}
		if k := slices.IndexFunc(l, func(p ctl.ProgramInfo) bool { return p.Name == name }); k >= 0 {
			if first == 0 {
				first = l[k].ID
			}
			continue
		}
		lacking = append(lacking, i)
		for _, p := range l {
			taken[p.ID] = true
		}
	}
	if len(lacking) == 0 {
		return 0, places, nil
	}
	if number = first; number < from || taken[number] {
		for number = from; taken[number]; number++ {
		}
	}
	for _, i := range lacking {
		places[i].ID, places[i].Replace = number, false
	}
	return number, places, nil
}
