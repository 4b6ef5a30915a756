package fabric

import (
	"bytes"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weftnet/weft/internal/trust"
)

// StaticKeyName is the name of a daemon's static key in its state directory.
const StaticKeyName = "nic.key"

// StaticKey returns the static key in a daemon's state directory. It creates the key on first
// use.
func StaticKey(dir string) (trust.PrivateKey, error) {
	return StaticKeyFile(filepath.Join(dir, StaticKeyName))
}

// StaticKeyFile returns the static key in the file at path. If there is no file, it creates one;
// concurrent callers agree. It also reads a file of the older form, an X25519 key in PEM.
func StaticKeyFile(path string) (trust.PrivateKey, error) {
	text, err := ReadSecret(path, "static key")
	if errors.Is(err, fs.ErrNotExist) {
		k, err := trust.NewPrivateKey(rand.Reader)
		if err != nil {
			return k, err
		}
		if _, err := CreateOnce(path, k.Text()); err != nil {
			return trust.PrivateKey{}, fmt.Errorf("make a static key: %w; name a directory where user %d may write",
				err, os.Geteuid())
		}
		text, err = ReadSecret(path, "static key")
		if err != nil {
			return trust.PrivateKey{}, err
		}
		return parseStaticKey(path, text)
	}
	if err != nil {
		return trust.PrivateKey{}, err
	}
	return parseStaticKey(path, text)
}

func parseStaticKey(path, text string) (k trust.PrivateKey, err error) {
	if strings.HasPrefix(text, "-----BEGIN") {
		k, err = parsePEM(text)
	} else {
		k, err = trust.ParsePrivateKey(text)
	}
	if err != nil {
		return trust.PrivateKey{}, fmt.Errorf("%s: %w; or remove the file: the NIC draws a new key at its start, "+
			"and has another id", path, err)
	}
	return k, nil
}

// pkcs8 precedes the 32 bytes of an X25519 key in PKCS #8 (RFC 8410).
var pkcs8 = []byte{0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20}

func parsePEM(text string) (trust.PrivateKey, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PRIVATE KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return trust.PrivateKey{}, fmt.Errorf("static key: %w: expected one PEM block PRIVATE KEY", trust.ErrNotAKey)
	}
	b, ok := bytes.CutPrefix(block.Bytes, pkcs8)
	if !ok || len(b) != trust.KeyLen {
		return trust.PrivateKey{}, fmt.Errorf("static key: %w: the PEM block holds no X25519 key", trust.ErrNotAKey)
	}
	k := trust.PrivateKey(b)
	return k, k.Check()
}

// StateDir returns the state directory of the caller's daemon at its default socket.
func StateDir() (string, error) {
	if os.Geteuid() == 0 {
		return rootsState, nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "weft"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("the user has no state directory: %w; name one", err)
	}
	return filepath.Join(home, ".local", "state", "weft"), nil
}
