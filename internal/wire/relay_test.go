package wire_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftnet/weft/internal/wire"
)

// sampleMAC has bytes that are all different.
var sampleMAC = [wire.RelayMACLen]byte{0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f}

// relayBody returns a body with two NICs; the first has two receivers.
func relayBody() []byte {
	b := make([]byte, wire.RelayHeadLen+2*wire.RelayNICLen+3*wire.RelayReceiverLen, 200)
	h := wire.RelayHead{NIC: 0x0102030405060708, Gen: 0x090a0b0c, Slot: 0x0d0e, NICs: 2, Token: 0x0f101112, Tag: 0x131415161718191a}
	h.Put(b)
	at := wire.RelayHeadLen
	for i, n := range []wire.RelayNIC{{NIC: 0x2122232425262728, Session: 0x292a2b2c, Receivers: 2, MAC: sampleMAC}, {NIC: 7, Session: 8, Receivers: 1}} {
		n.Put(b[at:])
		at += wire.RelayNICLen
		for k := range n.Receivers {
			v := wire.RelayReceiver{Gen: 0x30313233, Number: 0x34353637 + uint32(i), Slot: 0x3839 + k}
			v.Put(b[at:])
			at += wire.RelayReceiverLen
		}
	}
	return append(b, "the message"...)
}

// walkRelay reads a body as a NIC does, and returns its message.
func walkRelay(b []byte) (h wire.RelayHead, nics []wire.RelayNIC, receivers []wire.RelayReceiver, message []byte, err error) {
	h, b, err = wire.ParseRelayHead(b)
	for i := 0; err == nil && i < int(h.NICs); i++ {
		var n wire.RelayNIC
		var vs []byte
		if n, vs, b, err = wire.ParseRelayNIC(b); err != nil {
			break
		}
		nics = append(nics, n)
		for ; len(vs) > 0; vs = vs[wire.RelayReceiverLen:] {
			receivers = append(receivers, wire.ParseRelayReceiver(vs))
		}
	}
	return h, nics, receivers, b, err
}

func TestARelayBodyIsAsTheDocumentSays(t *testing.T) {
	doc, b := readDocument(t), relayBody()
	for _, part := range []struct {
		heading string
		at      int
		want    fields
	}{
		{"Relay head", 0, fields{"source nic": u64(0x0102030405060708), "source generation": uint64(0x090a0b0c), "source slot": uint64(0x0d0e),
			"nics": uint64(2), "token": uint64(0x0f101112), "tag": u64(0x131415161718191a)}},
		{"Relay NIC", wire.RelayHeadLen, fields{"nic": u64(0x2122232425262728), "session": uint64(0x292a2b2c), "receivers": uint64(2), "mac": hex.EncodeToString(sampleMAC[:])}},
		{"Relay receiver", wire.RelayHeadLen + wire.RelayNICLen, fields{"generation": uint64(0x30313233), "message number": uint64(0x34353637), "slot": uint64(0x3839)}},
	} {
		got, err := doc.decode(part.heading, b[part.at:part.at+doc.length(t, part.heading)])
		if err != nil || cmp.Diff(part.want, got) != "" {
			t.Errorf("%s: %v\n%s", part.heading, err, cmp.Diff(part.want, got))
		}
	}
	h, nics, receivers, message, err := walkRelay(b)
	if err == nil && nics[0].MAC != sampleMAC {
		t.Errorf("read back: the MAC % x", nics[0].MAC)
	}
	if err != nil || h.NICs != 2 || len(nics) != 2 || len(receivers) != 3 || string(message) != "the message" ||
		nics[1] != (wire.RelayNIC{NIC: 7, Session: 8, Receivers: 1}) || receivers[1] != (wire.RelayReceiver{Gen: 0x30313233, Number: 0x34353637, Slot: 0x383a}) {
		t.Errorf("read back: %+v, %+v, %+v, %q, %v", h, nics, receivers, message, err)
	}
}

func TestWhatAMACCoversIsAsTheDocumentSays(t *testing.T) {
	doc, b := readDocument(t), relayBody()
	digest := sha256.Sum256([]byte("the message"))
	got, err := doc.decode("Relay MAC", covered(b))
	want := fields{"source nic": u64(0x0102030405060708), "nic": u64(0x2122232425262728), "session": uint64(0x292a2b2c), "source generation": uint64(0x090a0b0c),
		"source slot": uint64(0x0d0e), "receivers": uint64(2), "token": uint64(0x0f101112), "tag": u64(0x131415161718191a),
		"list and digest": hex.EncodeToString(append(bytes.Clone(b[wire.RelayHeadLen+wire.RelayNICLen:][:2*wire.RelayReceiverLen]), digest[:]...))}
	if err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got))
	}
}

func TestARelayBodyThatEndsEarlyOrNamesNobodyIsRefused(t *testing.T) {
	b := relayBody()
	list := len(b) - len("the message")
	for n := range list {
		if _, _, _, _, err := walkRelay(b[:n]); err == nil {
			t.Errorf("%d of the %d bytes of the list are enough", n, list)
		}
	}
	for what, at := range map[string]int{"NICs": 14, "receivers": wire.RelayHeadLen + 12} {
		none := relayBody()
		binary.LittleEndian.PutUint16(none[at:], 0)
		if _, _, _, _, err := walkRelay(none); err == nil {
			t.Errorf("a body without %s is taken", what)
		}
	}
	for _, zero := range []int{20, wire.RelayHeadLen + 14} {
		if _, _, _, _, err := walkRelay(poke(sample{bytes: relayBody()}, zero).bytes); err == nil {
			t.Errorf("a body whose zero at %d is none is taken", zero)
		}
	}
}

func FuzzRelayBody(f *testing.F) {
	f.Add(relayBody())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, nics, receivers, message, err := walkRelay(b)
		if err != nil {
			return
		}
		if n := wire.RelayHeadLen + len(nics)*wire.RelayNICLen + len(receivers)*wire.RelayReceiverLen + len(message); n != len(b) || int(h.NICs) != len(nics) {
			t.Errorf("%d bytes read of %d, %d NICs of %d", n, len(b), len(nics), h.NICs)
		}
	})
}
