package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The process that builds a testbed holds a lock on the testbed's directory, and so does its
// supervisor. The lock tells a running testbed from a directory that two killed processes have
// left. The directory's owner is the testbed's user.

// makeTestbedDir makes the directory of a new testbed and locks it. The lock ends when the last
// process closes the file.
func makeTestbedDir(o *execOptions) (lock *os.File, err error) {
	if o.name == "" {
		o.dir, err = os.MkdirTemp("", testbedDirPrefix)
		o.name = strings.TrimPrefix(filepath.Base(o.dir), testbedDirPrefix)
	} else {
		o.dir = testbedDir(o.name)
		err = os.Mkdir(o.dir, 0o700)
	}
	if errors.Is(err, os.ErrExist) {
		if err := giveUpLeftover(o.name); err != nil {
			return nil, err
		}
		err = os.Mkdir(o.dir, 0o700)
	}
	if err == nil {
		lock, err = os.Open(o.dir)
	}
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return nil, fmt.Errorf("creating a directory for testbed %s: %w", o.name, err)
	}
	return lock, nil
}

// giveUpLeftover removes the directory of a testbed that has ended.
func giveUpLeftover(name string) error {
	if err := checkOwner(name); err != nil {
		return err
	}
	if testbedRuns(name) {
		return fmt.Errorf("a testbed %s runs already: choose another --name, or join it with --join %s", name, name)
	}
	return os.RemoveAll(testbedDir(name))
}

// checkOwner returns an error unless the directory of a testbed belongs to this user alone.
func checkOwner(name string) error {
	dir := testbedDir(name)
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.IsDir():
		return fmt.Errorf(
			"%s is not the directory of a testbed: expected a directory; remove it, or choose another name", dir)
	case int(owner) != os.Geteuid():
		return fmt.Errorf(
			"testbed %s belongs to %s: expected one of this user's; choose another name, or run weft as that user",
			name, userText(owner))
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("others may use %s, with mode %04o: expected the directory of a testbed, with mode 0700",
			dir, info.Mode().Perm())
	}
	return nil
}

func userText(id uint32) string {
	text := strconv.FormatUint(uint64(id), 10)
	if u, err := user.LookupId(text); err == nil {
		return "user " + u.Username
	}
	return "user " + text
}

// testbedRuns reports whether a process holds the lock of a testbed.
func testbedRuns(name string) bool {
	dir, err := os.Open(testbedDir(name))
	if err != nil {
		return false
	}
	defer dir.Close()
	return errors.Is(unix.Flock(int(dir.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// runningTestbeds lists the names of this user's running testbeds.
func runningTestbeds() (names []string) {
	dirs, _ := filepath.Glob(testbedDir("*")) // the pattern is valid
	for _, dir := range dirs {
		name := strings.TrimPrefix(filepath.Base(dir), testbedDirPrefix)
		if checkOwner(name) == nil && testbedRuns(name) {
			names = append(names, name)
		}
	}
	return names
}
