package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry/file"
)

// Link is the configuration of one link. A host with several interfaces may give each of them its
// own name, and start one or several of them by name (NETSTAR-8).
type Link struct {
	Link   string `toml:"link"`   // empty: UDP
	Prefer string `toml:"prefer"` // empty: bandwidth
	Listen string `toml:"listen"` // empty: every address
	MTU    int    `toml:"mtu"`    // 0: what the interface carries

	// For the first link that is started, an empty key here takes the value of the same key
	// outside of the table. A further link has only these keys: other networks have other NICs.
	ID          string       `toml:"id"`
	Certificate string       `toml:"certificate"`
	Capture     string       `toml:"capture"`
	Registry    string       `toml:"registry"`
	Nodes       []file.Entry `toml:"node"`
	Gossip      *Gossip      `toml:"gossip"`
}

// Chosen returns c with the keys of the first link that it names in place of its own keys, and
// notes the names of the further links. A value that names no link stays, and Check reports it.
func (c Config) Chosen() Config {
	if first, rest, several := strings.Cut(c.Link, ","); several {
		c.Link, c.further = strings.TrimSpace(first), strings.Split(rest, ",")
		for i := range c.further {
			c.further[i] = strings.TrimSpace(c.further[i])
		}
	}
	l, ok := c.Named[c.Link]
	if !ok || slices.Contains(Links(), c.Link) {
		return c
	}
	c.called = c.Link
	c.Link, c.Prefer, c.Listen, c.MTU = l.Link, l.Prefer, l.Listen, l.MTU
	c.ID, c.Certificate, c.Capture = cmp.Or(l.ID, c.ID), cmp.Or(l.Certificate, c.Certificate),
		cmp.Or(l.Capture, c.Capture)
	if c.ownNodes = l.Registry != "" || len(l.Nodes) > 0; c.ownNodes {
		c.Registry, c.Nodes = l.Registry, l.Nodes
	}
	if l.Gossip != nil {
		c.Gossip = l.Gossip
	}
	return c
}

// started returns the settings of each link that c starts, or what is wrong with c.
func (c Config) started() ([]settings, error) {
	first, err := c.check()
	if err != nil {
		return nil, err
	}
	all := []settings{first}
	var errs []error
	for _, name := range first.config.further {
		s, err := c.furtherLink(name, &first).check()
		if err == nil {
			err = s.apart(all)
		}
		if err != nil {
			err = fmt.Errorf("link %s: %w", name, err)
		}
		errs = append(errs, err)
		all = append(all, s)
	}
	return all, errors.Join(errs...)
}

// furtherLink returns c for a further link. The link has its own key and so its own id, in a
// directory below the state directory; the fabric is the same.
func (c Config) furtherLink(name string, first *settings) Config {
	l := c.Named[name]
	c.Link, c.Prefer, c.Listen, c.MTU = l.Link, l.Prefer, l.Listen, l.MTU
	c.ID, c.Certificate, c.Capture, c.Registry, c.Nodes, c.Gossip = l.ID, l.Certificate, l.Capture,
		l.Registry, l.Nodes, l.Gossip
	c.Torus, c.Position, c.further = nil, nil, nil
	if c.Capture == "" {
		c.CaptureLimit, c.CaptureSnap, c.CaptureSecrets = 0, 0, false
	}
	c.Metrics, c.MetricsTokenFile = "", "" // the first link serves those of all links
	c.called, c.besides, c.ownNodes = name, true, true
	c.fabricDir, c.StateDir = first.stateDir, filepath.Join(first.stateDir, "links", name)
	c.Revocations = first.trusted.revocations // one file for all links
	return c
}

// apart reports what a further link shares with an earlier one although two links cannot share
// it.
func (s *settings) apart(before []settings) error {
	var errs []error
	wrong := func(key string, at netip.AddrPort, other *settings) {
		errs = append(errs, s.config.mistake(key,
			"%v, where link %s listens too; expected another address, or another port", at, other.linkName()))
	}
	for i := range before {
		other := &before[i]
		if overlap(s.listen, other.listen) {
			wrong("listen", s.listen, other)
		}
		if s.gossip != nil && other.gossip != nil && overlap(s.gossip.Listen, other.gossip.Listen) {
			wrong("gossip.listen", s.gossip.Listen, other)
		}
		if s.config.Capture != "" && s.config.Capture == other.config.Capture {
			errs = append(errs, s.config.mistake("capture", "%s is the file of link %s, too; expected another",
				s.config.Capture, other.linkName()))
		}
	}
	return errors.Join(errs...)
}

// overlap reports whether two sockets cannot be bound to a and to b at once.
func overlap(a, b netip.AddrPort) bool {
	return a.Port() == b.Port() && a.Port() != 0 &&
		(a.Addr() == b.Addr() || a.Addr().IsUnspecified() || b.Addr().IsUnspecified())
}

// linkName returns the name by which clients choose the link: the one in the configuration if
// there is one, else that of its kind.
func (s *settings) linkName() string { return cmp.Or(s.config.called, s.config.Link, "udp") }

// linked returns the keys of c that make its link.
func (c Config) linked() Link {
	return Link{Link: c.Link, Prefer: c.Prefer, Listen: c.Listen, MTU: c.MTU}
}

// names returns the valid values of link: the kinds of links, and the names in the configuration.
func (c Config) names() []string {
	l := Links()
	for name := range c.Named {
		l = append(l, name)
	}
	slices.Sort(l[len(Links()):])
	return l
}

// checkNamed reports what is wrong with the named links, chosen or not.
func (c Config) checkNamed(wrong func(key, format string, args ...any)) {
	for _, name := range c.names()[len(Links()):] {
		key := "links." + name
		if slices.Contains(Links(), name) {
			wrong(key, "that is the name of a kind of links; expected one of its own, such as fast0")
		}
		if !ctl.IsLinkName(name) {
			wrong(key,
				"%q; expected a name without spaces, such as fast0: 1 to %d letters, digits, "+
					"and . _ - behind the first",
				name, ctl.MaxLinkName)
		}
		if l := c.Named[name]; name != c.called {
			l.check(wrong, key+".", Links())
		}
	}
}

// checkFurther reports what is wrong with the list of links to start.
func (c Config) checkFurther(wrong func(key, format string, args ...any)) {
	if len(c.further) >= limits.LinksOfDaemon {
		wrong("link", "%d links; expected at most %d", len(c.further)+1, limits.LinksOfDaemon)
	}
	own := c.names()[len(Links()):]
	seen := []string{c.called}
	for _, name := range c.further {
		switch {
		case !slices.Contains(own, name) || slices.Contains(Links(), name):
			wrong("link", "%q; behind the first link expected the name of a [links.NAME]: %s", name,
				cmp.Or(strings.Join(own, ", "), "there is none"))
		case slices.Contains(seen, name):
			wrong("link", "%s stands twice", name)
		}
		seen = append(seen, name)
	}
}

// check reports what is wrong with l, and returns its listening address. names are the valid
// values of link.
func (l Link) check(wrong func(key, format string, args ...any), prefix string, names []string) (at netip.AddrPort) {
	if l.Link != "" && !slices.Contains(Links(), l.Link) {
		wrong(prefix+"link", "no link is called %q; expected one of %s", l.Link, strings.Join(names, ", "))
	}
	switch {
	case l.Prefer != "" && !slices.Contains(Preferences(), l.Prefer):
		wrong(prefix+"prefer", "%q; expected %s", l.Prefer, strings.Join(Preferences(), " or "))
	case l.Prefer != "" && l.Link != "auto":
		wrong(prefix+"prefer", "%q has a link named already; expected link = \"auto\" with it", l.Prefer)
	}
	at, err := listenAddr(l.Listen, DefaultPort)
	if err != nil {
		wrong(prefix+"listen", "%w", err)
	}
	if l.MTU != 0 && (l.MTU < limits.LeastFrame || l.MTU > 65507) {
		wrong(prefix+"mtu", "%d; expected 0, or %d to 65507 bytes", l.MTU, limits.LeastFrame)
	}
	return at
}
