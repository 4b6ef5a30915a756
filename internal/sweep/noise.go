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

// noise is what payloads are cut from. Any two cuts at different places differ almost everywhere, so that a byte that is
// missing, doubled, moved or from another message shows, at the price of a memory comparison.
var noise = sync.OnceValue(func() []byte {
	rng := rand.New(rand.NewPCG(0x776566742d73696d, 1))
	b := make([]byte, 4*MaxMessage)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	return b
})

// idBytes begin every payload that is long enough for them: the message's id, and its length.
const idBytes = 16

// cut returns the payload of a message after its first idBytes, as a piece of noise: the bytes from offset to end.
func cut(id uint64, offset, end int) []byte {
	at := int((id*0x9e3779b97f4a7c15)>>33)%(len(noise())-MaxMessage) | 1
	return noise()[at+offset : at+end]
}

// fill writes the payload of a message into b, which is as long as the message.
func fill(id uint64, b []byte) {
	copy(b, cut(id, 0, len(b)))
	if len(b) >= idBytes {
		binary.LittleEndian.PutUint64(b, id)
		binary.LittleEndian.PutUint64(b[8:], uint64(len(b)))
	}
}

// readID returns the id in the first bytes of a payload.
func readID(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// compare says what is wrong with b as the first len(b) bytes of a message of size bytes.
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

// scribble spoils a buffer that its owner may use again, so that a late reader of it is found out: a byte in every
// few hundred is enough, for no piece of a message is shorter unless the message is.
func scribble(b []byte) {
	for i := 0; i < len(b); i += 200 {
		b[i] ^= 0x5a
	}
}
