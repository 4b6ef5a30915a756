package ctl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Programs other than daemons leave sockets where tools of the same user find them without being
// told a path. Each kind of program has its own directory next to the sockets of daemons. These
// directories are the user's alone, with mode 0700, so only the user can have put anything there.

// Places returns the directories in which programs of a kind may have left sockets, the first
// choice first:
//
//	next to $WEFT_SOCKET, if it is set
//	next to the default sockets of the user's own daemon; for root next to the host's
func Places(kind string) (all []string) {
	add := func(dir string) {
		if dir = filepath.Join(dir, kind); !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	if s := os.Getenv("WEFT_SOCKET"); s != "" {
		add(filepath.Dir(s))
	}
	if os.Getuid() == 0 {
		add(filepath.Dir(HostSocket))
		return all
	}
	for _, dir := range thisUser().privateDirectories() {
		add(dir)
	}
	return all
}

// MakePlace makes the first of the Places that can be made and belongs to the user alone.
func MakePlace(kind string) (dir string, err error) {
	var errs []error
	for _, dir := range Places(kind) {
		err := makePlace(dir)
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func makePlace(dir string) error {
	if err := makeDirectory(dir); err != nil { // its parent
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("directory of the socket: %w", err)
	}
	return checkPrivate(dir)
}

// Left lists the sockets that programs of a kind have left in the Places. It does not list those
// in a place that is not the user's alone; the error names such places.
func Left(kind string) (sockets []string, err error) {
	var errs []error
	for _, dir := range Places(kind) {
		if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := checkPrivate(dir); err != nil {
			errs = append(errs, err)
			continue
		}
		// An error concerns the pattern only.
		found, _ := filepath.Glob(filepath.Join(dir, "*.sock"))
		sockets = append(sockets, found...)
	}
	return sockets, errors.Join(errs...)
}
