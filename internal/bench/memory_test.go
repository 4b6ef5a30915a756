package bench

import (
	"errors"
	"testing"

	"github.com/weftnet/weft"
)

func TestBuffersLieInTheirRegionApartFromOneAnotherAndAreWritten(t *testing.T) {
	p, err := weft.Open(within(t), weft.Config{Name: ClientName, Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, buffers, err := memory(p, 3, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i, b := range buffers {
		zeros := 0
		for _, x := range b {
			if x == 0 {
				zeros++
			}
		}
		if len(b) != 1000 || cap(b) != 1000 || &b[0] != &r.Bytes()[1000*i] || zeros > 100 {
			t.Errorf("buffer %d: %d bytes, %d to its end, %d of them 0; expected 1000 written ones of the region", i, len(b), cap(b), zeros)
		}
	}
	if _, _, err := memory(p, 1, -1); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("a region of -1 bytes: %v", err)
	}
}
