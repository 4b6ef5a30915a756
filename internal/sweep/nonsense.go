package sweep

import (
	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/wire"
)

// This file makes the records of a NIC that has gone bad. Their form is valid. Most fields are
// close to valid values, so that a record reaches the check that refuses it.

// wild draws a number that may be valid, far too large, or about to wrap around.
func (a *asylum) wild() uint64 {
	return pick[uint64](a.rng, 0, 1, 100, 1100, 3000, 4096, 16<<10, 40_000, 1<<20, 1<<40, 1<<63, 1<<64-100, 1<<64-1)
}

func (a *asylum) id() wire.FragmentID {
	return wire.FragmentID(a.rng.IntN(6)) + wire.FragmentID(limits.ActiveFragments*a.rng.IntN(3))
}

func (a *asylum) token() uint32 { return uint32(1+a.rng.IntN(40))<<16 | uint32(a.rng.IntN(8)) }

// envelope returns an envelope from a process of the bad NIC, usually to an existing process.
func (a *asylum) envelope(own weft.Address) wire.Envelope {
	to := a.slots[a.rng.IntN(asylumSane)]
	return wire.Envelope{Flags: pick(a.rng, 0, 0, wire.FlagAccept, wire.FlagReply), DstSlot: to.Slot,
		DstGen:  to.Generation + pick[uint32](a.rng, 0, 0, 0, 1),
		SrcSlot: own.Slot, SrcGen: own.Generation + pick[uint32](a.rng, 0, 0,
			1), Number: uint32(a.rng.IntN(60)), Token: a.token(), Tag: pick[uint64](a.rng, 7, 9, 1)}
}

func (a *asylum) remote() wire.Remote {
	i := a.rng.IntN(asylumSane)
	return wire.Remote{Slot: a.slots[i].Slot, Gen: a.slots[i].Generation, Asker: uint16(a.rng.IntN(3)),
		Region: a.keys[i].region, Key: a.keys[i].key,
		Token: a.token(), Offset: a.wild(), Length: a.wild()}
}

// nonsense makes records that belong together.
func (a *asylum) nonsense(own weft.Address) []wire.Record {
	e := a.envelope(own)
	to := a.slots[a.rng.IntN(asylumSane)]
	n := pick(a.rng, 0, 100, 1000)
	switch a.rng.IntN(14) {
	case 0: // spends credit that it may not have
		return a.make(wire.FragLen+n, func(b []byte) { wire.PutFrag(b, &e, n) })
	case 1: // pieces that may be beyond their message, or without credit
		return a.make(wire.EagerLen+n, func(b []byte) { wire.PutEager(b, a.id(), a.wild(), a.wild(), &e, n) })
	case 2: // pieces without permission, or more than permitted
		return a.unpermitted(e)
	case 3: // returns credit that was never granted
		return a.make(wire.CreditLen, func(b []byte) {
			wire.Credit{Flags: wire.FlagReturn, Slot: to.Slot, Gen: to.Generation, Bytes: a.wild()}.Put(b)
		})
	case 4: // grants or recalls credit unasked, or less than before
		return a.make(wire.CreditLen, func(b []byte) {
			wire.Credit{Flags: pick(a.rng, 0, wire.FlagRecall), Slot: own.Slot, Gen: own.Generation,
				Bytes: a.wild()}.Put(b)
		})
	case 5: // withdraws messages that never existed, with a refund
		// For every second number, the message is a call that its caller gives up.
		e.Tag, e.Token = a.wild(), e.Token|e.Number<<31
		return a.make(wire.WithdrawLen, func(b []byte) { wire.PutWithdraw(b, pick(a.rng, 0, a.id()), &e) })
	case 6: // permissions for more than exists
		return a.permissions()
	case 7: // answers to messages between other NICs
		return a.answers()
	case 8: // a message in the name of another NIC's process
		return a.forged(n)
	case 9: // memory that does not exist
		m := a.remote()
		if a.rng.IntN(2) == 0 {
			return a.make(wire.GetLen, func(b []byte) { wire.PutGet(b, a.id()|1, a.wild(), &m) })
		}
		return a.make(wire.LongPutLen, func(b []byte) { wire.PutLongPut(b, a.id()|1, &m, min(a.wild(), m.Length)) })
	// Claims and ends of names, including those of others, and decreasing numbers.
	case 10:
		return a.claim(own)
	case 11, 12: // steps of a group to which it does not belong
		return a.meddles()
	default:
		return a.make(wire.AcceptLen, func(b []byte) { wire.PutAccept(b, to.Slot, a.token()) })
	}
}

// make returns one record.
func (a *asylum) make(n int, put func(b []byte)) []wire.Record {
	b := make([]byte, n)
	put(b)
	return []wire.Record{b}
}

// unpermitted returns a short request, which may soon be permitted into staging. It also returns
// pieces of this request, or of an older one, that exceed the permission.
func (a *asylum) unpermitted(e wire.Envelope) (l []wire.Record) {
	id := a.id() | 1
	if a.rng.IntN(2) == 0 {
		q := wire.Request{ID: id, Length: 3000, Ready: 3000, Envelope: e}
		return a.make(wire.RequestLen, q.Put)
	}
	for i := range uint64(4) {
		l = append(l, a.make(wire.ChunkLen+1100,
			func(b []byte) { wire.PutChunk(b, 0, id, pick(a.rng, i*1100, a.wild()), 1100) })...)
	}
	return l
}

// permissions returns permissions for fragments of a slot, in any of its first uses.
func (a *asylum) permissions() (l []wire.Record) {
	slot, limit := a.rng.IntN(4), a.wild()
	for use := range 12 {
		l = append(l, a.make(wire.PermissionLen, func(b []byte) {
			wire.PutPermission(b, pick(a.rng, 0, 0, wire.FlagGet), wire.FragmentID(slot+limits.ActiveFragments*use),
				limit)
		})...)
	}
	return l
}

// answers refuses operations that a process may have in flight to another process. It uses the
// tokens of recent operations.
func (a *asylum) answers() (l []wire.Record) {
	if len(a.heard) == 0 {
		return nil
	}
	h := a.heard[len(a.heard)-1-a.rng.IntN(min(len(a.heard), 8))]
	for ctx := range uint32(4) {
		for more := range uint32(6) {
			l = append(l, a.make(wire.RefuseLen, func(b []byte) {
				wire.PutRefuse(b, 0, 0, h.who.Slot,
					(h.uses+more)<<16|ctx, wire.ReasonCancelled)
			})...)
		}
	}
	return l
}

// forged returns a relay of a message in the name of another NIC's process. It names a session
// that the two NICs do not have, or the session that they have: a NIC that relays sees the
// session's name.
func (a *asylum) forged(n int) []wire.Record {
	i := a.rng.IntN(asylumSane)
	from, to := a.slots[i], a.slots[(i+1)%asylumSane]
	session := a.rng.Uint32()
	if a.rng.IntN(2) == 0 {
		session = simulated.Engine(a.f, (i+1)%asylumMad).Session(uint64(from.NIC))
	}
	body := wire.RelayHeadLen + wire.RelayNICLen + wire.RelayReceiverLen + n
	return a.make(wire.RelayLen+body, func(b []byte) {
		wire.PutRelay(b, uint32(a.rng.IntN(4)), 0, uint32(body), body)
		b = b[wire.RelayLen:]
		head := wire.RelayHead{NIC: uint64(from.NIC), Gen: from.Generation, Slot: from.Slot, NICs: 1,
			Token: a.token(), Tag: 7}
		head.Put(b)
		to1 := wire.RelayNIC{NIC: uint64(to.NIC), Session: session, Receivers: 1}
		to1.Put(b[wire.RelayHeadLen:])
		v := wire.RelayReceiver{Gen: to.Generation, Number: uint32(a.rng.IntN(asylumMessages + 2)), Slot: to.Slot}
		v.Put(b[wire.RelayHeadLen+wire.RelayNICLen:])
	})
}

// claim returns a record about a name: a process of the bad NIC has just taken the name, or has
// lost it.
func (a *asylum) claim(own weft.Address) []wire.Record {
	const length = 48 // see internal/names/record.go
	return a.make(wire.RecordLen+length, func(b []byte) {
		wire.PutTable(b, length)
		b = b[wire.RecordLen:]
		b[0] = pick[byte](a.rng, 1, 2, 3, 4, 9, 10)
		// The age may be true or false.
		for i, age := 0, pick[uint64](a.rng, 0, 1e6, 1e9, 1e15, 1<<62, 1<<63-1, 1<<63, 1<<64-1); i < 8; i++ {
			b[8+i] = byte(age >> (8 * i))
		}
		b[2], b[4] = byte(own.Slot)+byte(a.rng.IntN(4)), byte(a.rng.IntN(4))
		copy(b[20:], pick(a.rng, "sane", "mad", "nobody"))
		b[16] = byte(a.rng.IntN(asylumSane))
		b[44] = byte(a.rng.IntN(8))
	})
}
