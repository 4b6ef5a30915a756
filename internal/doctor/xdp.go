package doctor

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/weftnet/weft/internal/limits"
)

// xdpBytes returns the memory that AF_XDP locks on the interface of the link.
func (p *Patient) xdpBytes() int64 {
	queues := 1
	if name, _, err := p.Host.Route(p.Setup.Listen.Addr()); err == nil {
		if all, err := p.Host.List("/sys/class/net/" + name + "/queues"); err == nil {
			rx := 0
			for _, q := range all {
				if strings.HasPrefix(q, "rx-") {
					rx++
				}
			}
			queues = max(queues, rx)
		}
	}
	return int64(min(queues, limits.XDPQueues)) * xdpQueueBytes
}

// lookXDP finds the reason why the NIC has no AF_XDP link although its configuration asks for one.
func lookXDP(p *Patient) ([]Finding, error) {
	if !p.wantsXDP() {
		return nil, nil
	}
	at := p.Setup.Listen.Addr()
	if at.IsUnspecified() && !p.Setup.Latency {
		return []Finding{{
			What: "AF_XDP needs one address of an interface, and the NIC listens at every address",
			Cost: "--link xdp does not start",
			Note: "name the address by listen in the configuration, or by --listen",
		}}, nil
	}
	why := p.Host.XDP(at, p.Setup.Link == "xdp-generic")
	if why == nil {
		return nil, nil
	}
	f := Finding{
		What: fmt.Sprintf("AF_XDP does not work at %v: %v", at, why),
		Cost: "round trips take longer by UDP; --link xdp does not start",
	}
	name, _, err := p.Host.Route(at)
	if err != nil {
		name = "the interface"
	}
	f.Mend, f.Note = p.mendXDP(why, name)
	return []Finding{f}, nil
}

// mendXDP returns the cure for an error of an AF_XDP link on an interface.
func (p *Patient) mendXDP(why error, name string) (mend, note string) {
	switch {
	case errors.Is(why, syscall.EPERM), errors.Is(why, syscall.EACCES):
		caps := "cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock=ep"
		return p.asRoot(`setcap ` + caps + ` "$(command -v weft)"`), "then start the daemon again"
	case errors.Is(why, syscall.EBUSY), errors.Is(why, syscall.EEXIST):
		return p.asRoot(words("ip", "link", "set", "dev", name, "xdp", "off")),
			"this ends the other program: `ip link show dev " + name + "` names it"
	case errors.Is(why, syscall.ERANGE):
		return p.asRoot(words("ip", "link", "set", "dev", name, "mtu", "3498")),
			"or use Linux 5.18 or later; lower the MTU at both ends of the cable"
	}
	return "", "use UDP (`link = \"udp\"`), or the slower emulation (`link = \"xdp-generic\"`)"
}
