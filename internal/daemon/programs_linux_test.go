package daemon_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/secure"
)

// The configuration of a NIC says which local users may change its programs. It does not apply to
// a request of another NIC: that NIC needs the role program for its user.
func TestEachNICGoesByItsOwnProgramUIDs(t *testing.T) { // PANIC-22
	dir := dirForAll(t)
	c := configs(t, 2)
	for i := range c {
		c[i].Socket, c[i].AllowUIDs = filepath.Join(dir, fmt.Sprintf("%d.sock", i)), []int{outsiderUID}
	}
	c[1].ProgramUIDs = []int{outsiderUID}
	granting(t, c)
	c[0].Grants[staticKey(t, c[1]).Public().ID().String()] = []string{"program=" + secure.UserName(outsiderUID)}
	run(t, c...)
	var nics [2]uint64
	for i := range c {
		p := mustAttach(t, c[i], fmt.Sprintf("a/%d", i))
		nics[i] = uint64(p.Address().NIC)
		// the daemons know each other
		if _, err := p.WaitName(t.Context(), mustAttach(t, c[1-i], fmt.Sprintf("b/%d", i)).Name()); err != nil {
			t.Fatal(err)
		}
	}
	for _, load := range []struct {
		by  int    // whose daemon is asked
		nic uint64 // 0: its own
		may bool
	}{{0, 0, false}, {1, 0, true}, {0, nics[1], false}, {1, nics[0], true}} {
		out := outsiderSays(t, fmt.Sprintf("loader=%d at %s", load.nic, c[load.by].Socket))
		if load.may && out != "ready\n" || !load.may && !strings.Contains(out, "may neither change programs of NIC") {
			t.Errorf("by daemon %d into NIC %d: %q; it may: %v", load.by, load.nic, out, load.may)
		}
	}
}
