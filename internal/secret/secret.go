// Package secret draws the numbers that an attacker must not guess: region keys, cookies, session
// indices, first sequence numbers, generations, keys of handshakes. Each purpose has its own
// stream. So numbers that one purpose shows to a peer reveal nothing about those of another.
package secret

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
)

// Purpose names a stream of secret numbers.
type Purpose uint8

const (
	SessionIndex Purpose = iota // high bits of session indices
	Cookie                      // cookies in the tags of plain frames
	FirstNumber                 // first sequence numbers and fragment ids
	Probe                       // ids of probes
	RegionKey                   // keys of registered memory
	Generation                  // first generations of process slots
	Handshake                   // ephemeral keys
	FloodCookie                 // secrets behind the cookies of a flooded responder
	StaticKey                   // static keys of NICs
	purposes
)

// Source draws secret numbers. System and Seeded make Sources. A Source is not safe for
// concurrent use.
type Source struct {
	streams [purposes]io.Reader
	number  [8]byte // kept here so that Uint64 allocates nothing
}

// System returns a Source that reads every stream from r. r must be a cryptographic generator
// that needs no state in the Source, such as crypto/rand.Reader.
func System(r io.Reader) *Source {
	s := new(Source)
	for i := range s.streams {
		s.streams[i] = r
	}
	return s
}

// Seeded returns a Source for simulations and tests: the same seed gives the same numbers. Each
// stream is a ChaCha8 generator with its own key.
func Seeded(seed uint64) *Source {
	s := new(Source)
	for i := range s.streams {
		var key [32]byte
		copy(key[:], "weft simulation")
		key[15] = byte(i)
		binary.LittleEndian.PutUint64(key[16:], seed)
		s.streams[i] = rand.NewChaCha8(key)
	}
	return s
}

// Fill fills b with secret bytes. It panics if the generator fails: then nothing can be kept
// secret.
func (s *Source) Fill(p Purpose, b []byte) {
	if _, err := io.ReadFull(s.streams[p], b); err != nil {
		panic("secret: the generator of random numbers has failed: " + err.Error())
	}
}

// Uint64 returns a secret number.
func (s *Source) Uint64(p Purpose) uint64 {
	s.Fill(p, s.number[:])
	return binary.LittleEndian.Uint64(s.number[:])
}

// Reader returns the stream of a purpose.
func (s *Source) Reader(p Purpose) io.Reader { return s.streams[p] }
