package weft_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weftnet/weft"
)

func TestAMulticastIsAMessageToEachReceiver(t *testing.T) { // QNIX-8, QNIX-11
	links(t, func(t *testing.T, net *network) {
		ctx, _, procs := crowd(t, net, 3, 5)
		var to []weft.Name
		for _, p := range procs {
			to = append(to, p.Name())
		}
		for k, n := range []int{0, 1, 600, 2000, 40_000, 300_000} {
			want := pattern(uint64(k), n)
			together(t, 6, func(i int) error {
				if i == 5 {
					return procs[0].Multicast(ctx, to, weft.Tag(k), want[:n/2], want[n/2:])
				}
				buf := make([]byte, n)
				m, err := procs[i].Recv(ctx, to[0], weft.Tag(k), buf)
				if err == nil && (m.Full != n || !bytes.Equal(buf, want)) {
					t.Errorf("member %d got %d of %d bytes, or others", i, m.Full, n)
				}
				return err
			})
		}
		nobody := weft.Name{App: "nobody"}
		err := procs[1].Multicast(ctx, []weft.Name{to[2], nobody, to[3]}, 9, []byte("both"))
		var op *weft.OpError
		if !errors.Is(err, weft.ErrNameUnknown) || !errors.As(err, &op) || op.Peer.String() != "nobody/0" {
			t.Errorf("multicast to a name that no process has: %v", err)
		}
		for _, i := range []int{2, 3} {
			buf := make([]byte, 4)
			if _, err := procs[i].Recv(ctx, to[1], 9, buf); err != nil || string(buf) != "both" {
				t.Errorf("member %d got %q, %v", i, buf, err)
			}
		}
		for what, err := range map[string]error{
			"no receivers": procs[0].Multicast(ctx, nil, 1),
			"any process":  procs[0].Multicast(ctx, []weft.Name{weft.AnyProcess}, 1),
			"too many":     procs[0].Multicast(ctx, make([]weft.Name, 600), 1),
		} {
			if !errors.Is(err, weft.ErrBadArgument) {
				t.Errorf("multicast with %s: %v", what, err)
			}
		}
	})
}
