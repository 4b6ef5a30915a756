package capture

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// Check returns an error if a size in the configuration is invalid.
func (c *Config) Check() error {
	if c.Limit != 0 && c.Limit < limits.LeastCapture {
		return fmt.Errorf("a file of %d bytes; expected 0 or %d and more", c.Limit, limits.LeastCapture)
	}
	if c.Snap < 0 || c.Snap > limits.MaxFrame {
		return fmt.Errorf("%d bytes of each frame; expected 0 to %d", c.Snap, limits.MaxFrame)
	}
	return nil
}

// Open captures the frames that pass d in a new file. It replaces an existing file, unless
// another capture writes it. now is the engine's clock. If Open fails, d is unchanged.
func Open(d link.Driver, path string, now func() clock.Time, cfg Config) (*Driver, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("capture to %s: %w", path, err)
	}
	cfg.Clock, cfg.Base = now, time.Now().Add(-time.Duration(now()))
	f, err := create(path)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err) // err names the path
	}
	cfg.Log, cfg.Failed = about(path, cfg.Log), about(path, cfg.Failed)
	c, err := Wrap(d, f, cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("capture to %s: %w", path, err), f.Close())
	}
	return c, nil
}

// about returns a function that calls say with the name of the file before each text. It returns
// nil if say is nil.
func about(path string, say func(text string)) func(text string) {
	if say == nil {
		return nil
	}
	return func(text string) { say(fmt.Sprintf("capture to %s: %s", path, text)) }
}

// create makes and locks the file of a capture. Only the owner may read it, since it holds the
// content of messages. So it must be a new file: an existing one may have a wider mode, or
// another owner, or may still be open for reading.
func create(path string) (*os.File, error) {
	old, err := remove(path)
	if err != nil {
		return nil, err
	}
	// APPEND, since the file may become shorter.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		// Another capture that begins at the same time may hold the lock, and replaces this
		// file.
		if err = lock(f); err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	// The old file is closed only now: until the new file is locked, the lock on the old one
	// keeps other captures away.
	if old != nil {
		err = errors.Join(err, old.Close())
	}
	return f, err
}

// remove removes the file at path, and returns it with its lock. It returns nil if there is
// none.
func remove(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file, and has mode %v; expected a file, or nothing", path, info.Mode())
	}
	if err != nil {
		return nil, err
	}
	old, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err = lock(old); err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return nil, errors.Join(err, old.Close())
	}
	return old, nil
}

// lock locks a file until it is closed. It fails if another capture has the lock, or has
// replaced the file since it was opened. A file system without locks is no error.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	mine, _ := f.Stat()
	there, _ := os.Lstat(f.Name())
	if errors.Is(err, unix.EWOULDBLOCK) || !os.SameFile(mine, there) {
		return fmt.Errorf("another capture writes to %s; expected a file of its own for each", f.Name())
	}
	return nil
}
