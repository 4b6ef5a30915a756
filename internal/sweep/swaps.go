package sweep

import (
	"context"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/sim"
)

// This file tests several tools that change the same numbers and names of programs concurrently.

const (
	swapID  vm.ID = 60
	firstID vm.ID = 70 // first number of the programs with one name on the NICs
)

// fabricClient returns a tool that loads programs into all NICs, in some order. It calls before
// ahead of each request.
func (w *workshop) fabricClient(p *sim.Process, before func(do string)) (client *deploy.Client, nics []registry.NICID,
	hosts map[registry.NICID]int) {
	hosts = map[registry.NICID]int{}
	sites := map[registry.NICID]*deploy.Site{}
	for host := range 3 {
		id := registry.NICID(nicID(host))
		hosts[id], nics = host, append(nics, id)
		sites[id] = &deploy.Site{NIC: id, May: deploy.Everything, Do: func(f func(*program.Table)) {
			f(w.table(host))
			simulated.Turn(w.f, host)
		}}
	}
	w.rng.Shuffle(len(nics), func(i, j int) { nics[i], nics[j] = nics[j], nics[i] })
	return &deploy.Client{InTurn: true,
		Ask: func(_ context.Context, nic registry.NICID, r *ctl.Program) (*ctl.ProgramReply, error) {
			before(r.Do)
			p.Runtime().Sleep(context.Background(), time.Duration(w.rng.ExpFloat64()*float64(100*time.Microsecond)))
			if w.table(hosts[nic]) == nil {
				return nil, errDead
			}
			return sites[nic].Answer(deploy.Asker{}, r)
		}}, nics, hosts
}

// swap replaces a counter, or no program, by a version of the counter with the same layout or
// another. This version may never end once it has a message. Before the replacement is undone,
// the version may be unloaded, and its number given to a stranger.
func (w *workshop) swap(p *sim.Process) {
	t := w.table(0)
	replaces := w.rng.IntN(2) == 0
	if replaces {
		w.load(0, "counter", program.Spec{ID: swapID, Start: true})
	}
	version := pick(w.rng, "counter", "counter, another layout", "counter that never ends")
	key, _, err := t.Prepare(program.Spec{Module: workshopModules()[version], ID: swapID, Replace: replaces,
		Start: true})
	if err == nil {
		_, _, err = t.Commit(key)
	}
	if err == nil && w.rng.IntN(2) == 0 {
		err = t.Post(swapID, 1, nil)
		simulated.Turn(w.f, 0)
		p.Runtime().Sleep(context.Background(), 2*time.Millisecond)
	}
	unloaded, strange := w.rng.IntN(2) == 0, false
	if err == nil && unloaded {
		err = t.Unload(swapID)
		if strange = w.rng.IntN(2) == 0; strange {
			w.load(0, "stranger", program.Spec{ID: swapID, Start: true})
		}
	}
	if err != nil {
		w.violate("%s, which replaces another %v, is put in place: %v", version, replaces, err)
		return
	}
	if err := t.Undo(key); (err != nil) != (replaces && unloaded) {
		w.violate("%s, which has replaced another %v, and was unloaded %v, is undone: %v", version, replaces,
			unloaded, err)
	}
	want := ""
	switch {
	case strange:
		want = "stranger"
	case replaces && !unloaded:
		want = "counter"
	}
	info, there := t.Info(swapID)
	if there != (want != "") || there && (info.Module.Hash() != workshopModules()[want].Hash() || !info.Running) {
		w.violate("%s, which has replaced another %v, and was unloaded %v, is undone: its number has %q, "+
			"which runs %v; expected %q",
			version, replaces, unloaded, programName(info), info.Running, want)
	}
	if there {
		if err := t.Unload(swapID); err != nil {
			w.violate("%v", err)
		}
	}
}

// namesakes runs programs of one name that have another number on each NIC or are missing there,
// next to strangers. It replaces these programs by their name. It also loads a program that has
// one number on all NICs.
func (w *workshop) namesakes(p *sim.Process) {
	var twins, strangers [3]vm.ID
	for host := range 3 {
		numbers := w.rng.Perm(4)
		if w.rng.IntN(4) > 0 {
			twins[host], _ = w.load(host, "twin", program.Spec{ID: firstID + vm.ID(numbers[0]), Start: true})
		}
		strangers[host], _ = w.load(host, "stranger", program.Spec{ID: firstID + vm.ID(numbers[1]), Start: true})
	}
	client, nics, hosts := w.fabricClient(p, func(string) {})
	load := func(name string, o deploy.Options) (ids [3]vm.ID) {
		placed, err := client.Load(context.Background(), nics, workshopModules()[name].Encode(), o)
		if err != nil {
			w.violate("%s is loaded into all NICs: %v", name, err)
		}
		for _, at := range placed {
			ids[hosts[at.NIC]] = vm.ID(at.ID)
		}
		return ids
	}
	replaced := load("twin, another layout", deploy.Options{Replace: true, Start: true})
	same := load("lonely", deploy.Options{Start: true})
	for host, id := range replaced {
		if twins[host] != 0 && id != twins[host] {
			w.violate("host %d had a program as %d, and has what replaces it by name as %d", host, twins[host], id)
		}
		w.mustHave(host, id, "twin, another layout")
		w.mustHave(host, strangers[host], "stranger")
		w.mustHave(host, same[host], "lonely")
		for _, id := range []vm.ID{id, strangers[host], same[host]} {
			if err := w.table(host).Unload(id); err != nil {
				w.violate("%v", err)
			}
			simulated.Turn(w.f, host)
		}
	}
	if slices.Min(same[:]) != slices.Max(same[:]) {
		w.violate("a program that is loaded into all NICs has the numbers %d", same)
	}
}

// mustHave checks which program has a number on a host.
func (w *workshop) mustHave(host int, id vm.ID, name string) {
	if info, there := w.table(host).Info(id); !there || info.Module.Hash() != workshopModules()[name].Hash() {
		w.violate("host %d was to have %s as program %d; it has %q", host, name, id, programName(info))
	}
}

// programName returns the name of a program, or "" if there is none.
func programName(info program.Info) string {
	if info.Module == nil {
		return ""
	}
	return info.Module.Name
}
