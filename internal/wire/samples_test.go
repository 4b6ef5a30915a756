package wire_test

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"

	"golang.org/x/crypto/blake2s"

	"github.com/weftnet/weft/internal/wire"
)

// fields is a header as docs/wire.md describes it: field names and their values. Numbers of up to
// four bytes are uint64. Longer numbers are hex strings, and so are fields without a fixed size.
// vectors.json holds such fields, and tests compare them.
type fields map[string]any

func u64(v uint64) string { return fmt.Sprintf("0x%016x", v) }

// sample is one value in both forms: its bytes, as the code writes them, and its intended
// meaning.
type sample struct {
	name  string // the heading of its table in docs/wire.md
	bytes []byte
	means fields
}

// written calls put with dirty and guarded memory, and returns the n bytes that put owns and
// wrote. It fails if put leaves one of its bytes unwritten, or touches a byte beyond.
func written(n int, put func(b []byte)) []byte {
	const guard = 16
	var runs [2][]byte
	for i, dirt := range []byte{0xa5, 0x5a} {
		b := bytes.Repeat([]byte{dirt}, n+guard)
		put(b)
		if !bytes.Equal(b[n:], bytes.Repeat([]byte{dirt}, guard)) {
			panic(fmt.Sprintf("wrote beyond its %d bytes", n))
		}
		runs[i] = b[:n]
	}
	if !bytes.Equal(runs[0], runs[1]) {
		panic(fmt.Sprintf("left some of its %d bytes unwritten: % x", n, runs[0]))
	}
	return runs[0]
}

func outerSample(o wire.Outer) sample {
	return sample{"Outer header", written(wire.OuterLen, o.Put), fields{
		"version and kind": uint64(wire.Version)<<4 | uint64(o.Kind), "flags": uint64(o.Flags),
		"index": uint64(o.Index), "packet counter": u64(o.Counter),
	}}
}

func innerSample(h wire.Inner) sample {
	return sample{"Inner header", written(wire.InnerLen, h.Put), innerFields(h)}
}

func helloSample(h wire.Hello) sample {
	return sample{"Hello", written(wire.HelloLen, h.Put), helloFields(h)}
}

func ackSample(a *wire.Ack) sample { return sample{"Ack", written(a.Len(), a.Put), ackFields(a)} }

func probeSample(p wire.Probe) sample {
	return sample{"Probe", written(int(p.Size), p.Put), probeFields(p)}
}

func partSample(p wire.Part, payload []byte) sample {
	b := written(wire.PartLen, func(b []byte) { p.Put(b, len(payload)) })
	return sample{"Part", append(b, payload...), partFields(p, payload)}
}

func datagramSample(d wire.Datagram, payload []byte) sample {
	b := written(wire.DatagramLen, func(b []byte) { d.Put(b, len(payload)) })
	return sample{"Datagram", append(b, payload...), datagramFields(d, payload)}
}

func datagramFields(d wire.Datagram, payload []byte) fields {
	return fields{"id": uint64(d.ID), "offset": uint64(d.Offset), "length": uint64(d.Length), "service": uint64(d.Service),
		"size": uint64(len(payload)), "payload": hex.EncodeToString(payload)}
}

func partFields(p wire.Part, payload []byte) fields {
	return fields{"space": uint64(p.Space), "size": uint64(len(payload)), "sequence": uint64(p.Seq), "offset": uint64(p.Offset),
		"length": uint64(p.Length), "payload": hex.EncodeToString(payload)}
}

// handshakeSample returns a body with zeros behind it, as in a Hello that is as long as its
// answer.
func handshakeSample(h wire.Handshake, zeros int) sample {
	n := h.Len() + zeros
	b := written(n, func(b []byte) { h.Put(b, n) })
	return sample{"Handshake", b, handshakeFields(h, zeros)}
}

func handshakeFields(h wire.Handshake, zeros int) fields {
	return fields{"pattern": uint64(h.Pattern), "message": uint64(h.Message), "length": uint64(len(h.Noise)), "index": uint64(h.Index),
		"lowest version": uint64(h.MinVersion), "highest version": uint64(h.MaxVersion),
		"noise message": hex.EncodeToString(append(bytes.Clone(h.Noise), make([]byte, zeros)...))}
}

func cookieSample(c wire.Cookie) sample {
	return sample{"Cookie", written(wire.CookieLen, c.Put), cookieFields(c)}
}

func cookieFields(c wire.Cookie) fields {
	return fields{"nonce": hex.EncodeToString(c.Nonce[:]), "sealed cookie": hex.EncodeToString(c.Sealed[:])}
}

func rekeySample(r wire.Rekey) sample {
	b := written(wire.RekeyHead+len(r.Noise), func(b []byte) { r.Put(b) })
	return sample{"Rekey", b, fields{"message": uint64(r.Message), "number": uint64(r.Number), "noise message": hex.EncodeToString(r.Noise)}}
}

// macsSample returns the MACs behind a frame, computed as docs/wire.md describes. Without a
// cookie mac2 is zeros.
func macsSample(frame, fabric, cookie []byte) sample {
	key, err := hkdf.Key(sha256.New, fabric, nil, "weft mac1", 32)
	if err != nil {
		panic(err)
	}
	mac1, mac2 := blake2sOf(key, frame), make([]byte, wire.MACLen)
	if cookie != nil {
		mac2 = blake2sOf(cookie, append(bytes.Clone(frame), mac1...))
	}
	return sample{"MACs", append(mac1, mac2...), fields{"mac1": hex.EncodeToString(mac1), "mac2": hex.EncodeToString(mac2)}}
}

func blake2sOf(key, b []byte) []byte {
	h, err := blake2s.New128(key)
	if err != nil {
		panic(err)
	}
	h.Write(b)
	return h.Sum(nil)
}

func innerFields(h wire.Inner) fields {
	return fields{
		"space": uint64(h.Space), "flags": uint64(h.Flags), "sequence": uint64(h.Seq),
		"ack, command space": uint64(h.Ack[wire.Command]), "ack, data space": uint64(h.Ack[wire.Data]),
	}
}

func helloFields(h wire.Hello) fields {
	return fields{
		"lowest version": uint64(h.MinVersion), "highest version": uint64(h.MaxVersion), "index": uint64(h.Index),
		"nic id": u64(h.NIC), "incarnation": u64(h.Incarnation), "cookie": u64(h.Cookie),
		"mtu, command queue": uint64(h.MTUCommand), "mtu, data queue": uint64(h.MTUData),
		"window, command space": uint64(h.WinCommand), "window, data space": uint64(h.WinData),
		"receive capacity": u64(h.ReceiveCapacity), "ack delay": uint64(h.AckDelayMicros),
		"first sequence, command space": uint64(h.FirstCommand), "first sequence, data space": uint64(h.FirstData),
		"capabilities": u64(h.Capabilities), "echo incarnation": u64(h.EchoIncarnation), "echo counter": u64(h.EchoCounter),
	}
}

func ackFields(a *wire.Ack) fields {
	var bits []byte
	for s := range a.Selective {
		for _, w := range a.Selective[s][:a.Words[s]] {
			for i := range 8 {
				bits = append(bits, byte(w>>(8*i)))
			}
		}
	}
	return fields{
		"flags": uint64(a.Flags), "reason": uint64(a.Reason),
		"words, command space": uint64(a.Words[wire.Command]), "words, data space": uint64(a.Words[wire.Data]),
		"ack, command space": uint64(a.Ack[wire.Command]), "ack, data space": uint64(a.Ack[wire.Data]),
		"delay": uint64(a.DelayNanos), "echo counter": u64(a.EchoCounter), "selective bits": hex.EncodeToString(bits),
	}
}

func probeFields(p wire.Probe) fields {
	return fields{"id": u64(p.ID), "size": uint64(p.Size), "padding": hex.EncodeToString(make([]byte, p.Size-wire.ProbeLen))}
}

func envelopeFields(e wire.Envelope) fields {
	return fields{
		"destination slot": uint64(e.DstSlot), "source slot": uint64(e.SrcSlot), "destination generation": uint64(e.DstGen),
		"source generation": uint64(e.SrcGen), "message number": uint64(e.Number), "token": uint64(e.Token), "tag": u64(e.Tag),
	}
}

func remoteFields(m wire.Remote) fields {
	return fields{
		"slot": uint64(m.Slot), "asker": uint64(m.Asker), "generation": uint64(m.Gen), "region": uint64(m.Region),
		"token": uint64(m.Token), "key": u64(m.Key), "offset": u64(m.Offset), "length": u64(m.Length),
	}
}

func recordHeader(t wire.Type, flags uint8, length int) fields {
	return fields{"type": uint64(t), "flags": uint64(flags), "length": uint64(length)}
}

// heading returns the heading of a record type's table in docs/wire.md.
func heading(t wire.Type) string {
	name := []byte(t.String())
	name[0] -= 'a' - 'A'
	return string(name)
}

// recordSample writes a record of header bytes with put, appends payload, and adds the fields
// that every record has.
func recordSample(t wire.Type, flags uint8, payload []byte, put func(b []byte), means fields) sample {
	b := append(written(t.HeaderLen(), put), payload...)
	means["record header"] = recordHeader(t, flags, len(b))
	return sample{heading(t), b, means}
}

func voidSample(n int) sample {
	b := written(n, func(b []byte) { wire.PutVoid(b, n) })
	return sample{"Void", b, fields{
		"record header": recordHeader(wire.TypeVoid, 0, n), "payload": hex.EncodeToString(make([]byte, n-wire.RecordLen))}}
}

func fragSample(e wire.Envelope, payload []byte) sample {
	return recordSample(wire.TypeFrag, e.Flags, payload, func(b []byte) { wire.PutFrag(b, &e, len(payload)) },
		fields{"envelope": envelopeFields(e), "payload": hex.EncodeToString(payload)})
}

func eagerSample(id wire.FragmentID, offset, length uint64, e wire.Envelope, payload []byte) sample {
	return recordSample(wire.TypeEager, e.Flags, payload,
		func(b []byte) { wire.PutEager(b, id, offset, length, &e, len(payload)) },
		fields{"fragment id": uint64(id), "offset": u64(offset), "length": u64(length), "envelope": envelopeFields(e),
			"payload": hex.EncodeToString(payload)})
}

func chunkSample(flags uint8, id wire.FragmentID, offset uint64, payload []byte) sample {
	return recordSample(wire.TypeChunk, flags, payload, func(b []byte) { wire.PutChunk(b, flags, id, offset, len(payload)) },
		fields{"fragment id": uint64(id), "offset": u64(offset), "payload": hex.EncodeToString(payload)})
}

func requestSample(q wire.Request) sample {
	return recordSample(wire.TypeRequest, q.Envelope.Flags, nil, q.Put, fields{
		"fragment id": uint64(q.ID), "length": u64(q.Length), "packets": uint64(q.Packets),
		"packet length": uint64(q.PacketLen), "ready": u64(q.Ready), "envelope": envelopeFields(q.Envelope)})
}

func permissionSample(flags uint8, id wire.FragmentID, limit uint64) sample {
	return recordSample(wire.TypePermission, flags, nil, func(b []byte) { wire.PutPermission(b, flags, id, limit) },
		fields{"fragment id": uint64(id), "limit": u64(limit)})
}

func refuseSample(flags uint8, id wire.FragmentID, slot uint16, token uint32, why wire.Reason) sample {
	return recordSample(wire.TypeRefuse, flags, nil, func(b []byte) { wire.PutRefuse(b, flags, id, slot, token, why) },
		fields{"fragment id": uint64(id), "token": uint64(token), "reason": uint64(why), "slot": uint64(slot)})
}

func acceptSample(slot uint16, token uint32) sample {
	return recordSample(wire.TypeAccept, 0, nil, func(b []byte) { wire.PutAccept(b, slot, token) },
		fields{"token": uint64(token), "slot": uint64(slot)})
}

func withdrawSample(id wire.FragmentID, e wire.Envelope) sample {
	return recordSample(wire.TypeWithdraw, e.Flags, nil, func(b []byte) { wire.PutWithdraw(b, id, &e) },
		fields{"fragment id": uint64(id), "envelope": envelopeFields(e)})
}

func creditSample(c wire.Credit) sample {
	return recordSample(wire.TypeCredit, c.Flags, nil, c.Put,
		fields{"slot": uint64(c.Slot), "generation": uint64(c.Gen), "bytes": u64(c.Bytes)})
}

func putSample(id wire.FragmentID, m wire.Remote, payload []byte) sample {
	return recordSample(wire.TypePut, 0, payload, func(b []byte) { wire.PutPut(b, id, &m, len(payload)) },
		fields{"fragment id": uint64(id), "remote": remoteFields(m), "payload": hex.EncodeToString(payload)})
}

func longPutSample(id wire.FragmentID, m wire.Remote, ready uint64) sample {
	return putSample(id, m, binary.LittleEndian.AppendUint64(nil, ready))
}

func getSample(id wire.FragmentID, limit uint64, m wire.Remote) sample {
	return recordSample(wire.TypeGet, 0, nil, func(b []byte) { wire.PutGet(b, id, limit, &m) },
		fields{"fragment id": uint64(id), "limit": u64(limit), "remote": remoteFields(m)})
}

func tableSample(payload []byte) sample {
	return recordSample(wire.TypeTable, 0, payload, func(b []byte) { wire.PutTable(b, len(payload)) },
		fields{"payload": hex.EncodeToString(payload)})
}

func groupFields(h wire.GroupHeader) fields {
	return fields{"group": uint64(h.Group), "epoch": uint64(h.Epoch), "operation": uint64(h.Operation), "rank": uint64(h.Rank)}
}

func signalSample(s wire.Signal) sample {
	return recordSample(wire.TypeSignal, 0, nil, s.Put, fields{"group header": groupFields(s.GroupHeader),
		"what": uint64(s.What), "round": uint64(s.Round), "value": u64(s.Value)})
}

func pieceSample(p wire.Piece, payload []byte) sample {
	return recordSample(wire.TypePiece, 0, payload, func(b []byte) { p.Put(b, len(payload)) },
		fields{"group header": groupFields(p.GroupHeader), "root": uint64(p.Root), "offset": uint64(p.Offset), "length": uint64(p.Length),
			"what": uint64(p.What), "operator": uint64(p.Operator), "payload": hex.EncodeToString(payload)})
}

func relaySample(id, offset, length uint32, payload []byte) sample {
	return recordSample(wire.TypeRelay, 0, payload, func(b []byte) { wire.PutRelay(b, id, offset, length, len(payload)) },
		fields{"relay id": uint64(id), "offset": uint64(offset), "length": uint64(length), "payload": hex.EncodeToString(payload)})
}

func relayedSample(flags uint8, id uint32, missed []uint64) sample {
	var bits []byte
	for _, w := range missed {
		bits = binary.LittleEndian.AppendUint64(bits, w)
	}
	b := written(wire.RelayedLen+len(bits), func(b []byte) { wire.PutRelayed(b, flags, id, missed) })
	return sample{"Relayed", b, fields{"record header": recordHeader(wire.TypeRelayed, flags, len(b)), "relay id": uint64(id), "missed": hex.EncodeToString(bits)}}
}

func runSample(e wire.Envelope, messages ...[]byte) sample {
	var payload []byte
	for _, m := range messages {
		payload = binary.LittleEndian.AppendUint16(payload, uint16(len(m)))
	}
	payload = append(payload, bytes.Join(messages, nil)...)
	b := written(wire.RunSize(len(messages), len(payload)-2*len(messages)), func(b []byte) { wire.PutRun(b, &e, messages) })
	return sample{"Run", b, fields{"record header": recordHeader(wire.TypeRun, 0, len(b)), "envelope": envelopeFields(e), "count": uint64(len(messages)),
		"payload": hex.EncodeToString(payload)}}
}

func programSample(p wire.Program, payload []byte) sample {
	return recordSample(wire.TypeProgram, p.Flags, payload, func(b []byte) { p.Put(b, len(payload)) },
		fields{"program": uint64(p.Program), "trigger": uint64(p.Trigger), "from": uint64(p.From), "message id": uint64(p.ID),
			"offset": uint64(p.Offset), "length": uint64(p.Length), "payload": hex.EncodeToString(payload)})
}

func handledSample(h wire.Handled) sample {
	return recordSample(wire.TypeHandled, 0, nil, h.Put, fields{"message id": uint64(h.ID), "bytes": uint64(h.Bytes), "outcome": uint64(h.Outcome)})
}

// parsedRecord makes a sample from the results of the accessors.
func parsedRecord(r wire.Record) sample {
	payload := append([]byte(nil), r.Payload()...)
	switch r.Type() {
	case wire.TypeVoid:
		return voidSample(len(r))
	case wire.TypeFrag:
		return fragSample(r.Frag(), payload)
	case wire.TypeEager:
		id, offset := r.Chunk()
		length, e := r.Eager()
		return eagerSample(id, offset, length, e, payload)
	case wire.TypeChunk:
		id, offset := r.Chunk()
		return chunkSample(r.Flags(), id, offset, payload)
	case wire.TypeRequest:
		return requestSample(r.Request())
	case wire.TypePermission:
		id, limit := r.Permission()
		return permissionSample(r.Flags(), id, limit)
	case wire.TypeRefuse:
		id, slot, token, why := r.Refuse()
		return refuseSample(r.Flags(), id, slot, token, why)
	case wire.TypeAccept:
		return acceptSample(r.Accept())
	case wire.TypeWithdraw:
		return withdrawSample(r.Withdraw())
	case wire.TypeCredit:
		return creditSample(r.Credit())
	case wire.TypePut:
		id, m := r.Put()
		return putSample(id, m, payload)
	case wire.TypeGet:
		return getSample(r.Get())
	case wire.TypeTable:
		return tableSample(payload)
	case wire.TypeSignal:
		return signalSample(r.Signal())
	case wire.TypePiece:
		return pieceSample(r.Piece(), payload)
	case wire.TypeRelay:
		id, offset, length := r.Relay()
		return relaySample(id, offset, length, payload)
	case wire.TypeRelayed:
		id, missed := r.Relayed()
		return relayedSample(r.Flags(), id, missed[:len(payload)/8])
	case wire.TypeRun:
		e, lengths, data := r.Run()
		messages := make([][]byte, lengths.Count())
		for i := range messages {
			n := lengths.At(i)
			messages[i], data = data[:n], data[n:]
		}
		return runSample(e, messages...)
	case wire.TypeProgram:
		return programSample(r.Program(), payload)
	case wire.TypeHandled:
		return handledSample(r.Handled())
	}
	panic("no such record: " + r.Type().String())
}

// records splits a checked sequence.
func records(b []byte) (all []wire.Record) {
	for len(b) > 0 {
		var r wire.Record
		r, b = wire.NextRecord(b)
		all = append(all, r)
	}
	return all
}

// recordTypes returns all existing types, found by trying each number.
func recordTypes() (all []wire.Type) {
	for t := 1; t < 256; t++ {
		if wire.Type(t).HeaderLen() > 0 {
			all = append(all, wire.Type(t))
		}
	}
	return all
}

// oneOfEach returns a record of every type, with a different value in every field.
func oneOfEach() []sample {
	e := wire.Envelope{Flags: wire.FlagReply, DstSlot: 0x0102, SrcSlot: 0x0304, DstGen: 0x05060708, SrcGen: 0x090a0b0c,
		Number: 0x0d0e0f10, Token: 0x11121314, Tag: 0x15161718191a1b1c}
	m := wire.Remote{Slot: 0x2122, Asker: 0x2324, Gen: 0x25262728, Region: 0x292a2b2c, Token: 0x2d2e2f30,
		Key: 0x3132333435363738, Offset: 0x393a3b3c3d3e3f40, Length: 9}
	untold := e
	untold.Flags, untold.Token = 0, 0
	h := wire.GroupHeader{Group: 0xd1d2d3d4, Epoch: 0xd5d6d7d8, Operation: 0xd9dadbdc, Rank: 0xdddedfe0}
	return []sample{
		voidSample(20),
		fragSample(e, []byte("a short message")),
		eagerSample(0x41424344, 4, 20, e, []byte("an eager piece")),
		chunkSample(wire.FlagGet, 0x51525354, 0x5556575859, []byte("a chunk")),
		requestSample(wire.Request{ID: 0x61626364, Length: 1 << 40, Packets: 0x65666768, PacketLen: 1424, Ready: 0x696a6b6c, Envelope: e}),
		permissionSample(0, 0x71727374, 1<<41),
		refuseSample(0, 0x81828384, 0x8586, 0x8788898a, wire.ReasonRange),
		acceptSample(0x9192, 0x93949596),
		withdrawSample(0xa1a2a3a4, e),
		creditSample(wire.Credit{Flags: wire.FlagReturn, Slot: 0xb1b2, Gen: 0xb3b4b5b6, Bytes: 1 << 42}),
		putSample(0, m, []byte("nine byte")),
		getSample(0xc1c2c3c4, 1<<43, m),
		tableSample([]byte("a table")),
		signalSample(wire.Signal{GroupHeader: h, What: 0xe1, Round: 0xe2, Value: 1 << 44}),
		pieceSample(wire.Piece{GroupHeader: h, Root: 0xf1f2f3f4, Offset: 7, Length: 20, What: 0xe3, Operator: 0xe4}, []byte("a piece")),
		relaySample(0x31415926, 5, 20, []byte("of a relay")),
		relayedSample(0, 0x27182818, []uint64{1 << 40, 1<<63 | 1}),
		runSample(untold, []byte("one"), nil, []byte("and a third")),
		programSample(wire.Program{Program: 0x16180339, Trigger: 0x88749894, From: 0x84820458, ID: 0x68343656, Offset: 3, Length: 30}, []byte("for a program")),
		handledSample(wire.Handled{ID: 0x38117720, Bytes: 0x30917980, Outcome: 0xe5}),
	}
}

func join(samples ...sample) (b []byte) {
	for _, s := range samples {
		b = append(b, s.bytes...)
	}
	return b
}

func TestTheSamplesHaveEveryRecordType(t *testing.T) {
	all := oneOfEach()
	for i, typ := range recordTypes() {
		if i >= len(all) || all[i].name != heading(typ) {
			t.Fatalf("no sample of a %v", typ)
		}
	}
}
