package daemon_test

import (
	"bytes"
	"testing"

	weft "github.com/weftnet/weft"
)

// If there are several parts, they must lie in regions. A part of no bytes does not count: the
// other one may lie anywhere.
func TestADatagramComesIntoOnePartBesideEmptyOnes(t *testing.T) {
	c := configs(t, 1)
	run(t, c...)
	p := mustAttach(t, c[0], "a/0")
	got := make([]byte, 16)
	var o weft.Op
	if err := p.StartRecvDatagram(&o, 5, nil, got, got[:0]); err != nil {
		t.Fatal(err)
	}
	if err := p.PeerAt(p.Address()).SendDatagram(t.Context(), 5, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if m, err := o.Wait(t.Context()); err != nil || !bytes.Equal(got[:m.Len], []byte("hello")) {
		t.Errorf("%q, %v; expected hello", got[:m.Len], err)
	}
}
