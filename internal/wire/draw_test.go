package wire_test

import (
	"math"

	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/wire"
)

// Generators of random well-formed values, for rapid.

var (
	anyByte    = rapid.Uint8()
	anyPayload = rapid.SliceOfN(rapid.Byte(), 0, 64)
	anyKey     = rapid.SliceOfN(rapid.Byte(), 32, 32)
)

func drawFlags(t *rapid.T, mask uint8) uint8 { return anyByte.Draw(t, "flags") & mask }

func drawEnvelope(t *rapid.T) wire.Envelope {
	return wire.Envelope{
		Flags:   drawFlags(t, wire.FlagReply|wire.FlagAccept),
		DstSlot: rapid.Uint16().Draw(t, "destination slot"), SrcSlot: rapid.Uint16().Draw(t, "source slot"),
		DstGen: rapid.Uint32().Draw(t, "destination generation"), SrcGen: rapid.Uint32().Draw(t, "source generation"),
		Number: rapid.Uint32().Draw(t, "number"), Token: rapid.Uint32().Draw(t, "token"), Tag: rapid.Uint64().Draw(t, "tag"),
	}
}

func drawRemote(t *rapid.T) wire.Remote {
	return wire.Remote{
		Slot: rapid.Uint16().Draw(t, "slot"), Asker: rapid.Uint16().Draw(t, "asker"), Gen: rapid.Uint32().Draw(t, "gen"),
		Region: rapid.Uint32().Draw(t, "region"), Token: rapid.Uint32().Draw(t, "token"), Key: rapid.Uint64().Draw(t, "key"),
		Offset: rapid.Uint64().Draw(t, "offset"), Length: rapid.Uint64().Draw(t, "length"),
	}
}

func drawID(t *rapid.T) wire.FragmentID { return wire.FragmentID(rapid.Uint32Min(1).Draw(t, "id")) }

func drawGroupHeader(t *rapid.T) wire.GroupHeader {
	return wire.GroupHeader{Group: rapid.Uint32Min(1).Draw(t, "group"), Epoch: rapid.Uint32().Draw(t, "epoch"),
		Operation: rapid.Uint32().Draw(t, "operation"), Rank: rapid.Uint32().Draw(t, "rank")}
}

func drawRecord(t *rapid.T) sample {
	switch typ := rapid.SampledFrom(recordTypes()).Draw(t, "type"); typ {
	case wire.TypeVoid:
		return voidSample(rapid.IntRange(wire.RecordLen, 64).Draw(t, "n"))
	case wire.TypeFrag:
		return fragSample(drawEnvelope(t), anyPayload.Draw(t, "payload"))
	case wire.TypeEager:
		payload := anyPayload.Draw(t, "payload")
		n := uint64(len(payload))
		length := rapid.Uint64Range(n, math.MaxInt64).Draw(t, "length")
		e := drawEnvelope(t)
		e.Flags |= drawFlags(t, wire.FlagWhole)
		return eagerSample(drawID(t), rapid.Uint64Range(0, length-n).Draw(t, "offset"), length, e, payload)
	case wire.TypeChunk:
		payload := anyPayload.Draw(t, "payload")
		offset := rapid.Uint64Range(0, math.MaxInt64-uint64(len(payload))).Draw(t, "offset")
		return chunkSample(drawFlags(t, wire.FlagGet), drawID(t), offset, payload)
	case wire.TypeRequest:
		length := rapid.Uint64Max(math.MaxInt64).Draw(t, "length")
		return requestSample(wire.Request{ID: drawID(t), Length: length, Ready: rapid.Uint64Max(length).Draw(t, "ready"),
			Packets: rapid.Uint32().Draw(t, "packets"), PacketLen: rapid.Uint32().Draw(t, "packet length"), Envelope: drawEnvelope(t)})
	case wire.TypePermission:
		return permissionSample(drawFlags(t, wire.FlagGet), drawID(t), rapid.Uint64().Draw(t, "limit"))
	case wire.TypeRefuse:
		return refuseSample(drawFlags(t, wire.FlagGet), wire.FragmentID(rapid.Uint32().Draw(t, "id")),
			rapid.Uint16().Draw(t, "slot"), rapid.Uint32().Draw(t, "token"), wire.Reason(rapid.Uint16().Draw(t, "reason")))
	case wire.TypeAccept:
		return acceptSample(rapid.Uint16().Draw(t, "slot"), rapid.Uint32().Draw(t, "token"))
	case wire.TypeWithdraw:
		return withdrawSample(wire.FragmentID(rapid.Uint32().Draw(t, "id")), drawEnvelope(t))
	case wire.TypeCredit:
		return creditSample(wire.Credit{Flags: rapid.SampledFrom([]uint8{0, wire.FlagRecall, wire.FlagReturn}).Draw(t, "flags"),
			Slot: rapid.Uint16().Draw(t, "slot"), Gen: rapid.Uint32().Draw(t, "gen"), Bytes: rapid.Uint64().Draw(t, "bytes")})
	case wire.TypePut:
		m := drawRemote(t)
		if !rapid.Bool().Draw(t, "short") {
			return longPutSample(drawID(t), m, rapid.Uint64Max(m.Length).Draw(t, "ready"))
		}
		payload := anyPayload.Draw(t, "payload")
		m.Length = uint64(len(payload))
		return putSample(0, m, payload)
	case wire.TypeGet:
		return getSample(drawID(t), rapid.Uint64().Draw(t, "limit"), drawRemote(t))
	case wire.TypeTable:
		return tableSample(anyPayload.Draw(t, "payload"))
	case wire.TypeSignal:
		return signalSample(wire.Signal{GroupHeader: drawGroupHeader(t), What: anyByte.Draw(t, "what"), Round: anyByte.Draw(t, "round"),
			Value: rapid.Uint64().Draw(t, "value")})
	case wire.TypePiece:
		payload := anyPayload.Draw(t, "payload")
		n := uint32(len(payload))
		length := rapid.Uint32Min(n).Draw(t, "length")
		return pieceSample(wire.Piece{GroupHeader: drawGroupHeader(t), Root: rapid.Uint32().Draw(t, "root"), Length: length,
			Offset: rapid.Uint32Max(length-n).Draw(t, "offset"), What: anyByte.Draw(t, "what"), Operator: anyByte.Draw(t, "operator")}, payload)
	case wire.TypeRelay:
		payload := anyPayload.Draw(t, "payload")
		n := uint32(len(payload))
		length := rapid.Uint32Min(n).Draw(t, "length")
		return relaySample(rapid.Uint32Min(1).Draw(t, "id"), rapid.Uint32Max(length-n).Draw(t, "offset"), length, payload)
	case wire.TypeRelayed:
		missed := rapid.SliceOfN(rapid.Uint64(), 0, wire.MaxMissed).Draw(t, "missed")
		return relayedSample(drawFlags(t, wire.FlagNone), rapid.Uint32Min(1).Draw(t, "id"), missed)
	case wire.TypeRun:
		e := drawEnvelope(t)
		e.Flags, e.Token = 0, 0
		return runSample(e, rapid.SliceOfN(anyPayload, 2, 6).Draw(t, "messages")...)
	case wire.TypeProgram:
		payload := anyPayload.Draw(t, "payload")
		p := wire.Program{Flags: drawFlags(t, wire.FlagAccept), Program: rapid.Uint32Min(1).Draw(t, "program"), Trigger: rapid.Uint32().Draw(t, "trigger"),
			From: rapid.Uint32().Draw(t, "from"), ID: rapid.Uint32Min(1).Draw(t, "id")}
		if n := uint16(len(payload)); n > 0 {
			p.Length = rapid.Uint16Range(n, wire.MaxProgram).Draw(t, "length")
			p.Offset = rapid.Uint16Max(p.Length-n).Draw(t, "offset")
		}
		return programSample(p, payload)
	case wire.TypeHandled:
		return handledSample(wire.Handled{ID: rapid.Uint32().Draw(t, "id"), Bytes: rapid.Uint32().Draw(t, "bytes"), Outcome: anyByte.Draw(t, "outcome")})
	default:
		panic("no generator for " + typ.String())
	}
}

func drawOuter(t *rapid.T) wire.Outer {
	o := wire.Outer{
		Kind:    wire.Kind(rapid.Uint8Range(uint8(wire.KindHello), uint8(wire.KindCookie)).Draw(t, "kind")),
		Counter: rapid.Uint64Min(1).Draw(t, "counter"),
	}
	switch {
	case o.Kind <= wire.KindDatagram && rapid.Bool().Draw(t, "plain"):
		o.Flags = drawFlags(t, wire.FlagTagged)
	case o.Kind.OfHandshake():
		o.Flags = wire.FlagSealed
	case o.Kind == wire.KindData:
		o.Flags = wire.FlagSealed | drawFlags(t, wire.FlagPhase|wire.FlagClear)
	default:
		o.Flags = wire.FlagSealed | drawFlags(t, wire.FlagPhase)
	}
	if o.Kind != wire.KindHello {
		o.Index = rapid.Uint32Min(1).Draw(t, "index")
	}
	return o
}

func drawInner(t *rapid.T) wire.Inner {
	return wire.Inner{
		Space: wire.Space(rapid.Uint8Max(1).Draw(t, "space")), Flags: drawFlags(t, wire.AckCommand|wire.AckData),
		Seq: drawSeq(t), Ack: [wire.Spaces]wire.Seq{drawSeq(t), drawSeq(t)},
	}
}

func drawSeq(t *rapid.T) wire.Seq { return wire.Seq(rapid.Uint32().Draw(t, "seq")) }

func drawHello(t *rapid.T) wire.Hello {
	lowest := rapid.Uint8Min(1).Draw(t, "lowest version")
	return wire.Hello{
		MinVersion: lowest, MaxVersion: rapid.Uint8Min(lowest).Draw(t, "highest version"),
		Index: rapid.Uint32Min(1).Draw(t, "index"), NIC: rapid.Uint64Min(1).Draw(t, "NIC"),
		Incarnation: rapid.Uint64().Draw(t, "incarnation"), Cookie: rapid.Uint64().Draw(t, "cookie"),
		MTUCommand: rapid.Uint32Min(128).Draw(t, "MTU"), MTUData: rapid.Uint32Min(128).Draw(t, "MTU"),
		WinCommand: rapid.Uint32Min(1).Draw(t, "window"), WinData: rapid.Uint32Min(1).Draw(t, "window"),
		ReceiveCapacity: rapid.Uint64().Draw(t, "capacity"), AckDelayMicros: rapid.Uint32().Draw(t, "delay"),
		FirstCommand: drawSeq(t), FirstData: drawSeq(t), Capabilities: rapid.Uint64().Draw(t, "capabilities"),
		EchoIncarnation: rapid.Uint64().Draw(t, "echo"), EchoCounter: rapid.Uint64().Draw(t, "echo"),
	}
}

func drawAck(t *rapid.T) *wire.Ack {
	a := &wire.Ack{
		Flags: drawFlags(t, wire.AckCommand|wire.AckData), Reason: wire.AckReason(rapid.Uint8Max(4).Draw(t, "reason")),
		Ack:        [wire.Spaces]wire.Seq{drawSeq(t), drawSeq(t)},
		DelayNanos: rapid.Uint32().Draw(t, "delay"), EchoCounter: rapid.Uint64().Draw(t, "echo"),
	}
	for s := range a.Words {
		if a.Flags&(wire.AckCommand<<s) != 0 {
			words := rapid.SliceOfN(rapid.Uint64(), 0, wire.MaxAckWords).Draw(t, "words")
			a.Words[s] = copy(a.Selective[s][:], words)
		}
	}
	return a
}

func drawPart(t *rapid.T) (p wire.Part, payload []byte) {
	p = wire.Part{Space: wire.Space(rapid.Uint8Max(1).Draw(t, "space")), Seq: drawSeq(t)}
	units, last := rapid.IntRange(0, 3).Draw(t, "units"), rapid.IntRange(0, wire.PartUnit-1).Draw(t, "last")
	if units == 0 {
		last = max(last, 1)
	}
	p.Offset = wire.PartUnit * rapid.Uint32Max(100).Draw(t, "before")
	p.Length = p.Offset + uint32(units*wire.PartUnit+last)
	if last == 0 {
		p.Length += rapid.Uint32Max(5000).Draw(t, "after")
	}
	return p, make([]byte, units*wire.PartUnit+last)
}

func drawDatagram(t *rapid.T) (d wire.Datagram, payload []byte) {
	d = wire.Datagram{ID: rapid.Uint32().Draw(t, "id"), Service: rapid.Uint8().Draw(t, "service")}
	units, last := rapid.IntRange(0, 3).Draw(t, "units"), rapid.IntRange(0, wire.PartUnit-1).Draw(t, "last")
	if units+last > 0 {
		d.Offset = wire.PartUnit * rapid.Uint32Max(100).Draw(t, "before")
	}
	d.Length = d.Offset + uint32(units*wire.PartUnit+last)
	if last == 0 && units > 0 {
		d.Length += rapid.Uint32Max(5000).Draw(t, "after")
	}
	return d, make([]byte, units*wire.PartUnit+last)
}

func drawHandshake(t *rapid.T) (h wire.Handshake, zeros int) {
	lowest := rapid.Uint8Min(1).Draw(t, "lowest version")
	h = wire.Handshake{
		Pattern: rapid.Uint8Max(wire.PatternIK).Draw(t, "pattern"), Message: rapid.Uint8Range(1, 3).Draw(t, "message"),
		Index: rapid.Uint32Min(1).Draw(t, "index"), MinVersion: lowest, MaxVersion: rapid.Uint8Min(lowest).Draw(t, "highest version"),
	}
	if h.Pattern != wire.PatternNone {
		h.Noise = rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "noise")
	}
	return h, rapid.IntRange(0, 40).Draw(t, "zeros")
}

func drawCookie(t *rapid.T) (c wire.Cookie) {
	copy(c.Nonce[:], rapid.SliceOfN(rapid.Byte(), len(c.Nonce), len(c.Nonce)).Draw(t, "nonce"))
	copy(c.Sealed[:], rapid.SliceOfN(rapid.Byte(), len(c.Sealed), len(c.Sealed)).Draw(t, "sealed"))
	return c
}

func drawRekey(t *rapid.T) wire.Rekey {
	return wire.Rekey{Message: rapid.Uint8Range(1, 2).Draw(t, "message"), Number: rapid.Uint16Min(1).Draw(t, "number"),
		Noise: rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "noise")}
}

func drawProbe(t *rapid.T) wire.Probe {
	return wire.Probe{ID: rapid.Uint64().Draw(t, "id"), Size: rapid.Uint32Range(wire.ProbeLen, 256).Draw(t, "size")}
}

// drawTag draws a whole small frame and returns its tag.
func drawTag(t *rapid.T) sample {
	frame := make([]byte, wire.OuterLen+wire.TagLen)
	drawOuter(t).Put(frame)
	cookie := rapid.Uint64().Draw(t, "cookie")
	wire.Seal(frame, wire.OuterLen, cookie)
	return tagSample(frame[:wire.OuterLen], cookie)
}

// drawSample draws any value for which docs/wire.md has a table.
func drawSample(t *rapid.T) sample {
	switch rapid.IntRange(0, 16).Draw(t, "what") {
	case 0:
		return outerSample(drawOuter(t))
	case 1:
		return innerSample(drawInner(t))
	case 2:
		return helloSample(drawHello(t))
	case 3:
		return ackSample(drawAck(t))
	case 4:
		return probeSample(drawProbe(t))
	case 5:
		return drawTag(t)
	case 6:
		return partSample(drawPart(t))
	case 7:
		return datagramSample(drawDatagram(t))
	case 8:
		return handshakeSample(drawHandshake(t))
	case 9:
		return cookieSample(drawCookie(t))
	case 10:
		return rekeySample(drawRekey(t))
	case 11:
		return macsSample(rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "frame"), anyKey.Draw(t, "fabric"), anyKey.Draw(t, "cookie")[:16])
	default:
		return drawRecord(t)
	}
}
