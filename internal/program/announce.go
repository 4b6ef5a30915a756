package program

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// NICs tell one another of their programs in Table records, all when a session begins and each change then: so a program is found by its name
// from other NICs, and its senders know whether it is resident.
//
//	0  11       1
//	1  flags    1   1: it has gone; 2: it is resident
//	2  zero     2
//	4  program  4
//	8  name    64   filled up with zeros
const (
	newsLen      = 72
	newsGone     = 1
	newsResident = 2
)

// announced is a program of another NIC.
type announced struct {
	name     string
	resident bool
}

// announce tells the peers of a program, or of its end.
func (t *Table) announce(l *loaded, gone bool) {
	for pr := range t.nic.Peers {
		if pr.Up() && pr.told {
			t.tell(pr, l, gone)
		}
	}
}

// announceAll tells a peer of all programs.
func (t *Table) announceAll(pr *Peer) {
	pr.told = true
	for _, id := range t.ids() {
		t.tell(pr, t.loaded[id], false)
	}
}

func (t *Table) tell(pr *Peer, l *loaded, gone bool) {
	b := t.nic.Announce(pr, newsLen)
	if b == nil {
		return
	}
	b[0] = wire.TableProgram
	if gone {
		b[1] |= newsGone
	}
	if l.spec.Resident {
		b[1] |= newsResident
	}
	binary.LittleEndian.PutUint32(b[4:], uint32(l.id))
	copy(b[8:], l.spec.Module.Name)
}

// Take takes such a record. It returns false if it is not one.
func (t *Table) Take(pr *Peer, b []byte) bool {
	if len(b) != newsLen || b[0] != wire.TableProgram || b[1]&^(newsGone|newsResident) != 0 || b[2]|b[3]|b[newsLen-1] != 0 {
		return false
	}
	id := vm.ID(binary.LittleEndian.Uint32(b[4:]))
	name := b[8:]
	if i := slices.Index(name, 0); i >= 0 {
		name = name[:i]
	}
	_, known := pr.programs[id]
	switch {
	case id == 0 || id&ProcessBit != 0 || len(name) == 0 || len(name) > prog.MaxName:
		return false
	case b[1]&newsGone != 0:
		delete(pr.programs, id)
	case !known && len(pr.programs) >= limits.Programs:
		t.count(vni.DropFormat) // no NIC has so many
	default:
		if pr.programs == nil {
			pr.programs = make(map[vm.ID]announced)
		}
		pr.programs[id] = announced{string(name), b[1]&newsResident != 0}
	}
	return true
}

func (t *Table) forgetAnnounced(pr *Peer) {
	clear(pr.programs)
	pr.told = false
}

// lookup finds a program by its name: here, or else where another NIC has announced it, the NIC with the lowest id first.
func (t *Table) lookup(name string) (number int64, ok bool) {
	if id, ok := t.named(name); ok {
		return int64(id), true
	}
	type place struct {
		nic uint64
		id  vm.ID
	}
	var found []place
	for pr := range t.nic.Peers {
		for id, a := range pr.programs {
			if a.name == name {
				found = append(found, place{pr.NIC(), id})
			}
		}
	}
	if len(found) == 0 {
		return 0, false
	}
	first := slices.MinFunc(found, func(a, b place) int { return cmp.Or(cmp.Compare(a.nic, b.nic), cmp.Compare(a.id, b.id)) })
	return int64(first.id), true
}
