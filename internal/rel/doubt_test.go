package rel

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// The link driver hears of odd losses, once, and of ordinary ones never.
func TestOddLossesThrowDoubtOnThePathAndOrdinaryOnesDoNot(t *testing.T) {
	for _, test := range []struct {
		name    string
		weather weather
		lose    func(w *world, frame []byte) bool
		ends    bool
		want    string
	}{
		{"none", weather{}, nil, true, "[]"},
		{"one in twenty", weather{loss: 0.05}, nil, true, "[]"},
		{"every second at the start", weather{}, func(w *world, f []byte) bool { return len(f) > 1000 && w.sent%2 == 0 }, true, "[1]"},
		{"everything, after the start", weather{}, func(w *world, _ []byte) bool { return w.nodes[0].ups > 0 }, false, "[]"},
	} {
		w := newWorld(t, 3, test.weather)
		var got []Doubt
		a := w.add(1, func(c *Config) {
			c.Doubt = func(to netip.AddrPort, what Doubt) {
				if to != address(2) {
					t.Errorf("%s: doubt about %v", test.name, to)
				}
				got = append(got, what)
			}
		})
		b := w.add(2, nil)
		if test.lose != nil {
			w.filter = func(_, _ *node, f []byte) bool { return !test.lose(w, f) }
		}
		tr := newTraffic(a, b, 0, []int{200_000})
		tr.pump()
		w.run(3 * time.Second)
		arrived := tr.done == 1 && tr.frags[0].Err == nil
		if fmt.Sprint(got) != test.want || arrived != test.ends {
			t.Errorf("%s: doubts %v, and the message has arrived: %v; want %s, %v", test.name, got, arrived, test.want, test.ends)
		}
	}
}
