package vni

import "testing"

func TestEventsAreToldWithTheIDsThatToolsTake(t *testing.T) {
	name, err := ParseName("app/3")
	if err != nil {
		t.Fatal(err)
	}
	e := Event{NIC: 0x0102030405060708, Slot: 9, Name: name, Count: 4}
	for kind, want := range map[uint32]string{
		EventUnreachable: "NIC 1:2:3:4:5:6:7:8 unreachable, 4 sends in doubt",
		EventRestarted:   "NIC 1:2:3:4:5:6:7:8 restarted, 4 sends in doubt",
		EventProcessGone: "process app/3 gone (NIC 1:2:3:4:5:6:7:8, slot 9)",
		EventNameLost:    "name app/3 lost to NIC 1:2:3:4:5:6:7:8, slot 9",
		EventClosed:      "NIC 1:2:3:4:5:6:7:8 closed, 4 sends in doubt",
	} {
		if e.Kind = kind; e.String() != want {
			t.Errorf("%q; expected %q", e, want)
		}
	}
	// The process was sent to by an address that has no name.
	nameless := Event{Kind: EventProcessGone, NIC: e.NIC, Slot: 9}
	if want := "process gone (NIC 1:2:3:4:5:6:7:8, slot 9)"; nameless.String() != want {
		t.Errorf("%q; expected %q", nameless, want)
	}
}
