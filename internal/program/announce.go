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

// NICs tell one another of their programs in Table records: all programs when a session begins,
// then each change. So other NICs find a program by its name, and its senders know whether it is
// resident. Records arrive in any order, so each has a number. Among the records about one
// program, the last one that was told counts.
//
//	0  11       1
//	1  flags    1   1: the program is gone; 2: it is resident
//	2  zero     2
//	4  program  4
//	8  number   4   of the record, consecutive over all NICs; 2³² - 1 is followed by 0
//	12 name    64   padded with zeros
const (
	newsLen      = 76
	newsGone     = 1
	newsResident = 2
)

// announced is a program of another NIC. A program that is gone has no name, and is kept since
// older news may be in flight.
type announced struct {
	name     string
	resident bool
	number   uint32 // of the record that told this
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

// Take handles such a record. It returns false for any other record.
func (t *Table) Take(pr *Peer, b []byte) bool {
	if len(b) != newsLen || b[0] != wire.TableProgram || b[1]&^(newsGone|newsResident) != 0 ||
		b[2]|b[3]|b[newsLen-1] != 0 {
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

// learn keeps the news of a program, unless newer news arrived before. It returns false if there
// is no room for one more program.
func (pr *Peer) learn(id vm.ID, a announced) bool {
	last, known := pr.programs[id]
	if known && int32(a.number-last.number) < 0 {
		return true
	}
	// Twice as many, to include programs that are gone.
	if !known && len(pr.programs) >= 2*limits.Programs && !pr.forgetGone() {
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

// forgetGone forgets the program that has been gone for longest, if there is one: no older news
// of it is in flight any more.
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

// namedAt returns the program with a name at the destination NIC of a message; 0 is this NIC. If
// several have the name, it returns the one with the lowest number. Other NICs' programs of that
// name do not count: each NIC has its own numbers.
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
