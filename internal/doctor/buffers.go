package doctor

import (
	"fmt"
	"strings"

	"github.com/weftnet/weft/internal/limits"
)

// lookBuffers finds limits of the kernel below the buffers that a UDP link asks for. CAP_NET_ADMIN
// bypasses these limits.
func lookBuffers(p *Patient) ([]Finding, error) {
	if forced, err := p.capable(capNetAdmin); err != nil || forced {
		return nil, err
	}
	const want = limits.SocketBuffer
	receive, send, err := p.Host.Buffers(want)
	if err != nil {
		return nil, err
	}
	var set, what []string
	for _, b := range []struct {
		name string
		has  int
	}{{"rmem_max", receive}, {"wmem_max", send}} {
		if b.has < want {
			set = append(set, fmt.Sprintf("net.core.%s=%d", b.name, want))
			what = append(what, fmt.Sprintf("net.core.%s grants %d bytes", b.name, b.has))
		}
	}
	if set == nil {
		return nil, nil
	}
	return []Finding{{
		What: fmt.Sprintf("%s, and the link asks for %d", strings.Join(what, ", "), want),
		Cost: "bursts of frames find the buffer full and are retransmitted, so streams are slower",
		Mend: then(p.asRoot("sysctl -w "+strings.Join(set, " ")), p.restart("")),
		Note: note("a line for each value in /etc/sysctl.d/90-weft.conf keeps it after a reboot", p.restartNote()),
	}}, nil
}
