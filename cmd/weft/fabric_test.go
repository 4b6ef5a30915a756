package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/trust"
)

// weftOn runs one command line with a standard input.
func weftOn(input string, args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = runOn(context.Background(), args, strings.NewReader(input), &out, &err)
	return status, out.String(), err.String()
}

// prints runs a command line that has to succeed, and returns what it prints without the last
// newline.
func prints(t *testing.T, input string, args ...string) string {
	t.Helper()
	status, out, stderr := weftOn(input, args...)
	if status != 0 {
		t.Fatalf("weft %s: status %d, %s", strings.Join(args, " "), status, stderr)
	}
	return strings.TrimSuffix(out, "\n")
}

func TestTwoHostsJoinOneFabric(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "weft", "a.key"), filepath.Join(t.TempDir(), "weft", "b.key")
	out := prints(t, "", "fabric", "init", "--file", a)
	join := prints(t, "", "fabric", "show", "--file", a)
	fingerprint := prints(t, "", "fabric", "show", "--file", a, "--fingerprint")
	if !strings.HasPrefix(join, "weft1-") || strings.Contains(join, "\n") || out != a+": new fabric key "+fingerprint {
		t.Errorf("init prints %q, show %q", out, join)
	}
	if out := prints(t, join+"\n", "fabric", "join", "--file", b); out != b+": joined fabric "+fingerprint {
		t.Errorf("join prints %q", out)
	}
	if out := prints(t, join, "fabric", "join", "--file", b); out != b+": had fabric "+fingerprint+" already" {
		t.Errorf("join prints %q the second time", out)
	}
	if got := prints(t, "", "fabric", "show", "--file", b); got != join {
		t.Error("the hosts have different keys")
	}
	t.Setenv(fabric.FileVariable, b)
	if got := prints(t, "", "fabric", "show"); got != join {
		t.Error("$WEFT_FABRIC_FILE does not count")
	}
}

func TestJoinKeepsAnotherKeyAndTakesNoArgument(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a.key"), filepath.Join(t.TempDir(), "b.key")
	prints(t, "", "fabric", "init", "--file", a)
	prints(t, "", "fabric", "init", "--file", b)
	join := prints(t, "", "fabric", "show", "--file", a)
	for _, c := range []struct {
		input  string
		args   []string
		status int
		want   string
	}{
		{join, []string{"--file", b}, exitFailed, "there is a key already, "},
		{join, []string{"--file", b, join}, exitUsage, "join takes no arguments: the shell's history"},
		{"", []string{"--file", b}, exitFailed, "standard input: fabric key: not in the expected form: the text is empty"},
		{join[:20], []string{"--file", b}, exitFailed, "standard input: fabric key: truncated"},
		{join + "\n" + join, []string{"--file", b}, exitFailed, "standard input: fabric key: altered"},
	} {
		status, out, stderr := weftOn(c.input, append([]string{"fabric", "join"}, c.args...)...)
		if status != c.status || !strings.Contains(stderr, c.want) || strings.Contains(out+stderr, join[8:]) {
			t.Errorf("%q: status %d, %s; want %d, %q", c.args[1:], status, stderr, c.status, c.want)
		}
	}
	if prints(t, join, "fabric", "join", "--file", b, "--replace"); prints(t, "", "fabric", "show", "--file", b) != join {
		t.Error("--replace does not replace")
	}
	if status, _, stderr := weftOn("", "fabric", "init", "--file", a); status != exitFailed || !strings.Contains(stderr, "weft fabric rotate") {
		t.Errorf("init over a key: %d, %s", status, stderr)
	}
}

func TestRotateTellsEachStepAndItsFilesLoad(t *testing.T) {
	old := filepath.Join(t.TempDir(), "fabric.key")
	prints(t, "", "fabric", "init", "--file", old)
	out := prints(t, "", "fabric", "rotate", "--file", old)
	for _, want := range []string{
		`key_files = ["` + old + `", "` + old + `.new"]`,
		`key_files = ["` + old + `.new", "` + old + `"]`,
		"mv " + old + ".new " + old,
		"weft fabric show --file " + old + ".new | ssh HOST weft fabric join --file " + old + ".new",
		prints(t, "", "fabric", "show", "--file", old+".new", "--fingerprint"),
	} {
		if !strings.Contains(out, want) {
			t.Errorf("rotate does not tell %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "weft1-") {
		t.Error("rotate prints a secret")
	}
	if keys, err := fabric.LoadFiles([]string{old + ".new", old}); err != nil || len(keys) != 2 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}

func TestTheKeyOfANICIsPrintedWithItsID(t *testing.T) {
	dir := t.TempDir()
	out := prints(t, "", "fabric", "key", "--state-dir", dir)
	text, id, _ := strings.Cut(out, " ")
	k, err := trust.ParsePublicKey(text)
	if err != nil || k.ID().String() != id {
		t.Errorf("%q, %v", out, err)
	}
	if again := prints(t, "", "fabric", "key", "--file", filepath.Join(dir, "nic.key")); again != out {
		t.Errorf("%q and %q", out, again)
	}
	if status, _, stderr := weftOn("", "fabric", "key", "--file", "x", "--state-dir", "y"); status != exitUsage {
		t.Errorf("two places: %d, %s", status, stderr)
	}
}

func TestACertificateIsSignedShownAndRevoked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	ca := func(args ...string) string {
		t.Helper()
		return prints(t, "", append([]string{"fabric", "ca", "--dir", dir}, args...)...)
	}
	public, err := trust.ParseCAPublic(ca("init"))
	if err != nil {
		t.Fatal(err)
	}
	key, _, _ := strings.Cut(prints(t, "", "fabric", "key", "--state-dir", t.TempDir()), " ")
	c, err := trust.CertificateFromText(ca("sign", key, "--id", "1:2:3:4:5:6:7:8", "--role", "observe", "--role", "run=alice,bob",
		"--app", "app*,db", "--not-before", "2126-01-31", "--days", "2"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Verify([]trust.CAPublic{public}); err != nil || c.NIC.String() != "1:2:3:4:5:6:7:8" || c.Key.String() != key ||
		c.Roles.String() != "observe run=alice,bob" || strings.Join(c.Applications, " ") != "app* db" ||
		utc(c.NotBefore) != "2126-01-31 00:00:00 UTC" || utc(c.NotAfter) != "2126-02-02 00:00:00 UTC" {
		t.Errorf("%+v, %v", c, err)
	}
	plain, err := trust.CertificateFromText(ca("sign", key))
	if err != nil || plain.NIC != plain.Key.ID() || plain.Roles.Set != 0 || plain.Applications[0] != "*" {
		t.Errorf("%+v, %v", plain, err)
	}
	list, err := trust.RevocationListFromText(ca("revoke", "1:2:3:4:5:6:7:8", key))
	if err != nil || len(list.Serials) != 1 || list.Serials[0] != c.Serial || len(list.Keys) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if ca("show", "--public") != public.String() || ca("show", "--revoked") != list.Text() {
		t.Error("show prints another key or another list")
	}
	states := map[string]string{}
	for line := range strings.Lines(ca("show", "--json")) {
		var row shownCertificate
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		states[row.Serial] = row.State
	}
	if len(states) != 2 || states[trust.SerialText(c.Serial)] != "revoked" || states[trust.SerialText(plain.Serial)] != "revoked" {
		t.Errorf("states %v", states)
	}
	if table := ca("show"); !strings.Contains(table, "run=alice,bob") || !strings.Contains(table, "1 serial numbers, 1 keys") {
		t.Errorf("show prints\n%s", table)
	}
}

func TestWrongUsesOfTheAuthorityAreNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	prints(t, "", "fabric", "ca", "init", "--dir", dir)
	key, _, _ := strings.Cut(prints(t, "", "fabric", "key", "--state-dir", t.TempDir()), " ")
	for want, c := range map[string]struct {
		status int
		args   []string
	}{
		"public key: truncated":                   {exitUsage, []string{"sign", key[:30]}},
		`--role: unknown role "root"`:             {exitUsage, []string{"sign", key, "--role", "root"}},
		`--app: pattern "A"`:                      {exitUsage, []string{"sign", key, "--app", "A"}},
		`--id: NIC id "7"`:                        {exitUsage, []string{"sign", key, "--id", "7"}},
		`--not-before: "soon": expected a time`:   {exitUsage, []string{"sign", key, "--not-before", "soon"}},
		"expected a whole number from 1 to 36500": {exitUsage, []string{"sign", key, "--days", "0"}},
		`"x": expected a serial number of 16`:     {exitUsage, []string{"revoke", "x"}},
		"has signed no certificate for NIC 9:9":   {exitFailed, []string{"revoke", "9:9:9:9:9:9:9:9"}},
		"nothing was revoked":                     {exitFailed, []string{"show", "--revoked"}},
		"has a certificate authority already":     {exitFailed, []string{"init"}},
		"--public and --revoked: expected one":    {exitUsage, []string{"show", "--public", "--revoked"}},
	} {
		status, _, stderr := weftOn("", append([]string{"fabric", "ca", "--dir", dir}, c.args...)...)
		if status != c.status || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %s; want %d, %q", c.args, status, stderr, c.status, want)
		}
	}
	if status, _, stderr := weftOn("", "fabric", "ca", "sign", key, "--dir", t.TempDir()); status != exitFailed || !strings.Contains(stderr, "weft fabric ca init") {
		t.Errorf("no authority: %d, %s", status, stderr)
	}
}

func TestAGrantIsWrittenIntoAConfigurationAndTakenOut(t *testing.T) {
	config := filepath.Join(t.TempDir(), "nic.toml")
	const before = "# mine\nlisten = \":7\"\n"
	if err := os.WriteFile(config, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	const line = `"1:2:3:4:5:6:7:8" = ["observe", "run=alice,bob"]`
	if out := prints(t, "", "fabric", "grant", "1:2:3:4:5:6:7:8", "run=bob,alice", "observe", "--config", config); out != line {
		t.Errorf("prints %q", out)
	}
	text, err := os.ReadFile(config)
	if err != nil || string(text) != before+"\n[grants]\n"+line+"\n" {
		t.Errorf("%v: the file is\n%s", err, text)
	}
	prints(t, "", "fabric", "grant", "1:2:3:4:5:6:7:8", "--remove", "--config", config)
	if text, err := os.ReadFile(config); err != nil || string(text) != before+"\n[grants]\n" {
		t.Errorf("%v: the file is\n%s", err, text)
	}
	if st, err := os.Stat(config); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", st, err)
	}
	for want, c := range map[string]struct {
		status int
		args   string
	}{
		`NIC id "x": expected eight`:          {exitUsage, "x run --config " + config},
		`unknown role "runs"`:                 {exitUsage, "1:2:3:4:5:6:7:8 runs --config " + config},
		"no role given":                       {exitUsage, "1:2:3:4:5:6:7:8 --config " + config},
		`required flag(s) "config" not set`:   {exitUsage, "1:2:3:4:5:6:7:8 run"},
		"--remove removes the whole grant":    {exitUsage, "1:2:3:4:5:6:7:8 run --remove --config " + config},
		"there is no grant to NIC 1:2:3":      {exitFailed, "1:2:3:4:5:6:7:8 --remove --config " + config},
		"weft nic --sample prints a template": {exitFailed, "1:2:3:4:5:6:7:8 run --config " + config + ".none"},
	} {
		status, _, stderr := weftOn("", append([]string{"fabric", "grant"}, strings.Fields(c.args)...)...)
		if status != c.status || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %s; want %d, %q", c.args, status, stderr, c.status, want)
		}
	}
}
