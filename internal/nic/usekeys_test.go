package nic

import (
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
)

func TestKeysThatCannotBeUsedAreRefusedAndTheOthersStay(t *testing.T) {
	f := strangers(t, sealedNIC(nil), sealedNIC(nil))
	other := trust.FabricKey{9, 8, 7, 6, 5, 4, 3, 2, 1}
	a := f.engines[0]
	for _, c := range []struct {
		keys        []trust.FabricKey
		certificate int
		says        string
	}{
		{nil, 0, "0 keys"},
		{[]trust.FabricKey{other, other}, 0, "are the same"},
		{[]trust.FabricKey{other}, 1400, "sign a shorter certificate"},
	} {
		if err := a.UseKeys(f.now, c.keys, make([]byte, c.certificate)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d keys and %d bytes of a certificate: %v; expected %q", len(c.keys), c.certificate, err, c.says)
		}
	}
	f.runFor(time.Second)
	if !f.up() {
		t.Error("the NICs have no session by the key that they had")
	}
}

func TestKeysThatTwoNICsGetWhileTheyRunOpenTheirNextSession(t *testing.T) {
	other := trust.FabricKey{9, 8, 7, 6, 5, 4, 3, 2, 1}
	f := strangers(t, sealedNIC(func(s *rel.Security, _ *trust.PolicyConfig) { s.Fabric = []trust.FabricKey{other} }), sealedNIC(nil))
	f.runFor(time.Second)
	if f.up() {
		t.Fatal("NICs with different keys have a session")
	}
	if err := f.engines[1].UseKeys(f.now, []trust.FabricKey{other}, nil); err != nil {
		t.Fatal(err)
	}
	f.runFor(10 * time.Second)
	if !f.up() {
		t.Error("NICs with the same key have no session")
	}
}

func TestASessionEndsWhenTheConfigurationBindsItsIDToAnotherKey(t *testing.T) {
	f := strangers(t, sealedNIC(nil), sealedNIC(nil))
	f.runFor(time.Second)
	if !f.up() {
		t.Fatal("no session")
	}
	bound := func(key trust.PublicKey) map[nicid.ID]trust.PublicKey {
		return map[nicid.ID]trust.PublicKey{1: testKey(1).Public(), 2: key}
	}
	roles, err := trust.ParseRoles("observe")
	if err != nil {
		t.Fatal(err)
	}
	a := f.engines[0]
	if err := a.Retrust(bound(testKey(2).Public()), map[nicid.ID]trust.Roles{2: roles}); err != nil {
		t.Fatal(err)
	}
	f.runFor(time.Second)
	if !f.up() || !a.Allows(2, trust.Observe, "") {
		t.Error("a grant ends the session, or has no effect")
	}
	if err := a.Retrust(bound(testKey(3).Public()), nil); err != nil {
		t.Fatal(err)
	}
	f.runFor(time.Second)
	if f.up() || a.Count(vni.RelUpSessions) != 1 {
		t.Errorf("the session stays, or another has begun: %d so far", a.Count(vni.RelUpSessions))
	}
}
