package fabric

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// mostBytes bounds a file of secrets, which has a few lines.
const mostBytes = 4096

// forOthers is the set of permission bits of group and others.
const forOthers fs.FileMode = 0o077

// writableByOthers is the subset with which others can change the contents of a directory.
const writableByOthers fs.FileMode = 0o022

// ReadSecret reads a file that only its owner can read: the caller, or root. what names the secret
// in errors.
func ReadSecret(path, what string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO in its place must not block
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w; expected a file of user %d with mode 0600", err, os.Geteuid())
		}
		return "", fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	switch uid := owner(st); {
	case !st.Mode().IsRegular():
		return "", fmt.Errorf("%s: %s is no regular file; expected one with mode 0600", what, path)
	case uid != os.Geteuid() && uid != 0:
		return "", fmt.Errorf("%s: %s is user %d's, who could change it; expected a file of user %d: copy it, "+
			"and remove this one",
			what, path, uid, os.Geteuid())
	case st.Mode().Perm()&forOthers != 0:
		return "", fmt.Errorf("%s: %s has mode %#o, so other users can use it; expected 0600: run chmod 600 %s, "+
			"and draw a new one if others may have read it",
			what, path, st.Mode().Perm(), path)
	}
	b, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", what, err)
	case len(b) > mostBytes:
		return "", fmt.Errorf("%s: %s has more than %d bytes; expected one line a key", what, path, mostBytes)
	}
	return string(b), nil
}

func owner(st fs.FileInfo) int { return int(st.Sys().(*syscall.Stat_t).Uid) }

// checkDirectory refuses a directory in which other users could replace a secret.
func checkDirectory(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	switch uid := owner(st); {
	case uid != os.Geteuid() && uid != 0:
		return fmt.Errorf("directory %s is user %d's, who could replace the key; "+
			"expected one of user %d with mode 0700", dir, uid, os.Geteuid())
	case st.Mode().Perm()&writableByOthers != 0:
		return fmt.Errorf("directory %s has mode %#o, so other users could replace the key; "+
			"expected 0700: run chmod 700 %s", dir, st.Mode().Perm(), dir)
	}
	return nil
}

// CreateOnce creates the file at path with one line of text, and its directory, unless the file
// exists. Concurrent callers agree: one of them creates it, and no reader sees a part of it.
// CreateOnce returns false if the file existed.
func CreateOnce(path, text string) (made bool, err error) {
	beside, err := writeBeside(path, text)
	if err != nil {
		return false, err
	}
	err = os.Link(beside, path)
	removed := os.Remove(beside)
	switch {
	case errors.Is(err, fs.ErrExist):
		return false, removed
	case noHardLinks(err):
		return false, fmt.Errorf("%w: the file system of %s may have no hard links; choose another place", err, path)
	case err != nil:
		return false, err
	}
	return true, errors.Join(removed, syncDirectory(path))
}

// Replace replaces the file at path by a file with one line of text. A reader sees the old file
// or the new one.
func Replace(path, text string) error {
	beside, err := writeBeside(path, text)
	if err != nil {
		return err
	}
	if err := os.Rename(beside, path); err != nil {
		return errors.Join(err, os.Remove(beside))
	}
	return syncDirectory(path)
}

// writeBeside writes a line into a new file of mode 0600 in the directory of path, and returns its
// name.
func writeBeside(path, text string) (name string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	_, err = io.WriteString(f, text+"\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// syncDirectory ensures that the name of a file survives a crash of the host.
func syncDirectory(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) { // some network file systems cannot, and need not
		err = nil
	}
	return errors.Join(err, d.Close())
}
