package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// packaged returns a file of the folder packaging.
func packaged(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../packaging", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// installed skips the test if a tool is not installed, and says so.
func installed(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("the tool is not installed: %v", err)
	}
}

// The unit is verified with this test's binary in place of the installed one.
func TestSystemdAcceptsTheUnit(t *testing.T) {
	installed(t, "systemd-analyze")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := packaged(t, "systemd/weft-nic.service")
	for _, key := range []string{"\nType=notify\n", "\nWatchdogSec=", "\nExecStart=/usr/bin/weft nic ", "\nExecReload=/usr/bin/weft nic reload\n"} {
		if !strings.Contains(text, key) {
			t.Errorf("the unit lacks %q", key)
		}
	}
	verify := func(text string) (string, error) {
		path := filepath.Join(t.TempDir(), "weft-nic.service")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
		return string(out), err
	}
	text = strings.ReplaceAll(text, "/usr/bin/weft", self)
	if out, err := verify(text); err != nil || strings.Contains(out, "weft-nic.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	if out, err := verify(strings.Replace(text, "Type=notify", "Type=notifies", 1)); err == nil && !strings.Contains(out, "notifies") {
		t.Error("systemd-analyze verify finds no mistake in a wrong unit: the test shows nothing")
	}
}

func TestSystemdTmpfilesMakesTheDirectoriesOfTheDaemon(t *testing.T) {
	installed(t, "systemd-tmpfiles")
	if os.Getuid() != 0 {
		t.Skip("only root gives directories to root")
	}
	root := t.TempDir()
	conf := filepath.Join(t.TempDir(), "weft.conf")
	if err := os.WriteFile(conf, []byte(packaged(t, "systemd/weft.conf")), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-tmpfiles", "--create", "--root="+root, conf).CombinedOutput(); err != nil {
		t.Fatalf("systemd-tmpfiles: %v\n%s", err, out)
	}
	for dir, mode := range map[string]os.FileMode{"run/weft": 0o755, "var/lib/weft": 0o700} {
		if st, err := os.Stat(filepath.Join(root, dir)); err != nil || !st.IsDir() || st.Mode().Perm() != mode {
			t.Errorf("%s: %v; expected a directory of mode %v", dir, err, mode)
		}
	}
}
