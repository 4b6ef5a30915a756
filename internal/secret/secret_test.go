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
	if s.Uint64(secret.RegionKey) == s.Uint64(secret.RegionKey) {
		t.Error("two numbers are equal")
	}
}
