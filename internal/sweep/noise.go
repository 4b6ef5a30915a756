package sweep

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
)

// MaxMessage is the longest message of the workload, in bytes.
const MaxMessage = 256 << 10

// noise is the source of payloads. Any two cuts at different places differ almost everywhere. So
// a memory comparison detects bytes that are missing, duplicated, moved or from another message.
var noise = sync.OnceValue(func() []byte {
	rng := rand.New(rand.NewPCG(0x776566742d73696d, 1))
	b := make([]byte, 4*MaxMessage)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	return b
})

// idBytes is the size of the beginning of a payload that is long enough for it: the message's id,
// and its length.
const idBytes = 16

// cut returns the bytes from offset to end of a message's payload. They are a piece of noise,
// except for the first idBytes of the payload.
func cut(id uint64, offset, end int) []byte {
	at := int((id*0x9e3779b97f4a7c15)>>33)%(len(noise())-MaxMessage) | 1
	return noise()[at+offset : at+end]
}

// fill writes the payload of a message into b. The length of b is that of the message.
func fill(id uint64, b []byte) {
	copy(b, cut(id, 0, len(b)))
	if len(b) >= idBytes {
		binary.LittleEndian.PutUint64(b, id)
		binary.LittleEndian.PutUint64(b[8:], uint64(len(b)))
	}
}

// readID returns the id in the first bytes of a payload.
func readID(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// compare reports the first error in b, which must hold the first len(b) bytes of a message of
// size bytes.
func compare(id uint64, size int, b []byte) error {
	from := 0
	if size >= idBytes && len(b) >= idBytes {
		if got, n := readID(b), binary.LittleEndian.Uint64(b[8:]); got != id || n != uint64(size) {
			return fmt.Errorf("begins with id %d and length %d instead of %d and %d", got, n, id, size)
		}
		from = idBytes
	}
	if want := cut(id, from, max(from, len(b))); !bytes.Equal(b[from:], want) {
		return fmt.Errorf("differs from byte %d of %d on", from+mismatch(b[from:], want), size)
	}
	return nil
}

func mismatch(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// scribble changes a buffer that its owner may reuse, so that a late reader is detected. A byte
// in every few hundred suffices, because no piece of a message is shorter unless the message is.
func scribble(b []byte) {
	for i := 0; i < len(b); i += 200 {
		b[i] ^= 0x5a
	}
}
