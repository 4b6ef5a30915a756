package program

import (
	"encoding/binary"
	"time"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// A guard of outgoing messages judges the messages of a process before they leave. It ends in
// PASS, PASS AFTER or DROP. Its packet does not hold the bytes of the message: they are memory of
// the process, which could change them after the verdict. The packet describes the message in
// words:
//
//	0  bytes of the message
//	1  tag or trigger
//	2  kind
//	3  id of the receiver's NIC
//	4  number of the receiving process or program
//
// If anything keeps the guard from a verdict, the message is refused, as at a guard of incoming
// messages.

// DepartureWords is the length of that packet, in words.
const DepartureWords = 5

// A Departure describes a message that a process sends.
type Departure struct {
	Bytes  uint64
	Tag    uint64 // for a message to a program: the trigger
	Kind   DepartureKind
	NIC    uint64 // of the receiver
	Number vm.ID  // of the receiving process (ProcessNumber) or program
}

// DepartureKind is the kind of a message that a process sends.
type DepartureKind uint8

// The kinds of departures. The numbers are part of the language.
const (
	DepartsMessage  DepartureKind = iota // to a process
	DepartsDatagram                      // to a process
	DepartsPut                           // into a region of a process
	DepartsProgram                       // to a program
)

// OutgoingFunc judges a message that a process sends. If it passes, it may leave after the delay:
// 0 to prog.MaxDelay ns.
type OutgoingFunc func(d *Departure) (delay time.Duration, pass bool)

// put writes the packet that the guard sees.
func (d *Departure) put(b *[8 * DepartureWords]byte) {
	for i, v := range [DepartureWords]uint64{d.Bytes, d.Tag, uint64(d.Kind), d.NIC, uint64(d.Number)} {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
}

// outgoingGuard returns the filter function of a program for messages that a process sends.
func (t *Table) outgoingGuard(id vm.ID, trigger uint32) OutgoingFunc {
	var packet [8 * DepartureWords]byte
	return func(d *Departure) (delay time.Duration, pass bool) {
		t.count(vni.NICProgramsFiltered)
		l := t.loaded[id]
		if l == nil {
			return 0, false
		}
		d.put(&packet)
		m := vm.Message{Program: id, Trigger: trigger, Source: t.cfg.NIC, Payload: packet[:]}
		if o := t.judge(l, &m); !passes(o) {
			l.dropped++
			return 0, false
		}
		if delay = time.Duration(t.machine.After()); delay > 0 {
			l.delayed++
		}
		return delay, true
	}
}
