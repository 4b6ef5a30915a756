package main

import (
	"bytes"
	"testing"

	"github.com/weftnet/weft/parallel"
)

func TestTheCellsAreThoseOfAPlainLoop(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got, err := play(t.Context(), m, generations)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]uint8, side*side)
	for i := range want {
		if alive(i/side, i%side) {
			want[i] = 1
		}
	}
	for range generations {
		next := make([]uint8, len(want))
		for i := range side {
			for j := range side {
				n := uint8(0)
				for k := range 9 {
					if k != 4 {
						n += want[(i+k/3-1+side)%side*side+(j+k%3-1+side)%side]
					}
				}
				if n == 3 || n == 2 && want[i*side+j] == 1 {
					next[i*side+j] = 1
				}
			}
		}
		want = next
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the cells are\n%s; expected\n%s", draw(got), draw(want))
	}
}
