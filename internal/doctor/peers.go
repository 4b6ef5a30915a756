package doctor

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
)

// keyName is the file of a NIC's static key in its state directory.
const keyName = "nic.key"

// checks returns the connectivity checks that the user asked about.
func (p *Patient) checks() (some []ctl.Check) {
	if p.NIC == nil {
		return nil
	}
	for _, c := range p.NIC.Checks {
		at, err := netip.ParseAddrPort(c.Address)
		if len(p.Peers) == 0 || err == nil && slices.Contains(p.Peers, at.Addr().Unmap()) {
			some = append(some, c)
		}
	}
	return some
}

// hostOf returns the host of an address.
func hostOf(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	return at.Addr().String()
}

// lookID finds NICs with the same id. A copy of a host's disk contains the state of its NIC, and so
// the id.
func lookID(p *Patient) (found []Finding, err error) {
	for _, c := range p.checks() {
		switch c.Cause {
		case ctl.CauseOwnID:
			found = append(found, Finding{
				What: fmt.Sprintf("the NIC at %s has the id of the NIC of this host: "+
					"their state directories hold the same key", c.Address),
				Cost: "the two NICs refuse each other, and a third NIC reaches only one of them",
				Mend: p.restart(p.asRootFor(filepath.Join(p.Setup.StateDir, keyName))),
				Note: note("on one of the two hosts only; the NIC gets a new key and id, and needs a new certificate "+
					"if it has one", p.restartNote()),
			})
		case ctl.CauseKnownID:
			found = append(found, Finding{
				What:  fmt.Sprintf("the NIC at %s has the id %v, and another NIC with this id is up", c.Address, c.ID),
				Cost:  "this NIC reaches only one of the two",
				Mend:  words("weft", "doctor", "--peer", p.upAt(c.ID)),
				Where: hostOf(c.Address),
				Note: "the command there finds the NIC with the same id, " +
					"and prints the command that gives it a new one",
			})
		}
	}
	return found, nil
}

// upAt returns the host of the NIC that is up with the given id, or "HOST".
func (p *Patient) upAt(id registry.NICID) string {
	for _, n := range p.NIC.Nodes {
		if n.ID == id && n.State == "up" {
			return hostOf(n.Address)
		}
	}
	return "HOST"
}

// asRootFor returns the command that removes a file of the daemon's user.
func (p *Patient) asRootFor(file string) string {
	remove := "rm " + quote(file)
	if _, err := p.Host.Read(file); err != nil {
		return p.asRoot(remove)
	}
	return remove
}

// lookKey finds NICs with another fabric key.
func lookKey(p *Patient) (found []Finding, err error) {
	for _, c := range p.checks() {
		switch c.Cause {
		case ctl.CauseFabricKey:
			found = append(found, p.otherKey(&c))
		case ctl.CausePlain:
			found = append(found, Finding{
				What: fmt.Sprintf("%s: %s", c.Address, c.Text),
				Cost: "no process of this host reaches that NIC",
				Note: "set plain to the same value in the configurations of both NICs; only sealed links are safe",
			})
		}
	}
	return found, nil
}

// otherKey describes a NIC with another fabric key. If this NIC shares its key with another one
// that is up, the other host takes over this key, else this host takes over the other key, and
// keeps a copy of its own. The key is a secret, so it travels by ssh, and no line of this program
// shows it.
func (p *Patient) otherKey(c *ctl.Check) Finding {
	host := hostOf(c.Address)
	f := Finding{
		What: fmt.Sprintf("the NIC at %s has another fabric key than this one (%s)", c.Address, p.NIC.Info.Fabric),
		Cost: "the two NICs do not answer each other, so no process of this host reaches that host",
	}
	switch at, err := netip.ParseAddrPort(c.Address); {
	case p.node(c) == nil: // of gossip, whose senders are not known
		f.What = "gossip arrives that is sealed with another fabric key than that of this NIC"
		f.Note = keyOfGossip
	case err == nil && p.keyWorks():
		f.Mend = "ssh " + quote(hostOf(p.ownAddress(at).String())) + " weft fabric show | weft fabric join --replace"
		f.Where = host
		f.Note = "other NICs have the key of this host; first, copy the key file of " + host +
			"; afterwards, restart the daemon there"
	case p.Setup.Foreign || p.Setup.KeyPath == "":
		f.Note = "`weft fabric show --fingerprint`, run by the users of the daemons, shows which hosts agree; " +
			"`weft doctor`, run by the user of this daemon, prints the command"
	default:
		join := "ssh " + quote(host) + " weft fabric show | weft fabric join --replace"
		if p.Setup.KeyFile != "" {
			join += " --file " + quote(p.Setup.KeyFile)
		}
		key := quote(p.Setup.KeyPath)
		f.Mend = then("cp -p "+key+" "+key+`."$(date +%s)"`, join, p.restart(""))
		f.Note = note("if this host has the right key, run the command on "+host+" with the address of this host "+
			"instead; `weft fabric show --fingerprint` shows which hosts agree", p.restartNote())
	}
	return f
}

// keyWorks reports whether this NIC shares its fabric key with another one that is up.
func (p *Patient) keyWorks() bool {
	return p.NIC.Info.Guard == ctl.GuardSealed &&
		slices.ContainsFunc(p.NIC.Nodes, func(n ctl.Node) bool { return n.State == "up" && n.Guard == ctl.GuardSealed })
}

// keyOfGossip is the cure if the NIC with another key is not known.
const keyOfGossip = "compare what `weft fabric show --fingerprint` prints on all hosts, and run " +
	"`ssh GOOD-HOST weft fabric show | weft fabric join --replace` where it differs"
