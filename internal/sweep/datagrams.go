package sweep

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/wire"
)

// datagrams are sent from NIC to NIC in addition to all other traffic, by a service that has no
// other purpose. A datagram may be lost. It must not arrive twice, from another NIC, at another
// NIC, or with other bytes than were sent.
type datagrams struct {
	rng    *rand.Rand
	nics   int
	every  int                   // polls between two sends
	id     func(host int) uint64 // the id of a host's NIC
	heard  map[*nic.Engine]bool  // NICs whose datagrams are checked
	sent   map[uint32]sentDatagram
	number uint32
	came   uint64
	wrong  func(format string, args ...any)
}

type sentDatagram struct {
	from, to uint64
	length   int
	came     bool
}

const (
	datagramService = 7
	datagramsEvery  = 1500 // polls between two sends
	leastDatagram   = 4    // room for the number of the datagram
)

func newDatagrams(seed uint64, nics int, wrong func(format string, args ...any)) *datagrams {
	return &datagrams{rng: rand.New(rand.NewPCG(seed, 0x6461746167)), nics: nics, every: datagramsEvery, id: nicID,
		heard: map[*nic.Engine]bool{}, sent: map[uint32]sentDatagram{}, wrong: wrong}
}

// polled makes a NIC that has just been polled listen and, from time to time, send.
func (d *datagrams) polled(e *nic.Engine, sends bool) {
	if !d.heard[e] {
		d.heard[e] = true
		e.ClaimDatagrams(datagramService,
			func(_ clock.Time, from uint64, payload []byte) { d.take(e.ID(), from, payload) })
	}
	if !sends || d.nics < 2 || d.rng.IntN(d.every) != 0 {
		return
	}
	to := d.id(d.rng.IntN(d.nics))
	if to == e.ID() {
		return
	}
	// Most datagrams have one of a few lengths, so that pieces of several datagrams of one length
	// are in flight concurrently.
	n := []int{leastDatagram + d.rng.IntN(200), 3000, 6000,
		leastDatagram + d.rng.IntN(wire.MaxDatagram+1-leastDatagram)}[d.rng.IntN(4)]
	for range 1 + d.rng.IntN(3) {
		b := e.Datagram(to, datagramService, n)
		if b == nil {
			return
		}
		d.number++
		d.sent[d.number] = sentDatagram{from: e.ID(), to: to, length: n}
		fillDatagram(b, d.number)
	}
}

// fillDatagram writes the contents of a datagram: its number, and bytes derived from it.
func fillDatagram(b []byte, number uint32) {
	binary.LittleEndian.PutUint32(b, number)
	for i := leastDatagram; i < len(b); i++ {
		b[i] = byte(uint32(i)*2654435761>>11 ^ number*40503>>3)
	}
}

// take judges a datagram that has arrived.
func (d *datagrams) take(to, from uint64, payload []byte) {
	if len(payload) < leastDatagram {
		d.wrong("NIC %v has received a datagram of %d bytes", nicid.ID(to), len(payload))
		return
	}
	number := binary.LittleEndian.Uint32(payload)
	s, ok := d.sent[number]
	want := make([]byte, len(payload))
	fillDatagram(want, number)
	switch {
	case !ok || s.length != len(payload) || string(want) != string(payload):
		d.wrong("NIC %v has received a datagram of %d bytes that was not sent so", nicid.ID(to), len(payload))
	case s.from != from || s.to != to:
		d.wrong("NIC %v has received datagram %d from NIC %v; it was sent from %v to %v", nicid.ID(to), number,
			nicid.ID(from), nicid.ID(s.from), nicid.ID(s.to))
	case s.came:
		d.wrong("NIC %v has received datagram %d twice", nicid.ID(to), number)
	}
	s.came = true
	d.sent[number] = s
	d.came++
}
