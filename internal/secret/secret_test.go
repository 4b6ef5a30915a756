package secret_test

import (
	"crypto/rand"
	"testing"

	"github.com/weftnet/weft/internal/secret"
)

func TestASeedRepeatsItsNumbersAndPurposesShareNone(t *testing.T) {
	a, b, other := secret.Seeded(1), secret.Seeded(1), secret.Seeded(2)
	seen := map[uint64]bool{}
	for p := secret.SessionIndex; p <= secret.StaticKey; p++ {
		for range 100 {
			x := a.Uint64(p)
			if y := b.Uint64(p); x != y {
				t.Fatalf("purpose %d: %x and %x of one seed", p, x, y)
			}
			for _, z := range []uint64{x, other.Uint64(p)} {
				if seen[z] {
					t.Fatalf("purpose %d: %x occurs twice", p, z)
				}
				seen[z] = true
			}
		}
	}
}

func TestTheSystemsNumbersDiffer(t *testing.T) {
	s := secret.System(rand.Reader)
	if a, b := s.Uint64(secret.RegionKey), s.Uint64(secret.RegionKey); a == b {
		t.Error("two numbers are equal")
	}
}

// Once cookies and region keys were raw outputs of one SplitMix64: an output reveals its state,
// and so all later outputs.
func TestTwoCookiesDoNotPredictAThird(t *testing.T) {
	for seed := range uint64(1000) {
		s := secret.Seeded(seed)
		first, second := s.Uint64(secret.Cookie), s.Uint64(secret.Cookie)
		third, key := s.Uint64(secret.Cookie), s.Uint64(secret.RegionKey)
		state := unmix(second)
		for step := range uint64(64) {
			for _, x := range []uint64{mix(state + step*gamma), mix(state + step*(state-unmix(first))), second + step*(second-first)} {
				if step > 0 && (x == third || x == key) {
					t.Fatalf("seed %d: cookies %x and %x give away %x", seed, first, second, x)
				}
			}
		}
	}
	// The attack does work on the old generator.
	if s := uint64(42); unmix(mix(s))+gamma != s+gamma {
		t.Error("the attack does not invert SplitMix64")
	}
}

const gamma = 0x9e3779b97f4a7c15

// mix is the output of SplitMix64 for a state. unmix is the state of an output.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func unmix(z uint64) uint64 {
	z = (z ^ z>>31 ^ z>>62) * inverse(0x94d049bb133111eb)
	z = (z ^ z>>27 ^ z>>54) * inverse(0xbf58476d1ce4e5b9)
	return z ^ z>>30 ^ z>>60
}

// inverse returns the inverse of an odd number modulo 2^64.
func inverse(a uint64) uint64 {
	x := a
	for range 6 {
		x *= 2 - a*x
	}
	return x
}

func TestNoStreamMovesAnother(t *testing.T) {
	for purpose := secret.SessionIndex; purpose <= secret.StaticKey; purpose++ {
		quiet, busy := secret.Seeded(3), secret.Seeded(3)
		for other := secret.SessionIndex; other <= secret.StaticKey; other++ {
			for range 10 * int(other) {
				if other != purpose {
					busy.Uint64(other)
				}
			}
		}
		if a, b := quiet.Uint64(purpose), busy.Uint64(purpose); a != b {
			t.Errorf("stream %d gives %x, and %x if others are read", purpose, a, b)
		}
	}
}
