package proc

import "testing"

// A late answer names a send by slot and token. A later process in that slot must not have used
// the same token.
func TestProcessesOfOneSlotHaveTokensOfTheirOwn(t *testing.T) {
	const generations, sends = 64, 256
	seen := map[uint16]uint32{}
	for gen := uint32(1<<32 - generations/2); gen != generations/2; gen++ {
		p := &Process{uses: []uint16{firstCount(gen)}}
		for range sends {
			count := uint16(p.token(0, false) >> 16)
			if count == 0 {
				t.Fatal("a token counts from 0")
			}
			if other, used := seen[count]; used && other != gen {
				t.Fatalf("generations %d and %d both use count %d within %d sends", other, gen, count, sends)
			}
			seen[count] = gen
		}
	}
}
