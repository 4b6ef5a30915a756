package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// findProgram returns the absolute path of a program. It searches the PATH of weft run, unless
// the name has a slash.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrDot):
		return "", fmt.Errorf("program %s is only in the current directory; write ./%s to run it",
			name, name)
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("program %s is in no directory of PATH; expected a path with a slash, or another PATH",
			name)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("program %s cannot be executed; chmod +x makes it executable", name)
	case err != nil:
		if e := (*fs.PathError)(nil); errors.As(err, &e) {
			err = e.Err // it names the path again
		}
		return "", fmt.Errorf("program %s: %w", name, err)
	}
	return filepath.Abs(path)
}

// hashing computes the SHA-256 of a file while other work goes on.
type hashing struct {
	done chan struct{}
	text string
	err  error
}

func hashFile(path string) *hashing {
	h := &hashing{done: make(chan struct{})}
	go func() {
		defer close(h.done)
		h.text, h.err = fileHash(path)
	}()
	return h
}

// wait returns the hash in hexadecimal digits; empty for a file that is not hashed.
func (h *hashing) wait() (string, error) {
	if h.done != nil {
		<-h.done
	}
	return h.text, h.err
}

func fileHash(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return "", nil // executable but not readable: hosts do not compare it
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
