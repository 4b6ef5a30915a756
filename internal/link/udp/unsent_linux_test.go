//go:build linux && !portable

package udp

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/weftnet/weft/internal/testbed"
)

// Peers of a host whose interface is down are silent, and the log said no more.
func TestTheLogTellsThatAnInterfaceIsDownOnceUntilItIsUp(t *testing.T) {
	bed, err := testbed.New(testbed.Config{Hosts: 3})
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer bed.Close()
	var said []string
	err = bed.Host(0).Do(func() error {
		d, err := Listen(Config{Addr: netip.AddrPortFrom(bed.Host(0).Addr(), 0), Log: func(s string) { said = append(said, s) }})
		if err != nil {
			return err
		}
		defer d.Close()
		eth, err := netlink.LinkByName(testbed.Interface)
		if err != nil {
			return err
		}
		for _, set := range []func(netlink.Link) error{netlink.LinkSetDown, netlink.LinkSetUp, netlink.LinkSetDown} {
			if err := set(eth); err != nil {
				return err
			}
			for i := range 6 {
				copy(d.Reserve(netip.AddrPortFrom(bed.Host(1+i%2).Addr(), 7700)), "frame")
				d.Commit(5)
				d.Flush(0)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "frames for 10.87.0.2:7700 do not leave this host, since the system says: network is unreachable"
	if !slices.Equal(said, []string{want, want}) {
		t.Errorf("the log says %q; expected twice %q", said, want)
	}
}
