package testbed

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
)

// Testbed is a set of hosts that reach one another. It is safe for concurrent use.
type Testbed struct {
	config Config
	hosts  []*Host
	bridge *namespace // the switch's; nil if two hosts share a cable
	shaped *carrier   // replaces the bridge; nil if frames pass unchanged

	once sync.Once
}

// Host is one network namespace with its link.
type Host struct {
	ns     *namespace
	bridge *namespace // the switch's; nil if there is none
	index  int
	addr6  netip.Addr
	loss   *lossPort // on the switch's end of the cable; nil if there is none
}

// New builds a testbed: when it returns, every host reaches every other. It takes some
// milliseconds for each host. The error wraps ErrUnavailable if a testbed is not possible here.
func New(c Config) (*Testbed, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	t := &Testbed{config: c}
	if err := t.build(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Testbed) build() error {
	for i := range t.config.Hosts {
		ns, err := newNamespace()
		if err != nil {
			return err
		}
		t.hosts = append(t.hosts, &Host{ns: ns, index: i})
	}
	if t.config.Apart {
		if err := t.setApart(); err != nil {
			return err
		}
	}
	join := t.buildSwitch
	if t.config.direct() {
		join = t.buildCable
	}
	if err := join(); err != nil {
		return err
	}
	for _, h := range t.hosts {
		if err := h.configure(t.config.Hosts); err != nil {
			return err
		}
		if err := t.paceHost(h); err != nil {
			return err
		}
	}
	if err := t.awaitLinks(); err != nil {
		return err
	}
	if t.config.Loss > 0 {
		return t.SetLoss(t.config.Loss)
	}
	return nil
}

// Check reports whether New can succeed here, as far as that shows without building a testbed.
// Its error is nil or wraps ErrUnavailable. Loss may need more rights than Check tests.
func Check() error {
	ns, err := newNamespace()
	if err != nil {
		return err
	}
	return ns.close()
}

// Hosts returns how many hosts there are.
func (t *Testbed) Hosts() int { return len(t.hosts) }

// Host returns a host by its index, from 0. It panics if there is no such host.
func (t *Testbed) Host(i int) *Host { return t.hosts[i] }

// SetLoss sets the probability, 0 to 1, that a frame is lost, for all hosts. With 1 nothing
// passes. It fails if the testbed was built without loss programs; see Config.Lossy.
func (t *Testbed) SetLoss(p float64) error {
	for _, h := range t.hosts {
		if err := h.SetLoss(p); err != nil {
			return err
		}
	}
	return nil
}

// Drops returns the sums of the loss programs' counters, or zeros if there are none.
func (t *Testbed) Drops() (Counters, error) {
	var sum Counters
	for _, h := range t.hosts {
		c, err := h.Drops()
		if err != nil {
			return Counters{}, err
		}
		sum.Dropped += c.Dropped
		sum.Passed += c.Passed
	}
	return sum, nil
}

// Shaped returns the counts of the switch, or zeros if it only forwards frames.
func (t *Testbed) Shaped() ShapeCounters {
	if t.shaped == nil {
		return ShapeCounters{}
	}
	return t.shaped.counters()
}

// Close takes the testbed down. It kills processes that still run in it, and does not wait for
// them. Sockets that were opened by Host.Do keep their host alive, without a path to any other,
// until they are closed. Closing twice is harmless.
func (t *Testbed) Close() error {
	t.once.Do(func() {
		if t.shaped != nil {
			t.shaped.close()
		}
		for _, h := range t.hosts {
			if h.loss != nil {
				h.loss.close()
			}
			h.ns.close()
		}
		if t.bridge != nil {
			t.bridge.close()
		}
	})
	return nil
}

// Index returns which host this is, from 0.
func (h *Host) Index() int { return h.index }

// Addr returns the host's IPv4 address. It can be bound at once.
func (h *Host) Addr() netip.Addr { return addr4(h.index) }

// Addr6 returns the host's IPv6 address, or the zero Addr if the kernel has no IPv6. It can be
// bound at once.
func (h *Host) Addr6() netip.Addr { return h.addr6 }

// SetLoss is like Testbed.SetLoss, for the frames that this host sends. With 1 the host receives
// frames, but none of its own arrives.
func (h *Host) SetLoss(p float64) error {
	switch {
	case !(p >= 0 && p <= 1):
		return fmt.Errorf("testbed: loss of %v, expected 0 to 1", p)
	case h.loss == nil:
		return fmt.Errorf("testbed: host %d has no loss program; build with Config.Loss or Config.Lossy", h.index)
	}
	return h.loss.set(p)
}

// SetPlugged pulls the cable of the host out of the switch, or plugs it in again. Without its
// cable the host neither receives frames nor sends any. SetPlugged fails if there is no switch.
func (h *Host) SetPlugged(plugged bool) error {
	if h.bridge == nil {
		return fmt.Errorf("testbed: host %d has no switch; build with Config.Lossy", h.index)
	}
	nl, err := h.bridge.netlink()
	if err != nil {
		return err
	}
	defer nl.Close()
	port, err := nl.LinkByName(portName(h.index))
	if err != nil {
		return explain("finding "+portName(h.index), err)
	}
	set := nl.LinkSetDown
	if plugged {
		set = nl.LinkSetUp
	}
	if err := set(port); err != nil {
		return explain("plugging "+portName(h.index), err)
	}
	return nil
}

// RemoveLink deletes the link of a host with its addresses, as if its network card were removed.
// It fails unless the kernel's bridge is the switch: build with Config.Lossy or more than two
// hosts, and without Delay, Jitter, Duplicate and Reorder.
func (t *Testbed) RemoveLink(host int) error {
	h := t.hosts[host]
	if h.bridge == nil || t.shaped != nil {
		return fmt.Errorf("testbed: host %d is on no bridge; build with Config.Lossy, and without Delay, Jitter, "+
			"Duplicate and Reorder", host)
	}
	nl, err := h.ns.netlink()
	if err != nil {
		return err
	}
	defer nl.Close()
	eth, err := nl.LinkByName(Interface)
	if err != nil {
		return explain("finding a host's link", err)
	}
	if h.loss != nil {
		h.loss.close()
	}
	if err := nl.LinkDel(eth); err != nil {
		return explain("removing a host's link", err)
	}
	return nil
}

// RestoreLink makes the link that RemoveLink deleted again, with its name, addresses, neighbours
// and rate, and with Config.Loss. It returns when the host reaches the others again. The counters
// of its loss program begin at 0.
func (t *Testbed) RestoreLink(host int) error {
	h := t.hosts[host]
	if h.bridge == nil || t.shaped != nil {
		return fmt.Errorf("testbed: host %d is on no bridge", host)
	}
	nl, err := t.bridge.netlink()
	if err != nil {
		return err
	}
	defer nl.Close()
	bridge, err := nl.LinkByName(bridgeName)
	if err != nil {
		return explain("finding the bridge", err)
	}
	if err := t.addPort(nl, h, joinBridge(nl, bridge)); err != nil {
		return err
	}
	if err := h.configure(t.config.Hosts); err != nil {
		return err
	}
	if err := t.paceHost(h); err != nil {
		return err
	}
	if h.loss != nil && t.config.Loss > 0 {
		if err := h.loss.set(t.config.Loss); err != nil {
			return err
		}
	}
	if err := t.bridge.awaitLinks(portName(host)); err != nil {
		return err
	}
	if err := h.ns.awaitLinks(Interface); err != nil {
		return err
	}
	return h.awaitAddr6()
}

// SetPathMTU makes the switch carry frames of at most n bytes to and from the host, and silently
// drop longer ones, like a switch between larger ones. n may be LeastMTU or less. The host's own
// link keeps its MTU. SetPathMTU fails if there is no switch. If the switch has no loss programs,
// a send of segmentation offload passes uncut and is not dropped.
func (h *Host) SetPathMTU(n int) error {
	if h.bridge == nil {
		return fmt.Errorf("testbed: host %d has no switch; build with Config.Lossy", h.index)
	}
	nl, err := h.bridge.netlink()
	if err != nil {
		return err
	}
	defer nl.Close()
	port, err := nl.LinkByName(portName(h.index))
	if err != nil {
		return explain("finding "+portName(h.index), err)
	}
	if err := nl.LinkSetMTU(port, n); err != nil {
		return explain(fmt.Sprintf("setting the MTU of %s to %d", portName(h.index), n), err)
	}
	return nil
}

// Drops is like Testbed.Drops, for the frames that this host has sent.
func (h *Host) Drops() (Counters, error) {
	if h.loss == nil {
		return Counters{}, nil
	}
	return h.loss.read()
}

// Do runs fn on a thread that is on the host, and returns the result of fn. Sockets that fn opens
// belong to the host and may be used from anywhere afterwards. Goroutines that fn starts are not
// on the host. Beware of calls that start some, such as net.Dial of a host name. A test may fail
// inside fn as outside.
func (h *Host) Do(fn func() error) error { return h.ns.do(fn) }

// Command makes a command that will run on the host; see Cmd.
func (h *Host) Command(ctx context.Context, name string, args ...string) *Cmd {
	return newCmd(ctx, h.ns, name, args...)
}
