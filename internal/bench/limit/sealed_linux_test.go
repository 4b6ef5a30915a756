package limit

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weftnet/weft/internal/load"
)

// loop is a wire that returns what is sent.
type loop struct{ sent []byte }

func (l *loop) send(b []byte) error      { l.sent = append([]byte(nil), b...); return nil }
func (l *loop) receive() ([]byte, error) { return l.sent, nil }
func (l *loop) fd() int                  { return -1 }
func (l *loop) piece() int               { return 1000 }

func TestASealedWireCarriesMessagesOfEveryLength(t *testing.T) {
	for _, size := range []int{8, 64, 1000 - sealedExtra, 1001 - sealedExtra, 5000} {
		l := new(loop)
		c := &child{job: job{Size: size}}
		w, err := sealed(func(*child) (wire, error) { return l, nil })(c)
		if err != nil {
			t.Fatal(err)
		}
		want := load.Written(size)
		if err := w.send(want); err != nil {
			t.Fatal(err)
		}
		if got, err := w.receive(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %d came, %v", size, len(got), err)
		}
		if len(l.sent) <= size || bytes.Contains(l.sent, want[:8]) {
			t.Errorf("%d bytes: they left in clear", size)
		}
	}
}

func TestASealedWireRefusesAForgedDatagram(t *testing.T) {
	for _, at := range []int{0, sealedHead, 70, sealedExtra + 63} {
		l := new(loop)
		w, err := sealed(func(*child) (wire, error) { return l, nil })(&child{job: job{Size: 64}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.send(load.Written(64)); err != nil {
			t.Fatal(err)
		}
		l.sent[at] ^= 1
		if _, err := w.receive(); !errors.Is(err, errForged) {
			t.Errorf("byte %d altered: %v; want %v", at, err, errForged)
		}
	}
}
