package seal_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/wire"
)

// mostAllocated bounds, with a large margin, how many bytes this package may allocate for one
// hostile message, in addition to copies of it.
const mostAllocated = 1 << 20

// FuzzHostileHandshake passes the gate a frame from any sender. A frame that does not verify is
// signed, since the hostile peer may have the fabric key. It goes through the parser into
// handshakes that wait for each of the messages.
func FuzzHostileHandshake(f *testing.F) {
	for _, pattern := range []uint8{wire.PatternXX, wire.PatternIK} {
		from, to := handshakes(pattern, nil)
		for i := range 4 - int(pattern) {
			m, err := from.Write([]byte("payload"))
			if err == nil {
				_, err = to.Read(m)
			}
			if err != nil {
				f.Fatal(err)
			}
			h := wire.Handshake{Pattern: pattern, Message: uint8(i + 1), Index: 1, MinVersion: 1, MaxVersion: 1, Noise: m}
			b := make([]byte, wire.OuterLen+h.Len())
			h.Put(b[wire.OuterLen:], h.Len())
			place := uint8(i + 3*int(pattern-1))
			f.Add(b, place)
			f.Add(b[:len(b)-1], place)
			f.Add(b, place^1)
			f.Add(signed(newGate(1), len(b), 0, nil), place)
			from, to = to, from
		}
	}
	f.Add([]byte{}, uint8(0))
	f.Add(make([]byte, wire.HandshakeLeast), uint8(1))
	f.Add(make([]byte, 70_000), uint8(2))
	f.Fuzz(func(t *testing.T, frame []byte, place uint8) {
		g := newGate(1, 2)
		keep := bytes.Clone(frame)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, rest, ok := g.Verify(frame)
		if len(frame) >= wire.MACLen && g.Proves(1, frame, at(1)) {
			t.Fatal("a hostile frame proves its address")
		}
		if !ok {
			b := make([]byte, len(frame)+2*wire.MACLen)
			copy(b, frame)
			b = b[:g.Sign(b, len(frame), 1, nil)]
			var key int
			if key, rest, ok = g.Verify(b); ok != (len(b) >= wire.HandshakeLeast) || ok && key != 1 {
				t.Fatalf("a signed frame of %d bytes verifies: %v, by key %d", len(b), ok, key)
			}
			if !ok {
				return
			}
		}
		message := rest[wire.OuterLen:]
		if h, err := wire.ParseHandshake(message); err == nil {
			message = h.Noise
		}
		if place %= 5; place < 3 {
			readHostile(t, message, wire.PatternXX, int(place))
		} else {
			readHostile(t, message, wire.PatternIK, int(place)-3)
		}
		if !bytes.Equal(frame, keep) {
			t.Fatal("the frame was altered")
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > mostAllocated+64*uint64(len(frame)) {
			t.Fatalf("a frame of %d bytes made %d bytes be allocated", len(frame), n)
		}
	})
}

// readHostile reads a message at one step of a handshake. Hostile bytes give no secrets, and
// leave a handshake that neither writes nor reads any more. Only the seeds are what the peer
// would have written: without the pre-shared key no other message verifies.
func readHostile(t *testing.T, message []byte, pattern uint8, place int) {
	from, to := handshakes(pattern, nil)
	for range place {
		m, err := from.Write([]byte("payload"))
		if err == nil {
			_, err = to.Read(m)
		}
		if err != nil {
			t.Fatal(err)
		}
		from, to = to, from
	}
	payload, err := to.Read(message)
	if err == nil {
		if m, _ := from.Write([]byte("payload")); !bytes.Equal(m, message) {
			t.Fatalf("pattern %d: message %d of %d bytes is taken from a stranger: %x", pattern, place+1, len(message), payload)
		}
		return
	}
	if to.Secrets() != nil {
		t.Fatalf("pattern %d: there are secrets though message %d did not verify", pattern, place+1)
	}
	if _, err := to.Read(message); err == nil {
		t.Fatal("the handshake goes on after an error")
	}
	if _, err := to.Write(nil); err == nil {
		t.Fatal("the handshake writes after an error")
	}
}

// FuzzHostileFrame passes a frame to both kinds of opening, with the right length and with wrong
// ones. A hostile frame never opens, changes no phase, and is intact after trying the keys of
// other phases.
func FuzzHostileFrame(f *testing.F) {
	s := seal.Secret{1}
	b := make([]byte, 100)
	wire.Outer{Kind: wire.KindData, Flags: wire.FlagSealed, Index: 1, Counter: 5}.Put(b)
	f.Add(bytes.Clone(b), uint64(5))
	seal.NewKey(seal.AES, &s).Seal(b, wire.OuterLen, 84, nil, 5)
	f.Add(bytes.Clone(b), uint64(6))
	f.Add(make([]byte, wire.OuterLen+wire.TagLen), uint64(1<<64-1))
	f.Fuzz(func(t *testing.T, frame []byte, counter uint64) {
		for _, clear := range []int{wire.OuterLen, wire.ClearLen} {
			if len(frame) < clear+wire.TagLen || len(frame) > 10_000 {
				continue
			}
			for _, suite := range []seal.Suite{seal.AES, seal.ChaCha} {
				var in seal.Incoming
				in.Start(suite, seal.Secret{2, 7, 1, 8})
				in.Renew(seal.Secret{3})
				keep := bytes.Clone(frame)
				if got := in.OpenOther(clock.Time(9), frame, make([]byte, len(frame)), clear, counter); got != seal.OpenedNot || in.Odd || !in.Pending() {
					t.Fatalf("a hostile frame opens: %d", got)
				}
				if !bytes.Equal(frame, keep) {
					t.Fatal("the frame was altered")
				}
				to := make([]byte, len(frame)-clear-wire.TagLen)
				if in.Key.Open(to, frame, clear, counter) || !bytes.Equal(to, make([]byte, len(to))) {
					t.Fatal("a hostile frame opens, or leaves something")
				}
			}
		}
	})
}
