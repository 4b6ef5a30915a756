package relay

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

func TestAMessageIsTakenAsItsSourceHasSentItAndNoOtherwise(t *testing.T) {
	e, source := pair(t)
	b := source.body("the message", 1, 3)
	if got := e.takes(b); !slices.Equal(got, []string{"the message"}) {
		t.Fatalf("%q delivered of the true relay", got)
	}
	// The entry of the other NIC is not for this one. Its length is in it.
	other := wire.RelayHeadLen + entryLen
	for i := range b {
		if i >= other && i < other+entryLen {
			continue
		}
		for bit := range 8 {
			altered := bytes.Clone(b)
			altered[i] ^= 1 << bit
			if got := e.takes(altered); len(got) != 0 {
				t.Errorf("with bit %d of byte %d altered %q was delivered", bit, i, got)
			}
		}
	}
	for what, altered := range map[string][]byte{
		"a longer message":  append(bytes.Clone(b), 0),
		"a shorter message": b[:len(b)-1],
		"the MAC of another NIC": func() []byte {
			c := bytes.Clone(b)
			copy(c[wire.RelayHeadLen+16:wire.RelayHeadLen+wire.RelayNICLen], b[other+16:])
			return c
		}(),
	} {
		before := e.counts[vni.NICRefusedRelay]
		if got := e.takes(altered); len(got) != 0 || e.counts[vni.NICRefusedRelay] != before+1 {
			t.Errorf("%s: %q delivered, %d refusals", what, got, e.counts[vni.NICRefusedRelay]-before)
		}
	}
	if got := e.takes(b); len(got) != 1 {
		t.Errorf("%q delivered of the true relay behind the altered ones", got)
	}
	e.clean(t)
}

// Both NICs have the same key. A relay may not send a message back to its source in the
// receiver's name.
func TestAMACOfOneDirectionIsNotValidInTheOther(t *testing.T) {
	one, two := pair(t)
	b := two.body("an echo", 1)
	head, rest, _ := wire.ParseRelayHead(b)
	n, _, _, _ := wire.ParseRelayNIC(rest)
	head.NIC, n.NIC = 1, 2
	head.Put(b)
	n.Put(b[wire.RelayHeadLen:])
	if got := two.takes(b); len(got) != 0 || two.counts[vni.NICRefusedRelay] != 1 {
		t.Errorf("%q delivered, %d refusals", got, two.counts[vni.NICRefusedRelay])
	}
	one.Sign(b)
	if got := two.takes(b); len(got) != 1 {
		t.Errorf("%q delivered with the MAC of the right direction: this test tests nothing", got)
	}
}

// A late relay of an earlier session is no attack.
func TestARelayOfAnotherSessionIsMissedAndNotCounted(t *testing.T) {
	e, source := pair(t)
	b := source.body("late", 1)
	n, _, _, _ := wire.ParseRelayNIC(b[wire.RelayHeadLen:])
	for _, session := range []uint32{n.Session + 1, 0} {
		n.Session = session
		n.Put(b[wire.RelayHeadLen:])
		if got := e.takes(b); len(got) != 0 || e.counts[vni.NICRefusedRelay] != 0 {
			t.Errorf("session %d: %q delivered, %d refusals", session, got, e.counts[vni.NICRefusedRelay])
		}
	}
	strangers, _ := newEngine(t, 1, 2)
	if got := strangers.takes(source.body("unknown", 1)); len(got) != 0 {
		t.Errorf("%q delivered without a session", got)
	}
}

func TestTheMACIsThatOfTheVector(t *testing.T) {
	var vectors struct{ Relay struct{ Key, Body string } }
	file, err := os.ReadFile("../../docs/wire/vectors.json")
	if err == nil {
		err = json.Unmarshal(file, &vectors)
	}
	if err != nil {
		t.Fatal(err)
	}
	key, _ := hex.DecodeString(vectors.Relay.Key)
	body, _ := hex.DecodeString(vectors.Relay.Body)
	r := Relay{body: body}
	if len(key) != 32 || !r.parse() {
		t.Fatalf("the vector has a key of %d bytes and a body of %d", len(key), len(body))
	}
	e, _ := newEngine(t, 1, 2)
	var k keyed
	k.use([32]byte(key))
	n, receivers, _, _ := wire.ParseRelayNIC(body[r.nics[0].at:])
	e.macs.read(body[r.message:])
	if got := e.macs.compute(&k, &r.head, &n, receivers); !bytes.Equal(got, n.MAC[:]) {
		t.Errorf("the MAC is %x; the vector has %x", got, n.MAC)
	}
}

func TestMakingAndCheckingMACsAllocatesNothing(t *testing.T) {
	e, source := pair(t)
	b := source.body("again and again", 1)
	sent, came := Relay{body: b}, Relay{body: b}
	if !sent.parse() || !came.parse() {
		t.Fatal("the body is malformed")
	}
	n, receivers, _, _ := wire.ParseRelayNIC(b[wire.RelayHeadLen:])
	if allocations := testing.AllocsPerRun(100, func() {
		source.sign(&sent)
		if !e.genuine(&came, &n, receivers) {
			t.Fatal("the MAC is wrong")
		}
	}); allocations != 0 {
		t.Errorf("%.1f allocations a relay", allocations)
	}
}
