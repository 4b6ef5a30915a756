package rel

import (
	"testing"

	"github.com/weftnet/weft/internal/limits"
)

// spare is a handler that can spare some peers.
type spare struct {
	Handler
	m    *Module
	left []*Endpoint
}

func (s *spare) MakeRoom() bool {
	if len(s.left) == 0 {
		return false
	}
	s.m.Forget(0, s.left[0])
	s.left = s.left[1:]
	return true
}

// strange adds a stranger with a half-open session, as its Hello does. It reports whether there was
// a place.
func strange(m *Module, nic uint64) bool {
	e := m.stranger(nic, address(int(nic)))
	if e != nil {
		m.pend(m.newSession(0, e, e.addr))
	}
	return e != nil
}

func TestStrangersFillAPartOfTheTableAndTheOldestGivesWay(t *testing.T) { // limits.StrangerShare
	const places = 4 * limits.StrangerShare
	_, a, _, _ := joined(t, func(c *Config) { c.MaxPeers = places })
	for nic := uint64(100); nic < 200; nic++ {
		if !strange(a.m, nic) {
			t.Fatalf("stranger %d finds no place", nic)
		}
	}
	if n := len(a.m.strangers); n != places/limits.StrangerShare {
		t.Errorf("%d strangers have a place", n)
	}
	if a.m.strangers[199] == nil || a.m.strangers[100] != nil {
		t.Error("the newest stranger has given way, not the oldest")
	}
	for nic := uint64(3); nic <= places; nic++ { // the peer that a has is the first
		if _, err := a.m.Open(nic, address(int(nic))); err != nil {
			t.Fatalf("NIC %d, which the owner opens: %v", nic, err)
		}
	}
	if len(a.m.endpoints)+len(a.m.strangers) > places {
		t.Errorf("%d peers and %d strangers have %d places", len(a.m.endpoints), len(a.m.strangers), places)
	}
}

func TestANewcomerGetsThePlaceOfAPeerThatTheOwnerCanSpare(t *testing.T) {
	_, a, _, _ := joined(t, func(c *Config) { c.MaxPeers = 4 })
	var idle []*Endpoint
	for nic := uint64(3); nic <= 5; nic++ {
		e, err := a.m.Open(nic, address(int(nic)))
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, e)
	}
	if strange(a.m, 9) {
		t.Fatal("a stranger has a place in a full table: this test shows nothing")
	}
	a.m.handler = &spare{Handler: a.m.handler, m: a.m, left: idle[:1]}
	if !strange(a.m, 9) || a.m.Endpoint(3) != nil {
		t.Errorf("the newcomer has no place, or the peer to spare has kept its own: %v", a.m.Endpoint(3))
	}
	if !strange(a.m, 10) || a.m.strangers[9] != nil {
		t.Error("the next newcomer does not get the place of the oldest stranger")
	}
}
