package udp

import (
	"strings"
	"testing"
)

// A privileged test that asks for a huge buffer would get it, so this one tests only the text.
func TestAShortReceiveBufferNamesItsRemedy(t *testing.T) {
	s := socket{receiveBuffer: 104 << 10}
	for want, text := range map[int]string{
		104 << 10: "receive buffer 104 KiB",
		4 << 20:   "receive buffer only 104 KiB of 4096: for more, sysctl -w ",
	} {
		if got := s.explain(want); !strings.Contains(got, text) {
			t.Errorf("with %d bytes wanted, explain says %q; want %q", want, got, text)
		}
	}
}
