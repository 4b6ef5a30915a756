package load

import (
	"encoding/binary"
	"fmt"
)

// Sender and receiver agree on a seed for each message, and on nothing else:
//
//	bytes 8·i … 8·i+7  =  word(seed, i), little-endian; the last word is cut at the message's end
//
// A byte that is missing, repeated, moved or from another message differs from the expected byte,
// except with a probability of 1 in 256.

// step is the odd number that is added to the state for each word: 2⁶⁴ divided by the golden
// ratio.
const step = 0x9e3779b97f4a7c15

// mix turns a state into a number that reveals nothing about it. It is the finaliser of
// SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Seed combines several numbers into one seed, such as the seed of a run, the sender's number and
// the message's number.
func Seed(numbers ...uint64) uint64 {
	var s uint64
	for _, n := range numbers {
		s = mix(s + step ^ n)
	}
	return s
}

// Fill writes the payload of a seed into b.
func Fill(b []byte, seed uint64) {
	for ; len(b) >= 8; b = b[8:] {
		seed += step
		binary.LittleEndian.PutUint64(b, mix(seed))
	}
	last(b, seed+step, func(at int, want byte) { b[at] = want })
}

// Written returns a payload of n bytes for measurements. All of its memory has been written.
// Memory that has not been written is a single page of zeros, mapped many times, which never
// leaves the nearest cache.
func Written(n int) []byte {
	b := make([]byte, n)
	Fill(b, 0)
	return b
}

// Check returns an error that says where b differs from the payload of a seed. It returns nil if
// b does not differ.
func Check(b []byte, seed uint64) error {
	for at := 0; ; at += 8 {
		seed += step
		rest := b[at:]
		if len(rest) >= 8 && binary.LittleEndian.Uint64(rest) == mix(seed) {
			continue
		}
		var err error
		last(rest[:min(8, len(rest))], seed, func(i int, want byte) {
			if rest[i] != want && err == nil {
				err = fmt.Errorf("byte %d of %d is %#02x instead of %#02x", at+i, len(b), rest[i], want)
			}
		})
		return err
	}
}

// last visits the bytes of one word, of which b may hold only the first few.
func last(b []byte, state uint64, visit func(at int, want byte)) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], mix(state))
	for i := range b {
		visit(i, word[i])
	}
}
