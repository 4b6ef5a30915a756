package seal_test

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/crypto/blake2s"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// newGate makes the gate of a NIC with fabric keys whose first bytes are given.
func newGate(keys ...byte) *seal.Gate {
	var fabric []trust.FabricKey
	for _, k := range keys {
		fabric = append(fabric, trust.FabricKey{k, 9, 9})
	}
	return seal.NewGate(fabric, secret.Seeded(uint64(keys[0])))
}

// signed returns a frame of n bytes with its MACs.
func signed(g *seal.Gate, n, key int, cookie *seal.Cookie) []byte {
	frame := make([]byte, n+2*wire.MACLen)
	copy(frame, randomBytes(uint64(n), n))
	return frame[:g.Sign(frame, n, key, cookie)]
}

func at(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), port)
}

func TestMac1IsThatOfTheFabricKeyThatItFits(t *testing.T) {
	receiver := newGate(1, 2, 3)
	for i := range byte(3) {
		frame := signed(newGate(i+1), 100, 0, nil)
		key, rest, ok := receiver.Verify(frame)
		if !ok || key != int(i) || !bytes.Equal(rest, frame[:100]) {
			t.Errorf("a frame of fabric key %d fits key %d, %v, and has %d bytes", i, key, ok, len(rest))
		}
		k := trust.FabricKey{i + 1, 9, 9}.Derive(trust.LabelMAC1)
		h, err := blake2s.New128(k[:])
		if err != nil {
			t.Fatal(err)
		}
		h.Write(frame[:100])
		if !bytes.Equal(h.Sum(nil), seal.Mac1(frame)) || !bytes.Equal(frame[116:], make([]byte, 16)) {
			t.Errorf("the MACs are %x", frame[100:])
		}
	}
	if _, _, ok := receiver.Verify(signed(newGate(4), 100, 0, nil)); ok {
		t.Error("a stranger's frame verifies")
	}
}

func TestAnAlteredFrameDoesNotVerify(t *testing.T) {
	g := newGate(1)
	frame := signed(g, wire.HandshakeLeast-2*wire.MACLen, 0, nil)
	for bit := range 8 * (len(frame) - wire.MACLen) { // mac2 is checked by Proves
		frame[bit/8] ^= 1 << (bit % 8)
		if _, _, ok := g.Verify(frame); ok {
			t.Errorf("bit %d is altered, and the frame verifies", bit)
		}
		frame[bit/8] ^= 1 << (bit % 8)
	}
	for n := range len(frame) {
		if _, _, ok := g.Verify(frame[:n:n]); ok {
			t.Errorf("the first %d bytes of %d verify", n, len(frame))
		}
	}
}

// cookieOf asks a gate for the cookie of an address, as a peer with the same fabric key does.
func cookieOf(t *testing.T, g *seal.Gate, now clock.Time, from netip.AddrPort) seal.Cookie {
	t.Helper()
	hello := signed(g, 200, 0, nil)
	answer := g.Answer(now, hello, 0, from)
	cookie, ok := newGate(1).Open(&answer, 0, seal.Mac1(hello))
	if !ok {
		t.Fatal("the cookie does not open")
	}
	return cookie
}

func TestACookieProvesTheAddressThatGotIt(t *testing.T) {
	g, now := newGate(1), clock.Time(time.Hour)
	cookie := cookieOf(t, g, now, at(7000))
	frame := signed(g, 200, 0, &cookie)
	elsewhere := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 2}), 7000)
	if !g.Proves(now, frame, at(7000)) {
		t.Error("the cookie of the address does not prove it")
	}
	for _, from := range []netip.AddrPort{at(7001), elsewhere} {
		if g.Proves(now, frame, from) {
			t.Errorf("the cookie of %v proves %v", at(7000), from)
		}
	}
	if g.Proves(now, signed(g, 200, 0, nil), at(7000)) {
		t.Error("a frame without cookie proves its address")
	}
	for bit := range 8 * len(frame) {
		frame[bit/8] ^= 1 << (bit % 8)
		if g.Proves(now, frame, at(7000)) {
			t.Errorf("bit %d is altered, and mac2 proves the address", bit)
		}
		frame[bit/8] ^= 1 << (bit % 8)
	}
}

func TestACookieIsGoodForOnceToTwiceItsTime(t *testing.T) {
	for _, age := range []time.Duration{0, seal.CookieEvery / 2, seal.CookieEvery - 1} {
		g, now := newGate(1), clock.Time(time.Hour)
		first := cookieOf(t, g, now, at(1)) // the secret is made now
		cookie := cookieOf(t, g, now.Add(age), at(1))
		if cookie != first {
			t.Errorf("%v after the first cookie another one is given", age)
		}
		frame := signed(g, 200, 0, &cookie)
		for _, c := range []struct {
			after time.Duration
			good  bool
		}{{seal.CookieEvery - 1, true}, {seal.CookieEvery, true}, {2*seal.CookieEvery - 1, true}, {2 * seal.CookieEvery, false}, {9 * seal.CookieEvery, false}} {
			if got := g.Proves(now.Add(c.after), frame, at(1)); got != c.good {
				t.Errorf("the cookie is %v old, and proves its address: %v; expected %v", c.after, got, c.good)
			}
		}
	}
}

func TestTwoCookiesOfAnAddressAreGoodAtMost(t *testing.T) {
	g, now := newGate(1), clock.Time(time.Hour)
	var frames [][]byte
	for i := range 6 {
		cookie := cookieOf(t, g, now, at(1))
		frames = append(frames, signed(g, 200+i, 0, &cookie))
		good := 0
		for _, f := range frames {
			if g.Proves(now, f, at(1)) {
				good++
			}
		}
		if good != min(i+1, 2) || !g.Proves(now, frames[i], at(1)) {
			t.Errorf("of %d cookies %d are good", i+1, good)
		}
		now = now.Add(seal.CookieEvery)
	}
}

func TestACookieOpensForTheHelloThatItAnswersOnly(t *testing.T) {
	g := newGate(1)
	hello := signed(g, 200, 0, nil)
	answer := g.Answer(clock.Time(time.Hour), hello, 0, at(1))
	if _, ok := g.Open(&answer, 0, seal.Mac1(signed(g, 201, 0, nil))); ok {
		t.Error("the cookie opens for another Hello")
	}
	if _, ok := newGate(2).Open(&answer, 0, seal.Mac1(hello)); ok {
		t.Error("the cookie opens with another fabric key")
	}
	again := g.Answer(clock.Time(time.Hour), hello, 0, at(1))
	if again.Nonce == answer.Nonce {
		t.Error("two answers have one nonce")
	}
	for i := range answer.Sealed {
		forged := answer
		forged.Sealed[i] ^= 0x80
		if _, ok := g.Open(&forged, 0, seal.Mac1(hello)); ok {
			t.Errorf("byte %d is altered, and the cookie opens", i)
		}
	}
}

func TestPreSharedKeysDifferByFabricKey(t *testing.T) {
	g := newGate(1, 2)
	psks := []([trust.KeyLen]byte){g.Psk(0), g.Psk(1), trust.FabricKey{1, 9, 9}.Derive(trust.LabelMAC1), trust.FabricKey{1, 9, 9}.Derive(trust.LabelCookie)}
	for i, k := range psks {
		if slices.Index(psks, k) != i {
			t.Errorf("key %d is the same as another one", i)
		}
	}
	if g.Keys() != 2 {
		t.Errorf("the gate takes %d keys", g.Keys())
	}
}
