//go:build linux && !portable

package udp

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/weftnet/weft/internal/testbed"
)

func TestAnInterfaceThatCarriesTooLittleIsRefusedWithTheReason(t *testing.T) {
	bed, err := testbed.New(testbed.Config{Hosts: 2})
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer bed.Close()
	h := bed.Host(0)
	listen := func(mtu int) (why string, err error) {
		err = h.Do(func() error {
			d, err := Listen(Config{Addr: netip.AddrPortFrom(h.Addr(), 0), MTU: mtu})
			if err != nil {
				return err
			}
			why = d.Explain()
			return d.Close()
		})
		return why, err
	}
	if err := h.Do(func() error {
		eth, err := netlink.LinkByName(testbed.Interface)
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(eth, 500)
	}); err != nil {
		t.Fatal(err)
	}
	const want = "MTU 472 bytes: eth0 carries 500"
	if why, err := listen(0); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a driver at an interface with an MTU of 500: %q, %v; want %q", why, err, want)
	}
	if why, err := listen(1400); err != nil || !strings.Contains(why, "more than expected of the path (472: eth0 carries 500)") {
		t.Errorf("with an MTU of 1400 as configured: %q, %v", why, err)
	}
}
