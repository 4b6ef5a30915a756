package daemon

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/limits"
)

// Link is what a configuration says of one link. A host with several interfaces may have each of them under a name of its own, and choose one
// by it (NETSTAR-8).
type Link struct {
	Link   string `toml:"link"`   // empty: UDP
	Prefer string `toml:"prefer"` // empty: bandwidth
	Listen string `toml:"listen"` // empty: every address
	MTU    int    `toml:"mtu"`    // 0: what the interface carries
}

// Chosen is c with the link that it names in place of its own keys. What is no name of a link stays, and Check says so.
func (c Config) Chosen() Config {
	l, ok := c.Named[c.Link]
	if !ok || slices.Contains(Links(), c.Link) {
		return c
	}
	c.called = c.Link
	c.Link, c.Prefer, c.Listen, c.MTU = l.Link, l.Prefer, l.Listen, l.MTU
	return c
}

// linked is the link that c has.
func (c Config) linked() Link { return Link{c.Link, c.Prefer, c.Listen, c.MTU} }

// names are those that link may have: the kinds of links, and the names that the configuration gives.
func (c Config) names() []string {
	l := Links()
	for name := range c.Named {
		l = append(l, name)
	}
	slices.Sort(l[len(Links()):])
	return l
}

// checkNamed names what is wrong with the links that have names, chosen or not.
func (c Config) checkNamed(wrong func(key, format string, args ...any)) {
	for _, name := range c.names()[len(Links()):] {
		key := "links." + name
		if slices.Contains(Links(), name) {
			wrong(key, "that is the name of a kind of links; expected one of its own, such as fast0")
		}
		if name == "" || strings.ContainsAny(name, " \t\n") {
			wrong(key, "%q; expected a name without spaces, such as fast0", name)
		}
		if l := c.Named[name]; name != c.called {
			l.check(wrong, key+".", Links())
		}
	}
}

// check names what is wrong with l, and says where it listens. names are those that link may have.
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
