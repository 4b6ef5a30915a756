package wire_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/wire"
)

// crc32c is a second checksum, bit by bit, as docs/wire.md describes it.
func crc32c(b []byte) uint32 {
	c := ^uint32(0)
	for _, x := range b {
		c ^= uint32(x)
		for range 8 {
			if c&1 != 0 {
				c = c>>1 ^ 0x82f63b78
			} else {
				c >>= 1
			}
		}
	}
	return ^c
}

// tagSample returns the tag that Seal puts behind front, and its expected fields.
func tagSample(front []byte, cookie uint64) sample {
	tag := written(wire.TagLen, func(b []byte) {
		frame := append(append([]byte(nil), front...), b[:wire.TagLen]...)
		if n := wire.Seal(frame, len(front), cookie); n != len(frame) {
			panic("Seal returned a wrong length")
		}
		copy(b, frame[len(front):])
	})
	return sample{"Tag", tag, fields{"checksum": uint64(crc32c(front)), "cookie": u64(cookie)}}
}

func TestTheChecksumIsCRC32C(t *testing.T) {
	if got := crc32c([]byte("123456789")); got != 0xe3069283 {
		t.Fatalf("the check value of CRC-32C is 0xe3069283, the test's own version has %#x", got)
	}
	// TestDocumentDecodesWhatTheCodeEncodes checks that Seal agrees with it.
}

const testCookie = 0x0123456789abcdef

func sealedFrame(o wire.Outer, body ...[]byte) []byte {
	return sealedWith(testCookie, o, body...)
}

func sealedWith(cookie uint64, o wire.Outer, body ...[]byte) []byte {
	o.Flags |= wire.FlagTagged
	frame := make([]byte, wire.OuterLen)
	o.Put(frame)
	for _, b := range body {
		frame = append(frame, b...)
	}
	n := len(frame)
	frame = append(frame, make([]byte, wire.TagLen)...)
	return frame[:wire.Seal(frame, n, cookie)]
}

func dataFrame() []byte {
	inner := innerSample(wire.Inner{Space: wire.Data, Flags: wire.AckData, Seq: 7})
	return sealedFrame(wire.Outer{Kind: wire.KindData, Index: 3, Counter: 9}, inner.bytes, join(oneOfEach()...))
}

func TestOpenTakesWhatSealMade(t *testing.T) {
	frame := dataFrame()
	if n, err := wire.Open(frame, testCookie); err != nil || n != len(frame)-wire.TagLen {
		t.Fatalf("Open = %d, %v", n, err)
	}
}

func TestEveryFlippedBitIsNoticed(t *testing.T) {
	frame := dataFrame()
	for bit := range 8 * len(frame) {
		frame[bit/8] ^= 1 << (bit % 8)
		if _, err := wire.Open(frame, testCookie); !errors.Is(err, wire.ErrTag) {
			t.Fatalf("bit %d of %d flipped: %v", bit, 8*len(frame), err)
		}
		frame[bit/8] ^= 1 << (bit % 8)
	}
}

// A CRC of 32 bits finds every burst of damage that is no longer than the CRC itself.
func TestEveryShortBurstOfDamageIsNoticed(t *testing.T) {
	frame := dataFrame()
	rapid.Check(t, func(t *rapid.T) {
		damaged := append([]byte(nil), frame...)
		at := rapid.IntRange(0, len(frame)-4).Draw(t, "at")
		for i, x := range rapid.SliceOfN(rapid.Byte(), 4, 4).Filter(func(b []byte) bool { return string(b) != "\x00\x00\x00\x00" }).Draw(t, "xor") {
			damaged[at+i] ^= x
		}
		if _, err := wire.Open(damaged, testCookie); !errors.Is(err, wire.ErrTag) {
			t.Fatalf("Open = %v", err)
		}
	})
}

func TestAnotherCookieIsNotTaken(t *testing.T) {
	frame := dataFrame()
	for bit := range 64 {
		if _, err := wire.Open(frame, testCookie^1<<bit); !errors.Is(err, wire.ErrTag) {
			t.Fatalf("cookie with bit %d flipped: %v", bit, err)
		}
	}
}

func TestEveryTruncatedFrameIsNoticed(t *testing.T) {
	frame := dataFrame()
	for n := range frame {
		_, err := wire.Open(frame[:n:n], testCookie)
		if want := n < wire.OuterLen+wire.TagLen; errors.Is(err, wire.ErrShort) != want || err == nil {
			t.Fatalf("%d of %d bytes: %v", n, len(frame), err)
		}
	}
}
