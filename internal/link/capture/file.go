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

// Check says what is wrong with the sizes of a configuration.
func (c *Config) Check() error {
	if c.Limit != 0 && c.Limit < limits.LeastCapture {
		return fmt.Errorf("a file of %d bytes; expected 0 or %d and more", c.Limit, limits.LeastCapture)
	}
	if c.Snap < 0 || c.Snap > limits.MaxFrame {
		return fmt.Errorf("%d bytes of each frame; expected 0 to %d", c.Snap, limits.MaxFrame)
	}
	return nil
}

// Open captures what passes d in a new file, in place of one that exists there and that no other capture is writing. now is the engine's clock. On an error d is as it was.
func Open(d link.Driver, path string, now func() clock.Time, cfg Config) (*Driver, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("capture to %s: %w", path, err)
	}
	cfg.Clock, cfg.Base = now, time.Now().Add(-time.Duration(now()))
	f, err := create(path)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err) // which names the path
	}
	cfg.Log, cfg.Failed = about(path, cfg.Log), about(path, cfg.Failed)
	c, err := Wrap(d, f, cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("capture to %s: %w", path, err), f.Close())
	}
	return c, nil
}

// about returns say with the name of the file before each text; nil if say is nil.
func about(path string, say func(text string)) func(text string) {
	if say == nil {
		return nil
	}
	return func(text string) { say(fmt.Sprintf("capture to %s: %s", path, text)) }
}

// create makes the file of a capture, and locks it. The file is for its owner alone, since it holds what messages say. So it is a new one: what is
// there may have a wider mode, or another owner, or may be open for reading since it had.
func create(path string) (*os.File, error) {
	old, err := remove(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600) // APPEND: it may become shorter
	if err == nil {
		if err = lock(f); err != nil { // by a capture that begins at the same time, and replaces this file
			err = errors.Join(err, f.Close())
		}
	}
	if old != nil { // only now: until there is a lock on the new file, that on the old one keeps others away
		err = errors.Join(err, old.Close())
	}
	return f, err
}

// remove removes the file at path, and returns it with its lock. It is nil if there is none.
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

// lock locks a file for as long as it is open, unless it is another capture's: that has the lock, or has replaced the file since this one was
// opened. A file system may have no locks, which is no reason not to capture there.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	mine, _ := f.Stat()
	there, _ := os.Lstat(f.Name())
	if errors.Is(err, unix.EWOULDBLOCK) || !os.SameFile(mine, there) {
		return fmt.Errorf("another capture writes to %s; expected a file of its own for each", f.Name())
	}
	return nil
}
