package weft_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/link/udp"
)

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
