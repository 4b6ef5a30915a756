package xdp

import (
	"errors"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// A container may get a VLAN of its host's interface. The number of that interface is then one
// of the host's, and an interface of the container may have the same number.
func TestAVLANOfAnotherNamespacesInterfaceIsRefused(t *testing.T) {
	all, err := netlink.LinkList()
	if err != nil || len(all) == 0 {
		t.Skip("no interfaces here:", err)
	}
	number := all[0].Attrs().Index
	v := &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "vlan7", ParentIndex: number, NetNsID: -1}, VlanId: 7}
	var at place
	if err := at.tagged(v); err != nil || at.lower != number || at.vlan != 7 {
		t.Errorf("a VLAN of interface %d: %+v, %v", number, at, err)
	}
	v.NetNsID, at = 0, place{}
	if err := at.tagged(v); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "below vlan7 is in another network namespace") || at.lower != 0 {
		t.Errorf("a VLAN of another namespace's interface %d: %+v, %v", number, at, err)
	}
}

func TestAListThatChangesMeanwhileIsAskedForAgain(t *testing.T) {
	asked := 0
	list := func() ([]int, error) {
		if asked++; asked < 5 {
			return []int{1}, netlink.ErrDumpInterrupted
		}
		return []int{1, 2}, nil
	}
	if all, err := whole(list); err != nil || len(all) != 2 {
		t.Errorf("%v, %v, having asked %d times", all, err, asked)
	}
	other := errors.New("another error")
	asked = 0
	if _, err := whole(func() ([]int, error) { asked++; return nil, other }); err != other || asked != 1 {
		t.Errorf("%v, having asked %d times; expected once", err, asked)
	}
}
