package wire_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// parseAs holds the parsers of whole bodies, by the heading of the table of each.
var parseAs = map[string]func(b []byte) error{
	"Outer header": func(b []byte) error { _, _, err := wire.ParseOuter(b); return err },
	"Inner header": func(b []byte) error { _, _, err := wire.ParseInner(b); return err },
	"Hello":        func(b []byte) error { _, err := wire.ParseHello(b); return err },
	"Ack":          func(b []byte) error { return new(wire.Ack).Parse(b) },
	"Probe":        func(b []byte) error { _, err := wire.ParseProbe(b); return err },
	"Datagram":     func(b []byte) error { _, _, err := wire.ParseDatagram(b); return err },
	"Letter":       func(b []byte) error { _, _, err := wire.ParseLetter(b); return err },
	"Part":         func(b []byte) error { _, _, err := wire.ParsePart(b); return err },
	"Handshake":    func(b []byte) error { _, err := wire.ParseHandshake(b); return err },
	"Cookie":       func(b []byte) error { _, err := wire.ParseCookie(b); return err },
	"Rekey":        func(b []byte) error { _, err := wire.ParseRekey(b); return err },
}

func TestEveryTruncatedPrefixIsShort(t *testing.T) {
	ack := &wire.Ack{Flags: wire.AckCommand | wire.AckData, Words: [wire.Spaces]int{3, 2}}
	for _, s := range append(oneOfEach(),
		outerSample(wire.Outer{Kind: wire.KindData, Index: 1, Counter: 1}),
		innerSample(wire.Inner{Seq: 1}), helloSample(goodHello), ackSample(ack), probeSample(wire.Probe{Size: 40}),
		partSample(wire.Part{Seq: 1, Length: 200}, make([]byte, 128)),
		datagramSample(wire.Datagram{ID: 1, Length: 200, Service: 3}, make([]byte, 128)),
		handshakeSample(goodHandshake, 0), cookieSample(wire.Cookie{}), rekeySample(wire.Rekey{Message: 1, Number: 1, Noise: []byte{1}}),
	) {
		parse, first := parseAs[s.name], 0
		if parse == nil { // a record; an empty sequence is good
			parse, first = wire.CheckRecords, 1
		}
		if err := parse(s.bytes); err != nil {
			t.Errorf("%s, whole: %v", s.name, err)
		}
		for n := first; n < len(s.bytes); n++ {
			if err := parse(s.bytes[:n:n]); !errors.Is(err, wire.ErrShort) {
				t.Errorf("%s, %d of %d bytes: %v", s.name, n, len(s.bytes), err)
			}
		}
	}
}

var goodHello = wire.Hello{
	MinVersion: 1, MaxVersion: 1, Index: 17, NIC: 0x8cff7fdd60000000, Incarnation: 5, Cookie: testCookie, MTUCommand: 1472, MTUData: 8972,
	WinCommand: limits.Window, WinData: limits.Window, ReceiveCapacity: 212992, AckDelayMicros: 50, FirstCommand: 0xfffffff0, FirstData: 1,
}

var goodHandshake = wire.Handshake{Pattern: wire.PatternXX, Message: 1, Index: 17, MinVersion: 1, MaxVersion: 1, Noise: []byte{1, 2, 3, 4, 5}}

func TestTheOuterHeaderIsStrict(t *testing.T) {
	const tagged, sealed = wire.FlagTagged, wire.FlagSealed
	good := func(k wire.Kind) []byte {
		o := wire.Outer{Kind: k, Flags: tagged, Index: 1, Counter: 1}
		if k == wire.KindHello {
			o.Index = 0
		}
		return outerSample(o).bytes
	}
	set := func(b []byte, at int, v ...byte) []byte { copy(b[at:], v); return b }
	zero8 := make([]byte, 8)
	for name, c := range map[string]struct {
		frame []byte
		want  error
	}{
		"other magic":                   {set(good(wire.KindData), 2, 'w'), wire.ErrMagic},
		"other version":                 {set(good(wire.KindData), 0, 2<<4|byte(wire.KindData)), wire.ErrVersion},
		"other version, unknown kind":   {set(good(wire.KindData), 0, 2<<4|15), wire.ErrVersion},
		"version 0":                     {set(good(wire.KindData), 0, byte(wire.KindData)), wire.ErrVersion},
		"hello of another version":      {set(good(wire.KindHello), 0, 2<<4|byte(wire.KindHello), tagged|0x80), nil},
		"hello-ack of another version":  {set(good(wire.KindHelloAck), 0, 15<<4|byte(wire.KindHelloAck)), nil},
		"sealed hello, another version": {set(good(wire.KindHello), 0, 2<<4|byte(wire.KindHello), tagged|sealed), wire.ErrFormat},
		"kind 0":                        {set(good(wire.KindData), 0, 1<<4), wire.ErrKind},
		"kind 14":                       {set(good(wire.KindData), 0, 1<<4|14), wire.ErrKind},
		"kind 15":                       {set(good(wire.KindData), 0, 1<<4|15), wire.ErrKind},
		"rekey, not sealed":             {set(good(wire.KindData), 0, 1<<4|byte(wire.KindRekey)), wire.ErrFormat},
		"finish, not sealed":            {set(good(wire.KindData), 0, 1<<4|byte(wire.KindFinish)), wire.ErrFormat},
		"cookie, not sealed":            {set(good(wire.KindData), 0, 1<<4|byte(wire.KindCookie)), wire.ErrFormat},
		"sealed and tagged":             {set(good(wire.KindData), 1, tagged|sealed), wire.ErrFormat},
		"sealed":                        {set(good(wire.KindData), 1, sealed), nil},
		"sealed, headers in the clear":  {set(good(wire.KindData), 1, sealed|wire.FlagClear|wire.FlagPhase), nil},
		"ack with headers in the clear": {set(good(wire.KindAck), 1, sealed|wire.FlagClear), wire.ErrFormat},
		"clear headers, not sealed":     {set(good(wire.KindData), 1, wire.FlagClear), wire.ErrFormat},
		"sealed hello with a phase":     {set(good(wire.KindHello), 1, sealed|wire.FlagPhase), wire.ErrFormat},
		"sealed, unknown flag":          {set(good(wire.KindData), 1, sealed|0x10), wire.ErrFormat},
		"of the other key":              {set(good(wire.KindData), 1, tagged|wire.FlagPhase), wire.ErrFormat},
		"unknown flag":                  {set(good(wire.KindData), 1, tagged|0x04), wire.ErrFormat},
		"unknown flag of a hello":       {set(good(wire.KindHello), 1, tagged|0x04), wire.ErrFormat},
		"hello with index":              {set(good(wire.KindHello), 4, 1), wire.ErrFormat},
		"data without index":            {set(good(wire.KindData), 4, 0), wire.ErrFormat},
		"hello-ack without index":       {set(good(wire.KindHelloAck), 4, 0), wire.ErrFormat},
		"counter 0":                     {set(good(wire.KindProbe), 8, zero8...), wire.ErrFormat},
	} {
		if _, _, err := wire.ParseOuter(c.frame); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestBodiesAreStrict(t *testing.T) {
	hello := func(change func(h *wire.Hello)) []byte {
		h := goodHello
		change(&h)
		return helloSample(h).bytes
	}
	at := func(s sample, i int, v byte) []byte { s.bytes[i] = v; return s.bytes }
	ack := func() sample { return ackSample(&wire.Ack{Flags: wire.AckData, Words: [wire.Spaces]int{0, 1}}) }
	inner := func() sample { return innerSample(wire.Inner{Seq: 1}) }
	probe := func() sample { return probeSample(wire.Probe{Size: 20}) }
	piece := func(offset, length uint32, n int) sample {
		return datagramSample(wire.Datagram{ID: 5, Offset: offset, Length: length}, make([]byte, n))
	}
	part := func(offset, length uint32, n int) sample {
		return partSample(wire.Part{Offset: offset, Length: length}, make([]byte, n))
	}
	handshake := func(change func(h *wire.Handshake)) []byte {
		h := goodHandshake
		change(&h)
		return handshakeSample(h, 8).bytes
	}
	same := func(*wire.Handshake) {}
	rekey := func(message uint8, number uint16) sample {
		return rekeySample(wire.Rekey{Message: message, Number: number, Noise: []byte{1, 2}})
	}
	for name, c := range map[string]struct {
		as   string
		body []byte
		want error
	}{
		"handshake: with zeros behind it":   {"Handshake", handshake(same), nil},
		"handshake: other bytes behind it":  {"Handshake", append(handshake(same), 1), wire.ErrFormat},
		"handshake: longer than its body":   {"Handshake", handshake(same)[:wire.HandshakeHead+len(goodHandshake.Noise)-1], wire.ErrShort},
		"handshake: pattern 3":              {"Handshake", handshake(func(h *wire.Handshake) { h.Pattern = 3 }), wire.ErrFormat},
		"handshake: no pattern, a message":  {"Handshake", handshake(func(h *wire.Handshake) { h.Pattern = 0 }), wire.ErrFormat},
		"handshake: no pattern, no message": {"Handshake", handshake(func(h *wire.Handshake) { h.Pattern, h.Noise = 0, nil }), nil},
		"handshake: a pattern, no message":  {"Handshake", handshake(func(h *wire.Handshake) { h.Noise = nil }), wire.ErrFormat},
		"handshake: message 0":              {"Handshake", handshake(func(h *wire.Handshake) { h.Message = 0 }), wire.ErrFormat},
		"handshake: message 4":              {"Handshake", handshake(func(h *wire.Handshake) { h.Message = 4 }), wire.ErrFormat},
		"handshake: index 0":                {"Handshake", handshake(func(h *wire.Handshake) { h.Index = 0 }), wire.ErrFormat},
		"handshake: version 0":              {"Handshake", handshake(func(h *wire.Handshake) { h.MinVersion = 0 }), wire.ErrFormat},
		"handshake: range the wrong way":    {"Handshake", handshake(func(h *wire.Handshake) { h.MinVersion = 2 }), wire.ErrFormat},
		"handshake: first zero is not":      {"Handshake", at(handshakeSample(goodHandshake, 0), 10, 1), wire.ErrFormat},
		"handshake: second zero is not":     {"Handshake", at(handshakeSample(goodHandshake, 0), 11, 1), wire.ErrFormat},
		"cookie: a byte too many":           {"Cookie", append(cookieSample(wire.Cookie{}).bytes, 0), wire.ErrFormat},
		"rekey: message 0":                  {"Rekey", rekey(0, 1).bytes, wire.ErrFormat},
		"rekey: message 2":                  {"Rekey", rekey(2, 65535).bytes, nil},
		"rekey: message 3":                  {"Rekey", rekey(3, 1).bytes, wire.ErrFormat},
		"rekey: number 0":                   {"Rekey", rekey(1, 0).bytes, wire.ErrFormat},
		"rekey: zero is not":                {"Rekey", at(rekey(1, 1), 1, 1), wire.ErrFormat},
		"rekey: no message":                 {"Rekey", rekey(1, 1).bytes[:wire.RekeyHead], wire.ErrShort},
		"hello: range the wrong way round":  {"Hello", hello(func(h *wire.Hello) { h.MinVersion = 2 }), wire.ErrFormat},
		"hello: version 0":                  {"Hello", hello(func(h *wire.Hello) { h.MinVersion = 0 }), wire.ErrFormat},
		"hello: later versions only":        {"Hello", hello(func(h *wire.Hello) { h.MinVersion, h.MaxVersion = 7, 9 }), nil},
		"hello: no NIC":                     {"Hello", hello(func(h *wire.Hello) { h.NIC = 0 }), wire.ErrFormat},
		"hello: no index":                   {"Hello", hello(func(h *wire.Hello) { h.Index = 0 }), wire.ErrFormat},
		"hello: frames below a hello":       {"Hello", hello(func(h *wire.Hello) { h.MTUCommand = 127 }), wire.ErrFormat},
		"hello: data frames below a hello":  {"Hello", hello(func(h *wire.Hello) { h.MTUData = 127 }), wire.ErrFormat},
		"hello: frames just a hello":        {"Hello", hello(func(h *wire.Hello) { h.MTUCommand, h.MTUData = 128, 128 }), nil},
		"hello: no command window":          {"Hello", hello(func(h *wire.Hello) { h.WinCommand = 0 }), wire.ErrFormat},
		"hello: no data window":             {"Hello", hello(func(h *wire.Hello) { h.WinData = 0 }), wire.ErrFormat},
		"hello: longer":                     {"Hello", append(hello(func(*wire.Hello) {}), "more of a later version"...), nil},
		"hello: zero fields used":           {"Hello", at(helloSample(goodHello), 68, 1), nil},

		"ack: unknown flag":          {"Ack", at(ack(), 0, wire.AckData|4), wire.ErrFormat},
		"ack: unknown reason":        {"Ack", at(ack(), 1, 5), wire.ErrFormat},
		"ack: words without flag":    {"Ack", at(ack(), 0, wire.AckCommand), wire.ErrFormat},
		"ack: too many words":        {"Ack", at(ack(), 3, wire.MaxAckWords+1), wire.ErrFormat},
		"ack: fewer words than told": {"Ack", at(ack(), 3, 2), wire.ErrShort},
		"ack: more words than told":  {"Ack", at(ack(), 3, 0), wire.ErrFormat},
		"ack: zero is not":           {"Ack", at(ack(), 31, 1), wire.ErrFormat},

		"inner: third space":  {"Inner header", at(inner(), 0, 2), wire.ErrFormat},
		"inner: unknown flag": {"Inner header", at(inner(), 1, 4), wire.ErrFormat},
		"inner: zero is not":  {"Inner header", at(inner(), 3, 1), wire.ErrFormat},
		"inner: bad record":   {"Inner header", append(inner().bytes, 0, 0, 4, 0), wire.ErrFormat},
		"inner: no records":   {"Inner header", inner().bytes, nil},

		"probe: longer than it says":  {"Probe", at(probe(), 8, 19), wire.ErrFormat},
		"probe: shorter than it says": {"Probe", at(probe(), 8, 21), wire.ErrShort},
		"probe: zero is not":          {"Probe", at(probe(), 12, 1), wire.ErrFormat},
		"probe: padding is not zeros": {"Probe", at(probe(), 19, 1), wire.ErrFormat},

		"datagram: whole":                {"Datagram", piece(0, 1, 1).bytes, nil},
		"datagram: empty":                {"Datagram", piece(0, 0, 0).bytes, nil},
		"datagram: empty piece":          {"Datagram", piece(0, 64, 0).bytes, wire.ErrFormat},
		"datagram: empty behind its end": {"Datagram", piece(64, 0, 0).bytes, wire.ErrFormat},
		"datagram: the end":              {"Datagram", piece(64, 65, 1).bytes, nil},
		"datagram: ends within a unit":   {"Datagram", piece(0, 65, 63).bytes, wire.ErrFormat},
		"datagram: begins within a unit": {"Datagram", piece(1, 65, 64).bytes, wire.ErrFormat},
		"datagram: beyond its end":       {"Datagram", piece(64, 128, 65).bytes, wire.ErrFormat},
		"datagram: far beyond its end":   {"Datagram", piece(1<<32-64, 64, 64).bytes, wire.ErrFormat},
		"datagram: too long":             {"Datagram", piece(0, wire.MaxDatagram+1, 64).bytes, wire.ErrFormat},
		"datagram: the longest":          {"Datagram", piece(0, wire.MaxDatagram, 64).bytes, nil},
		"datagram: zero is not":          {"Datagram", at(piece(0, 64, 64), 13, 1), wire.ErrFormat},
		"datagram: longer than it says":  {"Datagram", append(piece(0, 128, 64).bytes, 0), wire.ErrFormat},
		"datagram: whole, and zeros":     {"Datagram", append(piece(0, 64, 64).bytes, 0), wire.ErrFormat},
		"datagram: the end, and zeros":   {"Datagram", append(piece(64, 65, 1).bytes, make([]byte, 63)...), nil},
		"datagram: too many zeros":       {"Datagram", append(piece(64, 65, 1).bytes, make([]byte, 64)...), wire.ErrFormat},
		"datagram: zeros before its end": {"Datagram", append(piece(128, 256, 64).bytes, 0), wire.ErrFormat},
		"datagram: zeros that are not":   {"Datagram", append(piece(64, 65, 1).bytes, 0, 1), wire.ErrFormat},
		"letter: empty":                  {"Letter", letter(0), nil},
		"letter: with bytes":             {"Letter", letter(9), nil},
		"letter: zero is not":            {"Letter", append(letter(0)[:23:23], 1), wire.ErrFormat},
		"part: third space":              {"Part", at(part(0, 64, 64), 0, 2), wire.ErrFormat},
		"part: zero is not":              {"Part", at(part(0, 64, 64), 1, 1), wire.ErrFormat},
		"part: empty":                    {"Part", part(0, 64, 0).bytes, wire.ErrFormat},
		"part: whole":                    {"Part", part(0, 1, 1).bytes, nil},
		"part: the end":                  {"Part", part(64, 65, 1).bytes, nil},
		"part: ends within a unit":       {"Part", part(0, 65, 63).bytes, wire.ErrFormat},
		"part: begins within a unit":     {"Part", part(1, 65, 64).bytes, wire.ErrFormat},
		"part: beyond the segment":       {"Part", part(64, 128, 65).bytes, wire.ErrFormat},
		"part: far beyond the segment":   {"Part", part(1<<32-64, 64, 64).bytes, wire.ErrFormat},
		"part: of too long a segment":    {"Part", part(0, wire.MaxParted+1, 64).bytes, wire.ErrFormat},
		"part: of the longest segment":   {"Part", part(0, wire.MaxParted, 64).bytes, nil},
		"part: longer than it says":      {"Part", append(part(0, 128, 64).bytes, 0), wire.ErrFormat},
		"part: shorter than it says":     {"Part", part(0, 128, 64).bytes[:wire.PartLen+63], wire.ErrShort},
	} {
		if err := parseAs[c.as](c.body); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestFieldsOfARecordMustFitOneAnother(t *testing.T) {
	var e wire.Envelope
	g := wire.GroupHeader{Group: 1}
	p := []byte("four")
	beyond := wire.Remote{Offset: math.MaxUint64, Length: math.MaxUint64}
	for name, c := range map[string]struct {
		record sample
		good   bool
	}{
		"chunk up to 2^63-1":             {chunkSample(0, 1, math.MaxInt64-4, p), true},
		"chunk beyond 2^63-1":            {chunkSample(0, 1, math.MaxInt64-3, p), false},
		"chunk whose end overflows":      {chunkSample(0, 1, math.MaxUint64-3, p), false},
		"chunk of no fragment":           {chunkSample(0, 0, 0, p), false},
		"chunk without payload":          {chunkSample(0, 1, 9, nil), true},
		"eager up to its end":            {eagerSample(1, 6, 10, e, p), true},
		"eager beyond its end":           {eagerSample(1, 7, 10, e, p), false},
		"eager whose end overflows":      {eagerSample(1, math.MaxUint64-1, 10, e, p), false},
		"eager longer than 2^63-1":       {eagerSample(1, 0, 1<<63, e, p), false},
		"eager of no fragment":           {eagerSample(0, 0, 10, e, p), false},
		"request for 2^63-1":             {requestSample(wire.Request{ID: 1, Length: math.MaxInt64}), true},
		"request for more":               {requestSample(wire.Request{ID: 1, Length: 1 << 63}), false},
		"request, half of it ready":      {requestSample(wire.Request{ID: 1, Length: 2, Ready: 1}), true},
		"request, more than it ready":    {requestSample(wire.Request{ID: 1, Length: 2, Ready: 3}), false},
		"request for nothing":            {requestSample(wire.Request{ID: 1}), true},
		"request of no fragment":         {requestSample(wire.Request{Length: 1}), false},
		"permission of no fragment":      {permissionSample(0, 0, 1), false},
		"refuse of no fragment":          {refuseSample(0, 0, 1, 2, 3), true},
		"refuse with unknown reason":     {refuseSample(0, 0, 1, 2, 999), true},
		"credit recalled and returned":   {creditSample(wire.Credit{Flags: wire.FlagRecall | wire.FlagReturn}), false},
		"put, short, empty":              {putSample(0, wire.Remote{}, nil), true},
		"put, short, less than it says":  {putSample(0, wire.Remote{Length: 5}, p), false},
		"put, short, more than it says":  {putSample(0, wire.Remote{Length: 3}, p), false},
		"put, long":                      {longPutSample(1, wire.Remote{Length: 5}, 5), true},
		"put, long, all but one ready":   {longPutSample(1, wire.Remote{Length: 5}, 4), true},
		"put, long, more than all ready": {longPutSample(1, wire.Remote{Length: 5}, 6), false},
		"put, long, nothing said":        {putSample(1, wire.Remote{Length: 5}, nil), false},
		"put, long, with payload":        {putSample(1, wire.Remote{Length: 4}, p), false},
		// refused, not malformed
		"put, long, range of no region":   {longPutSample(1, beyond, 0), true},
		"get, range of no region":         {getSample(1, 0, beyond), true},
		"get of no fragment":              {getSample(0, 0, wire.Remote{}), false},
		"withdraw before anything left":   {withdrawSample(0, e), true},
		"void of its header alone":        {voidSample(wire.RecordLen), true},
		"table without anything in it":    {tableSample(nil), true},
		"frag without payload":            {fragSample(e, nil), true},
		"accept whose zero is not zero":   {poke(acceptSample(1, 2), 11), false},
		"credit whose zero is not zero":   {poke(creditSample(wire.Credit{}), 7), false},
		"permission with a byte too many": {tooLong(permissionSample(0, 1, 1)), false},
		"signal of no group":              {signalSample(wire.Signal{}), false},
		"signal whose zero is not zero":   {poke(signalSample(wire.Signal{GroupHeader: g}), 22), false},
		"piece up to its end":             {pieceSample(wire.Piece{GroupHeader: g, Offset: 6, Length: 10}, p), true},
		"piece beyond its end":            {pieceSample(wire.Piece{GroupHeader: g, Offset: 7, Length: 10}, p), false},
		"piece whose end overflows":       {pieceSample(wire.Piece{GroupHeader: g, Offset: math.MaxUint32 - 1, Length: 10}, p), false},
		"piece of no group":               {pieceSample(wire.Piece{Length: 10}, p), false},
		"piece of nothing":                {pieceSample(wire.Piece{GroupHeader: g}, nil), true},
		"relay up to its end":             {relaySample(1, 6, 10, p), true},
		"relay beyond its end":            {relaySample(1, 7, 10, p), false},
		"relay whose end overflows":       {relaySample(1, math.MaxUint32-1, 10, p), false},
		"relay without an id":             {relaySample(0, 0, 10, p), false},
		"relayed to all":                  {relayedSample(0, 1, nil), true},
		"relayed to as many as can be":    {relayedSample(0, 1, make([]uint64, wire.MaxMissed)), true},
		"relayed to more than can be":     {relayedSample(0, 1, make([]uint64, wire.MaxMissed+1)), false},
		"relayed to none":                 {relayedSample(wire.FlagNone, 1, nil), true},
		"relayed with half a word":        {tooLong(relayedSample(0, 1, nil)), false},
		"relayed without an id":           {relayedSample(0, 0, nil), false},
		"run of two empty messages":       {runSample(e, nil, nil), true},
		"run of as many as can be":        {runSample(e, make([][]byte, wire.MaxRun)...), true},
		"run of more than can be":         {countAs(runSample(e, make([][]byte, wire.MaxRun)...), wire.MaxRun+1), false},
		"run of one":                      {countAs(runSample(e, p, p), 1), false},
		"run of none":                     {countAs(runSample(e, p, p), 0), false},
		"run of more than it has":         {countAs(runSample(e, p, p), 3), false},
		"run of many more than it has":    {countAs(runSample(e, p, p), 4000), false},
		"run with a length too long":      {poke(runSample(e, p, p), wire.RunLen), false},
		"run with a length far too long":  {poke(runSample(e, p, p), wire.RunLen+1), false},
		"run with a byte too many":        {tooLong(runSample(e, p, p)), false},
		"run with a token":                {poke(runSample(e, p, p), wire.RecordLen+16), false},
		"program up to its end":           {programSample(wire.Program{Program: 1, ID: 1, Offset: 6, Length: 10}, p), true},
		"program beyond its end":          {programSample(wire.Program{Program: 1, ID: 1, Offset: 7, Length: 10}, p), false},
		"program too long":                {programSample(wire.Program{Program: 1, ID: 1, Length: wire.MaxProgram + 1}, p), false},
		"program without anything":        {programSample(wire.Program{Program: 1, ID: 1}, nil), true},
		"program with a piece of nothing": {programSample(wire.Program{Program: 1, ID: 1, Length: 10}, nil), false},
		"program for none":                {programSample(wire.Program{ID: 1, Length: 10}, p), false},
		"program without an id":           {programSample(wire.Program{Program: 1, Length: 10}, p), false},
		"handled whose zero is not zero":  {poke(handledSample(wire.Handled{ID: 1}), 14), false},
	} {
		if err := wire.CheckRecords(c.record.bytes); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func countAs(s sample, n int) sample {
	binary.LittleEndian.PutUint16(s.bytes[wire.RunLen-2:], uint16(n))
	return s
}

func poke(s sample, at int) sample { s.bytes[at]++; return s }

func tooLong(s sample) sample {
	s.bytes = append(s.bytes, 0)
	s.bytes[2]++
	return s
}

// recordsGood is a second CheckRecords, without care for speed. It reads by the tables of
// docs/wire.md, adds in big numbers, and follows the document's sentences.
func recordsGood(doc document, headerLens map[uint64]int, b []byte) bool {
	for len(b) > 0 {
		if len(b) < 4 {
			return false
		}
		n := int(b[2]) + 256*int(b[3])
		header, known := headerLens[uint64(b[0])]
		if !known || n < header || n > len(b) {
			return false
		}
		t := wire.Type(b[0])
		means, err := doc.decode(heading(t), b[:n])
		if err != nil || !recordGood(t, means, b[1], n-header) {
			return false
		}
		b = b[n:]
	}
	return true
}

func recordGood(t wire.Type, means fields, flags byte, payload int) bool {
	number := func(field string) *big.Int {
		v, _ := new(big.Int).SetString(means[field].(string), 0)
		return v
	}
	most := big.NewInt(math.MaxInt64)
	end := func() *big.Int { return new(big.Int).Add(number("offset"), big.NewInt(int64(payload))) }
	hasID := func() bool { return means["fragment id"].(uint64) != 0 }
	hasGroup := func() bool { return means["group header"].(fields)["group"].(uint64) != 0 }
	switch t {
	case wire.TypeFrag, wire.TypeWithdraw:
		return flags&^6 == 0
	case wire.TypeEager:
		return flags&^14 == 0 && hasID() && number("length").Cmp(most) <= 0 && end().Cmp(number("length")) <= 0
	case wire.TypeChunk:
		return flags&^1 == 0 && hasID() && end().Cmp(most) <= 0
	case wire.TypeRequest:
		return flags&^6 == 0 && hasID() && number("length").Cmp(most) <= 0 && number("ready").Cmp(number("length")) <= 0
	case wire.TypePermission:
		return flags&^1 == 0 && hasID()
	case wire.TypeRefuse:
		return flags&^1 == 0
	case wire.TypeCredit:
		return flags <= 2
	case wire.TypePut:
		length := means["remote"].(fields)["length"].(string)
		if !hasID() {
			return flags == 0 && length == u64(uint64(payload))
		}
		ready, _ := hex.DecodeString(means["payload"].(string))
		slices.Reverse(ready) // a u64 has its digits in that order
		return flags == 0 && payload == 8 && fmt.Sprintf("%#x", ready) <= length
	case wire.TypeGet:
		return flags == 0 && hasID()
	case wire.TypeSignal:
		return flags == 0 && hasGroup()
	case wire.TypePiece:
		end := means["offset"].(uint64) + uint64(payload)
		return flags == 0 && hasGroup() && end <= means["length"].(uint64)
	case wire.TypeRelay:
		end := means["offset"].(uint64) + uint64(payload)
		return flags == 0 && means["relay id"].(uint64) != 0 && end <= means["length"].(uint64)
	case wire.TypeRelayed:
		return flags <= 1 && means["relay id"].(uint64) != 0 && payload%8 == 0 && payload <= 64
	case wire.TypeRun:
		n, left := int(means["count"].(uint64)), payload
		lengths, _ := hex.DecodeString(means["payload"].(string))
		for i := 0; i < n && 2*i+1 < len(lengths); i++ {
			left -= 2 + int(lengths[2*i]) + 256*int(lengths[2*i+1])
		}
		return flags == 0 && means["envelope"].(fields)["token"].(uint64) == 0 && n >= 2 && n <= 4096 && 2*n <= payload && left == 0
	case wire.TypeProgram:
		length := means["length"].(uint64)
		end := means["offset"].(uint64) + uint64(payload)
		return flags&^4 == 0 && means["program"].(uint64) != 0 && means["message id"].(uint64) != 0 && length <= 16384 && end <= length && (payload > 0 || length == 0)
	}
	return flags == 0
}

func recordHeaderLens(t testing.TB, doc document) map[uint64]int {
	lens := map[uint64]int{}
	for _, typ := range recordTypes() {
		lens[uint64(typ)] = doc.length(t, heading(typ))
	}
	return lens
}

// Records with a few changed bytes are still nearly right, so both sides of every rule are often
// met.
func TestCheckRecordsAgreesWithADumbVersion(t *testing.T) {
	doc := readDocument(t)
	lens := recordHeaderLens(t, doc)
	rapid.Check(t, func(t *rapid.T) {
		b := join(rapid.SliceOfN(rapid.Custom(drawRecord), 1, 3).Draw(t, "records")...)
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			b[at] = rapid.SampledFrom([]byte{0, 1, 2, 4, 127, 128, 255, b[at] + 1, b[at] - 1}).Draw(t, "to")
		}
		err := wire.CheckRecords(b)
		if want := recordsGood(doc, lens, b); (err == nil) != want {
			t.Fatalf("CheckRecords = %v, the dumb version says good = %v: % x", err, want, b)
		}
	})
}

func TestARangeIsInItsRegion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Uint64().Draw(t, "size")
		near := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, size / 2, size - 1, size, size + 1, math.MaxUint64}))
		m := wire.Remote{Offset: near.Draw(t, "offset"), Length: near.Draw(t, "length")}
		end := new(big.Int).Add(new(big.Int).SetUint64(m.Offset), new(big.Int).SetUint64(m.Length))
		if want := end.Cmp(new(big.Int).SetUint64(size)) <= 0; m.In(size) != want {
			t.Fatalf("%d+%d in %d: %v", m.Offset, m.Length, size, m.In(size))
		}
	})
}

func TestTheFormatsHoldWhatTheLimitsAllow(t *testing.T) {
	if 64*wire.MaxAckWords < limits.Window-1 {
		t.Errorf("selective bits for %d segments, the window has %d", 64*wire.MaxAckWords, limits.Window)
	}
	// 1232 is the UDP payload in IPv6's minimum MTU of 1280; every path carries it.
	if n := wire.OuterLen + wire.MaxAckLen + wire.TagLen; n > 1232 {
		t.Errorf("the longest ACK frame has %d bytes", n)
	}
	if n := wire.Overhead + wire.FragLen + limits.TinyMessage; n > 1232 {
		t.Errorf("the longest tiny message takes a frame of %d bytes", n)
	}
	if n := limits.CreditBytes / limits.StagedOverhead; n > wire.MaxRun {
		t.Errorf("one NIC's credit lets %d messages leave", n)
	}
	if limits.MaxProcesses > math.MaxUint16 {
		t.Errorf("%d slots do not fit 16 bits", limits.MaxProcesses)
	}
	if limits.MaxRegion > math.MaxInt64 {
		t.Errorf("offsets in a region of %d bytes do not fit 63 bits", uint64(limits.MaxRegion))
	}
}
