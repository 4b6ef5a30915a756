package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/registry/gossip"
)

// DefaultGossipPort is the UDP and TCP port of gossip unless configured otherwise.
const DefaultGossipPort = 7701

// Gossip is the part of a Config by which NICs find one another without a list of nodes.
type Gossip struct {
	Listen         string   `toml:"listen"`
	Seeds          []string `toml:"seeds"`
	KeyFile        string   `toml:"key_file"` // a key of earlier releases: refused, with the cure
	FailureTimeout Duration `toml:"failure_timeout"`
}

// gossip checks the Gossip part and returns it as a gossip.Config. ip is the address of the link.
func (c Config) gossip(ip netip.Addr) (*gossip.Config, error) {
	if c.Gossip == nil {
		return nil, nil
	}
	var errs []error
	wrong := func(key string, err error) { errs = append(errs, c.mistake("gossip."+key, "%w", err)) }
	g := &gossip.Config{Listen: netip.AddrPortFrom(ip, DefaultGossipPort)}
	var err error
	if c.Gossip.Listen != "" {
		if g.Listen, err = listenAddr(c.Gossip.Listen, DefaultGossipPort); err != nil {
			wrong("listen", err)
		}
	}
	for _, s := range c.Gossip.Seeds {
		a, err := ParseSeed(s)
		if err != nil {
			wrong("seeds", err)
		}
		g.Seeds = append(g.Seeds, a)
	}
	if c.Gossip.KeyFile != "" {
		wrong("key_file",
			errors.New("the gossip has no key of its own any more: its key is made from the fabric key; "+
				"remove key_file, "+
				"run weft fabric show on one host, and give what it prints to weft fabric join on each of the others"))
	}
	if g.FailureTimeout, err = c.detection(); err != nil {
		wrong("failure_timeout", err)
	}
	return g, errors.Join(errs...)
}

// failureTimeout returns the silence after which a NIC and its names are gone; 0 means the
// engine's default.
func (c Config) failureTimeout() time.Duration {
	if c.Gossip == nil {
		return 0
	}
	return time.Duration(c.Gossip.FailureTimeout)
}

// detection returns how long the gossip may take to notice that a NIC is gone. The engine gets
// the rest of the failure timeout: it asks a peer that seems gone before it forgets the peer.
func (c Config) detection() (time.Duration, error) {
	whole, asking := c.failureTimeout(), time.Duration(c.UnreachableAfter)
	if whole == 0 {
		whole = limits.FailureTimeout
	}
	if asking == 0 {
		asking = limits.UnreachableAfter
	}
	d := whole - asking - limits.ProbeEvery
	if d < gossip.LeastFailureTimeout || whole > time.Hour {
		return 0, fmt.Errorf("%v; expected %v or more, so that a silent NIC can be asked for unreachable_after (%v), "+
			"and at most 1h",
			whole, whole-d+gossip.LeastFailureTimeout, asking)
	}
	return d, nil
}

// ParseSeed reads a seed address: the IP or the name of its host, and an optional port.
func ParseSeed(s string) (netip.AddrPort, error) {
	at, err := registry.Resolve(s, DefaultGossipPort)
	switch {
	case err != nil:
		return at, err
	case at.Port() == 0 || at.Addr().IsUnspecified():
		return at, fmt.Errorf("address %q: expected one that this host can call", s)
	}
	return at, nil
}
