//go:build unix

package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/limits"
)

// ErrUnsafe is the error of a cache directory that other users could change.
var ErrUnsafe = errors.New("other users could change the directory of staged files")

// The directories of a cache.
const (
	entriesDir = "entries"
	draftsDir  = "drafts"
	jobsDir    = "jobs"
	lockName   = "lock"
)

// writableByOthers are the permission bits that let users other than the owner change a
// directory.
const writableByOthers fs.FileMode = 0o022

// Cache is the Store of one user on one host: a directory of files, each named by its hash. Several
// processes may use one directory, also from several hosts.
type Cache struct {
	root  *os.Root
	path  string
	bound int64 // bytes of entries
}

// DefaultDir returns the directory of the calling user's cache: weft/stage in $XDG_CACHE_HOME, in
// ~/.cache, or, if the user has no home, weft-stage-UID in the directory of temporary files.
func DefaultDir() string {
	if d := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "weft", "stage")
	}
	home := os.Getenv("HOME")
	// HOME may be another user's
	if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil {
		home = u.HomeDir
	}
	if st, err := os.Stat(home); err == nil && st.IsDir() && filepath.IsAbs(home) && home != "/" && owned(st) {
		return filepath.Join(home, ".cache", "weft", "stage")
	}
	return filepath.Join(os.TempDir(), "weft-stage-"+strconv.Itoa(os.Geteuid()))
}

// OpenCache opens the cache in a directory, which it makes if need be. It fails with [ErrUnsafe]
// if the directory is not the user's, does not have mode 0700, or is where other users could
// replace it. All files in it take at most 4 GiB together.
func OpenCache(dir string) (*Cache, error) {
	c, err := openCache(dir, limits.StagedCacheBytes)
	if err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	return c, nil
}

func openCache(dir string, bound int64) (*Cache, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	st, err := checkPlace(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	c := &Cache{root: root, path: dir, bound: bound}
	if err := c.prepare(st); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return c, nil
}

// checkPlace refuses a directory that another user owns, can change, or can replace.
func checkPlace(dir string) (fs.FileInfo, error) {
	above, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	// The sticky bit does not bind the owner.
	if uid := above.Sys().(*syscall.Stat_t).Uid; uid != 0 && !owned(above) {
		return nil, fmt.Errorf("%w: %s belongs to user %d; expected user %d or root; "+
			"set XDG_CACHE_HOME to a directory of this user",
			ErrUnsafe, filepath.Dir(dir), uid, os.Geteuid())
	}
	if above.Mode()&writableByOthers != 0 && above.Mode()&fs.ModeSticky == 0 {
		return nil, fmt.Errorf("%w: %s has mode %#o; `chmod go-w %s` mends it", ErrUnsafe, filepath.Dir(dir),
			above.Mode().Perm(), filepath.Dir(dir))
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	return st, private(dir, st)
}

// private refuses a directory that is not the user's own with mode 0700, and a link to one.
func private(dir string, st fs.FileInfo) error {
	switch {
	case !st.IsDir():
		return fmt.Errorf("%w: %s is not a directory; expected one of user %d with mode 0700; remove it, "+
			"or set XDG_CACHE_HOME",
			ErrUnsafe, dir, os.Geteuid())
	case !owned(st):
		return fmt.Errorf("%w: %s belongs to user %d; expected user %d; set XDG_CACHE_HOME to a directory of this user",
			ErrUnsafe, dir, st.Sys().(*syscall.Stat_t).Uid, os.Geteuid())
	case st.Mode().Perm() != 0o700:
		return fmt.Errorf("%w: %s has mode %#o; expected 0700; `chmod 700 %s` mends it", ErrUnsafe, dir,
			st.Mode().Perm(), dir)
	}
	return nil
}

func owned(st fs.FileInfo) bool { return int(st.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() }

// prepare makes the directories of the cache, and removes files that dead processes have left.
func (c *Cache) prepare(seen fs.FileInfo) error {
	st, err := c.root.Stat(".")
	if err != nil {
		return err
	}
	if !os.SameFile(st, seen) {
		return fmt.Errorf("%w: %s was replaced while it was opened", ErrUnsafe, c.path)
	}
	for _, name := range []string{entriesDir, draftsDir, jobsDir} {
		if err := c.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		st, err := c.root.Lstat(name)
		if err != nil {
			return err
		}
		if err := private(filepath.Join(c.path, name), st); err != nil {
			return err
		}
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return errors.Join(c.sweepDrafts(), c.sweepJobs())
}

// Close releases the cache. Contents and places that were returned stay valid.
func (c *Cache) Close() error { return c.root.Close() }

// lock waits until no other process adds or removes anything.
func (c *Cache) lock() (unlock func(), err error) {
	f, err := c.openLock(lockName)
	if err != nil {
		return nil, err
	}
	if err := flock(f, unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func (c *Cache) openLock(name string) (*os.File, error) {
	return c.root.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// sweepDrafts removes the drafts of processes that died long ago.
func (c *Cache) sweepDrafts() error {
	drafts, err := fs.ReadDir(c.root.FS(), draftsDir)
	for _, d := range drafts {
		if st, e := d.Info(); e == nil && time.Since(st.ModTime()) > limits.StagedDraftAge {
			err = errors.Join(err, gone(c.root.RemoveAll(draftsDir+"/"+d.Name())))
		}
	}
	return err
}

// sweepJobs removes the directories of jobs whose keeper no longer holds their lock.
func (c *Cache) sweepJobs() error {
	jobs, err := fs.ReadDir(c.root.FS(), jobsDir)
	for _, d := range jobs {
		job, is := strings.CutSuffix(d.Name(), ".lock")
		if !is {
			continue
		}
		f, e := c.openLock(jobsDir + "/" + d.Name())
		if e != nil {
			err = errors.Join(err, gone(e))
			continue
		}
		if flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
			err = errors.Join(err, c.root.RemoveAll(jobsDir+"/"+job), gone(c.root.Remove(jobsDir+"/"+d.Name())))
		}
		err = errors.Join(err, f.Close())
	}
	return err
}

// gone returns nil for a missing file, which another host may have removed, and otherwise err.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
