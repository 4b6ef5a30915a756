package ctl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Programs other than daemons leave sockets where tools of the same user find them without being told a path: each kind of program in a directory
// of its own, beside the sockets of daemons. These directories are the user's alone, mode 0700, so what is in them the user has put there.

// Places are the directories in which programs of a kind may have left sockets, the first choice first:
//
//	beside $WEFT_SOCKET, if it is set
//	beside the default sockets of the user's own daemon; for root beside the host's
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

// MakePlace makes the first of the Places that can be made and is the user's alone.
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
	if err := makeDirectory(dir); err != nil { // the one above
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("directory of the socket: %w", err)
	}
	return checkPrivate(dir)
}

// Left lists the sockets that programs of a kind have left in the Places. The error is of places that are not the user's alone; what is there
// is not listed.
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
		found, _ := filepath.Glob(filepath.Join(dir, "*.sock")) // an error is one of the pattern
		sockets = append(sockets, found...)
	}
	return sockets, errors.Join(errs...)
}
