package grants_test

import (
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/fabric/grants"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/trust"
)

const (
	id   = nicid.ID(0x0102030405060708)
	line = `"1:2:3:4:5:6:7:8" = ["observe", "run=alice,bob"]`
)

func roles(t testing.TB) trust.Roles {
	t.Helper()
	r, err := trust.ParseRoles("observe", "run=alice,bob")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAGrantIsSetAndAllElseStays(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
		"empty file":      {"", "[grants]\n" + line + "\n"},
		"no table":        {"# mine\nlisten = \":7\" # odd\n\n[vni]\ncommands=4", "# mine\nlisten = \":7\" # odd\n\n[vni]\ncommands=4\n\n[grants]\n" + line + "\n"},
		"a comment alone": {"#[grants]\n", "#[grants]\n\n[grants]\n" + line + "\n"},
		"a table": {
			"a=1\n[ grants ]  # who\n\"9:9:9:9:9:9:9:9\" = [ 'admin' ]\n[vni]\n",
			"a=1\n[ grants ]  # who\n" + line + "\n\"9:9:9:9:9:9:9:9\" = [ 'admin' ]\n[vni]\n",
		},
		"a table at the end": {"[grants]", "[grants]\n" + line + "\n"},
		"another value": {
			"[grants]\n  '1:2:3:4:5:6:7:8'  =  [ \"admin\", # all\n  \"run\" ]  # note\nx = 1\n",
			"[grants]\n  '1:2:3:4:5:6:7:8'  =  [\"observe\", \"run=alice,bob\"]  # note\nx = 1\n",
		},
		"an = in the key's comment": {
			"# = =\n[grants]\n\"1:2:3:4:5:6:7:8\"=[]\n",
			"# = =\n[grants]\n\"1:2:3:4:5:6:7:8\"=[\"observe\", \"run=alice,bob\"]\n",
		},
		"a dotted key": {
			"grants.\"1:2:3:4:5:6:7:8\" = ['admin'] # x\na = 1\n",
			"grants.\"1:2:3:4:5:6:7:8\" = [\"observe\", \"run=alice,bob\"] # x\na = 1\n",
		},
	} {
		got, err := grants.Set([]byte(c.before), id, roles(t))
		if err != nil || string(got) != c.after {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, c.after)
		}
		again, err := grants.Set(got, id, roles(t))
		if err != nil || string(again) != string(got) {
			t.Errorf("%s, set again: %v\n%s", name, err, again)
		}
	}
}

func TestAGrantIsRemovedWithItsLine(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		removed       bool
	}{
		"of two":          {"[grants]\n" + line + " # old\n\"9:9:9:9:9:9:9:9\" = ['run']\n", "[grants]\n\"9:9:9:9:9:9:9:9\" = ['run']\n", true},
		"the only one":    {"a = 1\n[grants]\n" + line, "a = 1\n[grants]\n", true},
		"on three lines":  {"[grants]\n\"1:2:3:4:5:6:7:8\" = [\n'run',\n]\n[vni]\n", "[grants]\n[vni]\n", true},
		"the only dotted": {"grants.\"1:2:3:4:5:6:7:8\" = ['run']\n", "", true},
		"of another":      {"[grants]\n\"9:9:9:9:9:9:9:9\" = ['run']\n", "[grants]\n\"9:9:9:9:9:9:9:9\" = ['run']\n", false},
		"no table":        {"a = 1\n", "a = 1\n", false},
		"other table":     {"[granted]\n" + line + "\n", "[granted]\n" + line + "\n", false},
	} {
		got, removed, err := grants.Remove([]byte(c.before), id)
		if err != nil || removed != c.removed || string(got) != c.after {
			t.Errorf("%s: %v, %v\n%s\nwant %v\n%s", name, removed, err, got, c.removed, c.after)
		}
	}
}

func TestATextThatCannotBeEditedIsRefused(t *testing.T) {
	for want, text := range map[string]string{
		"write it as a table: [grants]": "grants = { \"1:2:3:4:5:6:7:8\" = ['run'] }\n",
		"line 2: expected ']'":          "a = 1\n[grants\n",
		"line 2: ":                      "a = 1\na = 2\n",
		"edit [grants] by hand":         "[[grants]]\nx = 1\n",
	} {
		if got, err := grants.Set([]byte(text), id, roles(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func FuzzSet(f *testing.F) {
	f.Add("[grants]\n" + line + "\n")
	f.Add("a.b = 1\n[[node]]\naddress='x'\n[grants] # x\n'9:9:9:9:9:9:9:9' = [\n'run', # =\n]\n")
	f.Add("grants.\"1:2:3:4:5:6:7:8\" = ['run']\n")
	r, err := trust.ParseRoles("observe", "run=alice,bob")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		edited, err := grants.Set([]byte(text), id, r) // Set checks its own result: it must not panic
		if err != nil {
			return
		}
		if again, err := grants.Set(edited, id, r); err != nil || string(again) != string(edited) {
			t.Errorf("%q, set again: %q, %v", edited, again, err)
		}
		if _, removed, err := grants.Remove(edited, id); err != nil || !removed {
			t.Errorf("%q: removed %v, %v", edited, removed, err)
		}
	})
}
