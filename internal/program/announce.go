package program

import (
	"encoding/binary"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// NICs tell one another of their programs in Table records, all when a session begins and each change then: so a program is found by its name
// from other NICs, and its senders know whether it is resident. Records arrive in any order, so each has a number, and of those about one
// program the last that was told counts.
//
//	0  11       1
//	1  flags    1   1: it has gone; 2: it is resident
//	2  zero     2
//	4  program  4
//	8  number   4   of the record, one after the other, to whichever NIC; behind 2³² - 1 comes 0
//	12 name    64   filled up with zeros
const (
	newsLen      = 76
	newsGone     = 1
	newsResident = 2
)

// announced is a program of another NIC, or one that has gone: it has no name, and is kept since older news may be on the way.
type announced struct {
	name     string
	resident bool
	number   uint32 // of the record that has told so
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
	t.news++
	binary.LittleEndian.PutUint32(b[4:], uint32(l.id))
	binary.LittleEndian.PutUint32(b[8:], t.news)
	copy(b[12:], l.spec.Module.Name)
}

// Take takes such a record. It returns false if it is not one.
func (t *Table) Take(pr *Peer, b []byte) bool {
	if len(b) != newsLen || b[0] != wire.TableProgram || b[1]&^(newsGone|newsResident) != 0 || b[2]|b[3]|b[newsLen-1] != 0 {
		return false
	}
	id := vm.ID(binary.LittleEndian.Uint32(b[4:]))
	name := b[12:]
	if i := slices.Index(name, 0); i >= 0 {
		name = name[:i]
	}
	if id == 0 || id&ProcessBit != 0 || len(name) == 0 || len(name) > prog.MaxName {
		return false
	}
	a := announced{string(name), b[1]&newsResident != 0, binary.LittleEndian.Uint32(b[8:])}
	if b[1]&newsGone != 0 {
		a.name, a.resident = "", false
	}
	if !pr.learn(id, a) {
		t.count(vni.DropFormat) // no NIC has so many
	}
	return true
}

// learn keeps what was told of a program, unless something newer was. It returns false if there is no room for one more.
func (pr *Peer) learn(id vm.ID, a announced) bool {
	last, known := pr.programs[id]
	if known && int32(a.number-last.number) < 0 {
		return true
	}
	if !known && len(pr.programs) >= 2*limits.Programs && !pr.forgetGone() { // twice, for those that have gone
		return false
	}
	if pr.programs == nil {
		pr.programs, pr.names = make(map[vm.ID]announced), make(directory)
	}
	pr.programs[id] = a
	if last.name != a.name {
		pr.refer(last.name)
		pr.refer(a.name)
	}
	return true
}

// forgetGone forgets the program that has gone the longest time ago, if there is one: no older news of it are on the way any more.
func (pr *Peer) forgetGone() bool {
	var oldest vm.ID
	for id, a := range pr.programs {
		if a.name == "" && (oldest == 0 || int32(a.number-pr.programs[oldest].number) < 0) {
			oldest = id
		}
	}
	delete(pr.programs, oldest)
	return oldest != 0
}

func (t *Table) forgetAnnounced(pr *Peer) {
	clear(pr.programs)
	clear(pr.names)
	pr.told = false
}

// namedAt finds a program by its name at the NIC that a message is to go to, 0 being this one; of several, the one with the lowest number. What
// other NICs call so is nothing to that one: its numbers are its own.
func (t *Table) namedAt(nic uint64, name string) (id vm.ID, ok bool) {
	if nic == 0 || nic == t.cfg.NIC {
		return t.named(name)
	}
	pr := t.nic.Peer(nic)
	if pr == nil {
		return 0, false
	}
	id, ok = pr.names[name]
	return id, ok
}
