package testbed

import "errors"

// DeleteCable deletes the cable between the two hosts of a testbed without a bridge. The
// interfaces of both hosts are then gone, with their addresses.
func (t *Testbed) DeleteCable() error {
	if t.bridge != nil || len(t.hosts) != 2 {
		return errors.New("testbed: delete the cable: the hosts have a bridge; expected two hosts with one cable")
	}
	nl, err := t.hosts[0].ns.netlink()
	if err != nil {
		return err
	}
	defer nl.Close()
	eth, err := nl.LinkByName(Interface)
	if err != nil {
		return explain("finding a host's link", err)
	}
	if err := nl.LinkDel(eth); err != nil {
		return explain("deleting a cable", err)
	}
	return nil
}

// RenewCable makes the cable that DeleteCable has deleted, with the same addresses. It returns
// when the cable carries frames.
func (t *Testbed) RenewCable() error {
	if err := t.buildCable(); err != nil {
		return err
	}
	for _, h := range t.hosts {
		if err := h.configure(t.config.Hosts); err != nil {
			return err
		}
	}
	return t.awaitLinks()
}
