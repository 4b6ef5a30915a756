package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	weftlib "github.com/weftnet/weft"
)

// sealedCapture returns the capture of a NIC that has sent a secret over a sealed link.
func sealedCapture(t *testing.T, secret string, keys bool) string {
	t.Helper()
	dir := t.TempDir()
	fabric, file := filepath.Join(dir, "fabric.key"), filepath.Join(dir, "nic.pcapng")
	if status, _, stderr := weft("fabric", "init", "--file", fabric); status != 0 {
		t.Fatal(stderr)
	}
	open := func(c weftlib.Config) *weftlib.Process {
		c.Fabric = fabric
		p, err := weftlib.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	a := open(weftlib.Config{Name: weftlib.Name{App: "a"}, Capture: &weftlib.Capture{File: file, Secrets: keys}})
	b := open(weftlib.Config{Name: weftlib.Name{App: "b"}, Nodes: []weftlib.Node{{ID: a.NIC().ID(), Addr: a.NIC().Addr()}}})
	if _, err := a.WaitName(t.Context(), b.Name()); err != nil {
		t.Fatal(err)
	}
	if err := a.Send(t.Context(), b.Name(), 1, []byte(secret)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Recv(t.Context(), a.Name(), 1, make([]byte, len(secret))); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCaptureDecryptMakesAPrivateCopyThatShowsTheMessages(t *testing.T) {
	const secret = "what the frames of a sealed link hide"
	in := sealedCapture(t, secret, true)
	before, err := os.ReadFile(in)
	if err != nil || bytes.Contains(before, []byte(secret)) {
		t.Fatalf("the capture shows the message; %v", err)
	}
	out := filepath.Join(t.TempDir(), "plain.pcapng")
	status, stdout, stderr := weft("capture", "decrypt", in, out)
	if status != 0 || stderr != "" || !strings.HasPrefix(stdout, out+": ") || !strings.Contains(stdout, " 0 sealed frames without a key, unchanged\n") {
		t.Fatalf("status %d: %q, %q", status, stdout, stderr)
	}
	plain, err := os.ReadFile(out)
	if err != nil || !bytes.Contains(plain, []byte(secret)) {
		t.Errorf("the copy does not show the message; %v", err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode() != 0o600 {
		t.Errorf("the copy has mode %v; %v", info.Mode(), err)
	}
	if after, err := os.ReadFile(in); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the capture has changed; %v", err)
	}

	if err := os.WriteFile(in, before[:len(before)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, stderr = weft("capture", "decrypt", in, filepath.Join(t.TempDir(), "torn"))
	if status != 0 || !strings.Contains(stderr, "ends within a block") {
		t.Errorf("a torn file: status %d, %q", status, stderr)
	}
}

func TestCaptureDecryptRefusesFilesAndLeavesNothingBehind(t *testing.T) {
	in, dir := sealedCapture(t, "x", false), t.TempDir()
	link, text := filepath.Join(dir, "link"), filepath.Join(dir, "text")
	if err := os.Symlink(in, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text, []byte("no capture, but some text"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	for _, c := range []struct {
		in, out, want string
		status        int
	}{
		{in, out, in + ": the file holds no keys; expected a capture that was made with secrets (weft nic --capture-secrets)", exitFailed},
		{in, in, in + " exists; expected the name of a new file", exitFailed},
		{in, link, link + " exists; expected the name of a new file", exitFailed},
		{text, out, text + ": not a capture: it begins with", exitFailed},
		{dir, out, dir + " is no regular file", exitFailed},
		{filepath.Join(dir, "none"), out, "no such file", exitFailed},
		{in, filepath.Join(dir, "no", "out"), "no such file", exitFailed},
	} {
		status, stdout, stderr := weft("capture", "decrypt", c.in, c.out)
		if status != c.status || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("decrypt %s %s: status %d, %q, %q; want %q", c.in, c.out, status, stdout, stderr, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("decrypt %s %s leaves %s behind", c.in, c.out, out)
		}
	}
	if status, _, stderr := weft("capture", "decrypt", in); status != exitUsage || !strings.Contains(stderr, "weft capture decrypt IN OUT") {
		t.Errorf("one argument: status %d, %q", status, stderr)
	}
}
