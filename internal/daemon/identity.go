package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/ctl"
)

// state is what a daemon keeps from one life to the next, in its own directory:
//
//	lock         held while the daemon lives: two concurrent lives of one NIC would deny each
//	             other
//	nic.key      its static key (package fabric), made at the first start; mode 0600
//	fabric.key   the fabric key of root's daemon, unless the configuration names others
//	revocations  the newest revocation lists, unless the configuration names another file
//	incarnation  the number of its latest life
//	machines.json  the parallel machines that users have made
//	links/NAME   for each link but the first: its lock, nic.key and incarnation
type state struct {
	dir  string
	lock *os.File
}

// openState locks the directory, and makes it if need be.
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

// nextIncarnation begins a new life. Its number is larger than that of every earlier life, even
// if the clock went back or the directory was lost. It is the time in nanoseconds, or the stored
// number plus one if that is larger.
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

// replaceFile writes a file whole or not at all: if the host dies meanwhile, the old or the new
// file is there.
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
