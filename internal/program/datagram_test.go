package program

import (
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// datagram returns a datagram for a program.
func datagram(program, trigger uint32, payload ...byte) []byte {
	b := make([]byte, wire.ProgramDatagramLen, wire.ProgramDatagramLen+len(payload))
	d := wire.ProgramDatagram{Program: program, Trigger: trigger, From: 3}
	d.Put(b)
	return append(b, payload...)
}

const shower = "PROGRAM p: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN n = n + 1; DISPLAY PACKETLEN END; END;"

func resident(s *Spec) { s.Resident = true }

// A program in a driver answers every asker by a datagram, even a program that is not resident,
// or a process.
func TestADatagramIsHandledByWhateverItIsFor(t *testing.T) {
	n := newNIC(t)
	n.put(5, shower, resident)
	n.put(6, shower)
	n.Datagram(9, datagram(5, 1, 1, 2, 3))
	n.Datagram(9, datagram(6, 1, 1, 2))
	n.Datagram(9, datagram(uint32(ProcessBit|4), 33, 1))
	n.Datagram(9, datagram(77, 1))
	n.run(4)
	if got := n.shown(5); len(got) != 1 || got[0] != 3 {
		t.Errorf("the resident program displays %v", got)
	}
	if got := n.shown(6); len(got) != 1 || got[0] != 2 {
		t.Errorf("one that is not displays %v", got)
	}
	if got := n.engine.given; len(got) != 1 || got[0].NIC != 9 || got[0].From != 3 || got[0].Trigger != 33 || len(got[0].Payload) != 1 {
		t.Errorf("the process is given %+v", got)
	}
	if n.counts[vni.NICProgramsUnknown] != 1 || n.counts[vni.NICProgramDatagramsLost] != 0 {
		t.Errorf("of a datagram for no program %d are counted as such, and %d as lost", n.counts[vni.NICProgramsUnknown], n.counts[vni.NICProgramDatagramsLost])
	}
	n.Datagram(9, datagram(5, 1)[:wire.ProgramDatagramLen-1])
	if n.counts[vni.DropFormat] != 1 {
		t.Error("a datagram that is too short is not counted")
	}
}

func TestDatagramsBeyondTheQueueAreLostAndCounted(t *testing.T) {
	n := newNIC(t)
	n.put(5, shower, resident)
	room := limits.ProgramQueue / cost(1000)
	for range room + 10 {
		n.Datagram(9, datagram(5, 1, make([]byte, 1000)...))
	}
	if n.Pending() != room || n.counts[vni.NICProgramDatagramsLost] != 10 {
		t.Errorf("%d wait, %d are lost; want %d and 10", n.Pending(), n.counts[vni.NICProgramDatagramsLost], room)
	}
	n.run(10 * room)
	if got := len(n.shown(5)); got != room {
		t.Errorf("%d were handled; want %d", got, room)
	}
}

// For any datagrams, the table keeps its limits, and each datagram is handled, lost, or invalid.
func FuzzDatagram(f *testing.F) {
	f.Add(datagram(5, 1, 1, 2, 3), datagram(6, 1))
	f.Add(datagram(5, 2), datagram(5, 1, make([]byte, 64)...)[:30])
	f.Add([]byte{}, datagram(0xffffffff, 0xffffffff))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		n := newNIC(t)
		n.put(5, `PROGRAM p: VAR n, m[8]; TRIGGERS 1, 2; BEGIN END;
			MESSAGE 1: BEGIN GET m[0] OFFSET 0 FROM PACKET LEN PACKETLEN; n = n + PACKET[m[0]] END;
			MESSAGE 2: BEGIN SEND PACKET[1] LEN 16 AS PACKET[0] TO PACKET[1] AT SOURCE; STOP END; END;`, resident)
		for i := range 4 {
			n.Datagram(9, a)
			n.Datagram(uint64(10+i), b)
		}
		n.run(100)
		c := n.counts
		if sum := c[vni.NICProgramMessages] + c[vni.NICProgramDatagramsLost] + c[vni.DropFormat]; sum != 8 || n.Pending() != 0 {
			t.Errorf("of 8 datagrams %d were handled, %d lost, %d not in order; %d wait", c[vni.NICProgramMessages], c[vni.NICProgramDatagramsLost], c[vni.DropFormat], n.Pending())
		}
		if err := n.Leaks(); err != nil {
			t.Error(err)
		}
	})
}
