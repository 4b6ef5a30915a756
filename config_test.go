package weft_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/link/udp"
)

// A number without a unit counts nanoseconds, in which no peer answers: a daemon has always refused that, a program's own NIC took it.
func TestATimeInWhichNothingAnswersIsRefused(t *testing.T) {
	for _, d := range []time.Duration{-1, 3, 9 * time.Millisecond, 2 * time.Hour} {
		n, err := weft.OpenNIC(t.Context(), weft.Config{Switch: weft.NewSwitch(), UnreachableAfter: d})
		if err == nil {
			n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "UnreachableAfter is "+d.String()+"; expected 10ms to 1h0m0s") {
			t.Errorf("UnreachableAfter of %v: %v; expected it to say from 10ms to 1h", d, err)
		}
	}
}

// Who names a link that there is not is told which there are.
func TestAnAddressThatIsNoneIsRefusedWithTheFormsThatThereAre(t *testing.T) {
	for _, listen := range []string{"auto:10.0.0.1:7000", "here", "xdp:here", "127.0.0.1:"} {
		n, err := weft.OpenNIC(t.Context(), weft.Config{Link: weft.UDP(listen)})
		if err == nil {
			n.Close()
		}
		if !errors.Is(err, udp.ErrAddress) {
			t.Errorf("Link: %q: %v; expected ErrAddress", listen, err)
			continue
		}
		for _, want := range []string{`"xdp:HOST:PORT"`, `"xdp-generic:HOST:PORT"`, `"shm:NAME"`, "HOST:PORT, [IPv6]:PORT or :PORT"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Link: %q: %v; expected it to name %s", listen, err, want)
			}
		}
	}
}
