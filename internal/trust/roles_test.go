package trust_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/trust"
)

func TestRolesAreWrittenAsTheyAreRead(t *testing.T) {
	for _, c := range []struct {
		given []string
		want  string
	}{
		{nil, "none"},
		{[]string{"observe"}, "observe"},
		{[]string{"admin", "run", "program", "observe"}, "observe program run admin"},
		{[]string{"run=bob,alice,bob"}, "run=alice,bob"},
		{[]string{"program=root", "run=x.y_z-1@site+2"}, "program=root run=x.y_z-1@site+2"},
	} {
		r, err := trust.ParseRoles(c.given...)
		if err != nil || r.String() != c.want {
			t.Errorf("%q: %q, %v; want %q", c.given, r, err, c.want)
		}
		again, err := trust.ParseRoles(r.Strings()...)
		if err != nil || again.String() != r.String() {
			t.Errorf("%q is read again as %q, %v", r.Strings(), again, err)
		}
	}
}

func TestBadRolesAreRefusedInWords(t *testing.T) {
	var many []string
	for i := range 256 {
		many = append(many, fmt.Sprint("u", i))
	}
	for want, given := range map[string][]string{
		`unknown role "prgram": expected observe, program, run or admin`: {"prgram"},
		`unknown role ""`:                           {""},
		"role run occurs twice":                     {"run=a", "run=b"},
		`role "observe=a": observe takes no users`:  {"observe=a"},
		`role "admin=": admin takes no users`:       {"admin="},
		`role "run=": user "": expected 1 to 64`:    {"run="},
		`role "run=a,,b": user ""`:                  {"run=a,,b"},
		`user " b": expected`:                       {"run=a, b"},
		`user "-x": expected`:                       {"program=-x"},
		`user "a/b": expected`:                      {"program=a/b"},
		"lists 256 users; expected at most 255":     {"run=" + strings.Join(many, ",")},
		`expected 1 to 64 bytes of A-Z, a-z, 0-9, `: {"run=" + strings.Repeat("x", 65)},
	} {
		if r, err := trust.ParseRoles(given...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, %v; want %q", given, r, err, want)
		}
	}
}

func TestARoleCoversItsUsersAndRootOnlyIfListed(t *testing.T) {
	open, listed, withRoot := roles(t, "run", "observe"), roles(t, "run=alice", "program"), roles(t, "program=root,alice", "run=bob")
	for _, c := range []struct {
		roles trust.Roles
		role  trust.Role
		user  string
		want  bool
	}{
		{open, trust.Run, "alice", true},
		{open, trust.Run, "root", false},
		{open, trust.Run, "", false},
		{open, trust.Observe, "", true},
		{open, trust.Observe, "root", true},
		{open, trust.Program, "alice", false},
		{open, trust.Admin, "", false},
		{open, 0, "alice", false},
		{listed, trust.Run, "alice", true},
		{listed, trust.Run, "bob", false},
		{listed, trust.Run, "root", false},
		{listed, trust.Program, "bob", true},
		{listed, trust.Program | trust.Run, "alice", true},
		{listed, trust.Program | trust.Run, "bob", false},
		{withRoot, trust.Program, "root", true},
		{withRoot, trust.Run, "root", false},
		{trust.Roles{}, trust.Observe, "", false},
	} {
		if got := c.roles.Allow(c.role, c.user); got != c.want {
			t.Errorf("%v allows %v for %q: %v; want %v", c.roles, c.role, c.user, got, c.want)
		}
	}
}

func TestASetOfRolesIsPrinted(t *testing.T) {
	got := []string{trust.Role(0).String(), trust.Run.String(), trust.AllRoles.String()}
	if want := []string{"none", "run", "observe,program,run,admin"}; !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
}
