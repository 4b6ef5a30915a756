package gossip

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const secret = "a fabric key that is long enough for tests"

func TestTheKeyIsDerivedByHKDF(t *testing.T) { // RFC 5869, written out for one block of output
	k, err := DeriveKey([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	extract := hmac.New(sha256.New, make([]byte, sha256.Size))
	extract.Write([]byte(secret))
	expand := hmac.New(sha256.New, extract.Sum(nil))
	expand.Write([]byte(purpose + "\x01"))
	if want := Key(expand.Sum(nil)); k != want {
		t.Errorf("key %x, want %x", k, want)
	}
	if same, err := DeriveKey([]byte("\n " + secret + "\r\n")); err != nil || same != k {
		t.Errorf("with white space around it, the key is %x, %v", same, err)
	}
	if other, err := DeriveKey([]byte(secret + "!")); err != nil || other == k {
		t.Errorf("another fabric key gives %x, %v", other, err)
	}
}

func TestBadFabricKeysAreRefusedWithTheReason(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if _, err := LoadKey(write("good", secret+"\n", 0o600)); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"):         "no such file",
		dir:                                "is not a file",
		write("open", secret, 0o644):       "mode 0644, so that others can read it; expected 0600",
		write("empty", "", 0o600):          "0 bytes; expected at least 32, such as `openssl rand -base64 32` prints, in " + dir,
		write("short", "password", 0o600):  "8 bytes; expected at least 32",
		write("blank", " \n\t\n\n", 0o600): "0 bytes",
		write("spaces", strings.Repeat(" ", 30)+"abc", 0o600): "3 bytes",
	} {
		if _, err := LoadKey(path); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
}
