package deploy

import (
	"context"
	"slices"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/pdl/prog"
)

// The number of a program on each NIC:
//
//	--id N            N
//	--id N --replace  N, in place of the program with this number
//	                  a number that is free on all NICs
//	--replace         on a NIC with a program of the module's name: its number, as the NIC finds
//	                  it; elsewhere that of the first NIC that has one, if it is free, or else a
//	                  free one
//
// A program of another name is replaced only by its number. A list may be out of date when the
// module is prepared, so the NIC decides: it finds the name itself, and refuses a number that was
// taken meanwhile.

// places returns the options for each NIC. number is the one chosen here, at least from; 0 means
// that none was chosen.
func (c *Client) places(ctx context.Context, nics []registry.NICID, module []byte, o Options,
	from uint32) (number uint32, places []Options, err error) {
	places = slices.Repeat([]Options{o}, len(nics))
	if o.ID != 0 || len(nics) == 1 {
		return 0, places, nil
	}
	name := ""
	// Each NIC refuses bytes that are not a module.
	if m, err := prog.Decode(module); err == nil && o.Replace {
		name = m.Name
	}
	taken := map[uint32]bool{} // on a NIC whose number is chosen here
	var first uint32           // number of the first program of the name
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
