package daemon

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
)

// state is what a daemon keeps from one life to the next, in a directory of its own:
//
//	lock         held while the daemon lives: two lives of one NIC at a time would deny each other
//	nic.key      its X25519 key, made at the first start; mode 0600
//	incarnation  the number of its latest life
type state struct {
	dir  string
	lock *os.File
}

// openState takes the directory, and makes it if need be.
func openState(dir string) (*state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := ctl.CheckState(dir); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	lock, err := ctl.LockFile(filepath.Join(dir, "lock"))
	switch {
	case errors.Is(err, ctl.ErrLocked):
		return nil, fmt.Errorf("state directory %s is another daemon's: %w; choose one with --state-dir", dir, err)
	case err != nil:
		return nil, fmt.Errorf("lock of the state directory: %w", err)
	}
	return &state{dir, lock}, nil
}

func (s *state) close() error { return s.lock.Close() }

// id returns the NIC's id: the one that the configuration sets, or one derived from the key, so that it stays the same
// as long as the key does and is no other NIC's.
func (s *state) id(set registry.NICID) (registry.NICID, error) {
	key, err := s.key()
	if err != nil {
		return 0, err
	}
	if set != 0 {
		return set, nil
	}
	sum := sha256.Sum256(key.PublicKey().Bytes())
	id := registry.NICID(binary.BigEndian.Uint64(sum[:]))
	if id == 0 { // one key in 2^64 needs another octet of its hash
		id = registry.NICID(sum[8]) + 1
	}
	return id, nil
}

// key reads the key, or makes it.
func (s *state) key() (*ecdh.PrivateKey, error) {
	path := filepath.Join(s.dir, "nic.key")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("key: %s has mode %#o, so that others can read it; expected 0600", path, st.Mode().Perm())
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("key: %s is not a PEM private key", path)
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key: %s: %w", path, err)
	}
	key, ok := k.(*ecdh.PrivateKey)
	if !ok || key.Curve() != ecdh.X25519() {
		return nil, fmt.Errorf("key: %s is not an X25519 key", path)
	}
	return key, nil
}

func makeKey(path string) (*ecdh.PrivateKey, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if err := replaceFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return key, nil
}

// nextIncarnation begins a new life. Its number is larger than that of every earlier one, also when the clock went back
// or the directory was lost: the time in nanoseconds, or the stored number plus one if that is more.
func (s *state) nextIncarnation(now time.Time) (uint64, error) {
	path := filepath.Join(s.dir, "incarnation")
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("incarnation: %w", err)
	}
	var last uint64
	if err == nil {
		if last, err = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err != nil {
			return 0, fmt.Errorf("incarnation: %s holds %.40q; expected a number", path, b)
		}
	}
	next := max(last+1, uint64(now.UnixNano()))
	if err := replaceFile(path, []byte(strconv.FormatUint(next, 10)+"\n")); err != nil {
		return 0, fmt.Errorf("incarnation: %w", err)
	}
	return next, nil
}

// replaceFile writes a file whole or not at all: also when the host dies meanwhile, there is the old or the new one.
func replaceFile(path string, b []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
