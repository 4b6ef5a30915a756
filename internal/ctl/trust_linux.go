package ctl

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// writableByOthers are the permission bits that let users other than the owner change the entries
// of a directory.
const writableByOthers fs.FileMode = 0o022

// makeDirectory makes the directory of a socket if need be. It refuses one in which others could
// put their own socket in the place of the daemon's. The user's own default directories must be
// the user's and 0700. A directory that the user names must be the user's or root's. Others may
// write there only if they cannot remove files of other users (the sticky bit), since a daemon
// notices what is there already.
func makeDirectory(socket string) error {
	dir, private := filepath.Dir(socket), Private(socket)
	mode := fs.FileMode(0o755)
	if private {
		mode = 0o700
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return fmt.Errorf("directory of the socket: %w", err)
	}
	if private {
		return checkPrivate(dir)
	}
	st, err := checkOwner(dir, "socket")
	if err != nil {
		return err
	}
	if st.Mode()&writableByOthers != 0 && st.Mode()&fs.ModeSticky == 0 {
		return othersMayPut(dir, st, "socket")
	}
	return nil
}

// CheckState refuses a directory in which other users could replace a daemon's state. It must be
// the user's or root's, and no other user may write there. Unlike for a socket, the sticky bit
// does not help: the daemon writes to names that others could take first.
func CheckState(dir string) error {
	st, err := checkOwner(dir, "state")
	if err == nil && st.Mode()&writableByOthers != 0 {
		err = othersMayPut(dir, st, "state")
	}
	return err
}

// checkOwner refuses a directory that is neither the user's nor root's.
func checkOwner(dir, of string) (fs.FileInfo, error) {
	st, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of the %s: %w", of, err)
	}
	if uid := owner(st); uid != os.Getuid() && uid != 0 {
		return nil, fmt.Errorf("%w: directory %s is user %d's, who could put another %s there; "+
			"expected one of user %d or root",
			ErrNotTrusted, dir, uid, of, os.Getuid())
	}
	return st, nil
}

func othersMayPut(dir string, st fs.FileInfo, what string) error {
	return fmt.Errorf("%w: directory %s has mode %#o, so that other users could put another %s there; "+
		"`chmod go-w %s` mends it",
		ErrNotTrusted, dir, st.Mode().Perm(), what, dir)
}

// checkPrivate refuses a default directory that is not the user's own. It also refuses a link in
// its place, wherever the link leads.
func checkPrivate(dir string) error {
	st, err := os.Lstat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("directory of the socket: %w", err)
	case !st.IsDir():
		return fmt.Errorf("%w: %s is not a directory; expected one of user %d with mode 0700",
			ErrNotTrusted, dir, os.Getuid())
	case owner(st) != os.Getuid():
		return fmt.Errorf("%w: directory %s is user %d's; expected one of user %d with mode 0700", ErrNotTrusted,
			dir, owner(st), os.Getuid())
	case st.Mode().Perm() != 0o700:
		return fmt.Errorf("%w: directory %s has mode %#o; expected 0700: `chmod 700 %s` mends it", ErrNotTrusted,
			dir, st.Mode().Perm(), dir)
	}
	return nil
}

// vouched returns the user of the daemon. It refuses a daemon unless this user, root, or the
// owner of the socket's place has started it. The kernel tells the daemon's user, and each
// directory on the path to the socket tells which user could have put it there.
func vouched(c *net.UnixConn, socket string) (Peer, error) {
	daemon, err := peer(c)
	if err != nil || daemon.UID == 0 || daemon.UID == os.Getuid() {
		return daemon, err
	}
	if err := belongs(socket, daemon.UID); err != nil {
		err = fmt.Errorf("%w: the daemon at %s is user %d's (process %d): %w", ErrNotTrusted, socket,
			daemon.UID, daemon.PID, err)
		return daemon, err
	}
	return daemon, nil
}

// belongs returns an error unless it is certain that root, this user, or the user uid put the
// socket where it is. In a directory where all may write and no user can remove files of another
// (the sticky bit), files of root and of this user stay where they put them.
func belongs(socket string, uid int) error {
	dir, err := filepath.EvalSymlinks(filepath.Dir(socket))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return err
	}
	at, open := "/", "" // open: the directory above, if others may write there
	for _, name := range append(strings.Split(strings.TrimPrefix(dir, "/"), "/"), "") {
		st, err := os.Stat(at)
		if err != nil {
			return err
		}
		o := owner(st)
		ours := o == 0 || o == os.Getuid()
		if !ours && o != uid {
			return fmt.Errorf("directory %s is user %d's; expected root's, user %d's, or user %d's", at,
				o, uid, os.Getuid())
		}
		if open != "" && !ours {
			return othersCould(open)
		}
		open = ""
		if st.Mode()&writableByOthers != 0 {
			if open = at; st.Mode()&fs.ModeSticky == 0 {
				return othersCould(at)
			}
		}
		at = filepath.Join(at, name)
	}
	if open != "" {
		return othersCould(open)
	}
	return nil
}

func othersCould(dir string) error {
	return fmt.Errorf("other users could have put it into directory %s; expected a place that only its owner writes, "+
		"such as /run/weft", dir)
}

func owner(st fs.FileInfo) int { return int(st.Sys().(*syscall.Stat_t).Uid) }
