package program

import "github.com/weftnet/weft/pdl/vm"

// A directory holds the numbers of programs by their names; for several programs with one name,
// the lowest. Each SEND to a name looks it up, and the activation is charged one instruction. So
// a lookup is one map access, and the longer work is done when a program comes or goes.
type directory map[string]vm.ID

// refer updates the meaning of a name from the current programs.
func refer[P any](d directory, name string, programs map[vm.ID]P, nameOf func(P) string) {
	lowest := vm.ID(0)
	for id, p := range programs {
		if nameOf(p) == name && (lowest == 0 || id < lowest) {
			lowest = id
		}
	}
	if lowest == 0 || name == "" { // a program that is gone has no name
		delete(d, name)
		return
	}
	d[name] = lowest
}

// refer does that for a name of this NIC's programs.
func (t *Table) refer(name string) {
	refer(t.names, name, t.loaded, func(l *loaded) string { return l.spec.Module.Name })
}

// refer does that for a name of the peer's programs.
func (pr *Peer) refer(name string) {
	refer(pr.names, name, pr.programs, func(a announced) string { return a.name })
}
