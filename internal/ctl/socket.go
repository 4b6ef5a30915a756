package ctl

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// HostSocket is where the daemon of the whole host listens: the one that root starts without saying where.
const HostSocket = "/run/weft/nic.sock"

// socketVariable names the socket of processes and tools that are told none.
const socketVariable = "WEFT_SOCKET"

// ErrNotTrusted says that a socket could be that of another user than it should be: of a daemon that a stranger started, or in a
// directory that a stranger can change. A daemon makes and seals the memory that it shares with a process; a false one need not.
var ErrNotTrusted = errors.New("not trusted")

// Sockets are the places where a daemon that serves this user may listen when nothing is said of the place, the first choice first. A
// daemon takes the first, and clients try each in turn:
//
//	$WEFT_SOCKET                    alone, if it is set
//	$XDG_RUNTIME_DIR/weft/nic.sock  the user's own daemon
//	/run/user/UID/weft/nic.sock     the same for cron, su and services, which have the directory and not the variable
//	TMPDIR/weft-UID/nic.sock        the same where there is no runtime directory
//	/run/weft/nic.sock              the host's; for root the only one
//
// All but the first are places whose directories only the user or root can make, or are checked for it: see checkPrivate, makeDirectory and vouched.
func Sockets() []string {
	return thisUser().sockets()
}

// account is a user, and the directory below which the system keeps a directory for each user that is logged in.
type account struct {
	uid     int
	runtime string
}

func thisUser() account { return account{os.Getuid(), "/run/user"} }

// sockets are the Sockets of a user, in this process's environment.
func (a account) sockets() (all []string) {
	if s, _ := CutLink(os.Getenv(socketVariable)); s != "" {
		return []string{s}
	}
	if a.uid == 0 {
		return []string{HostSocket}
	}
	for _, dir := range a.privateDirectories() {
		all = append(all, filepath.Join(dir, "nic.sock"))
	}
	return append(all, HostSocket)
}

// DefaultSocket is where a daemon listens that is not told where.
func DefaultSocket() string { return Sockets()[0] }

// Private reports whether path is one of the user's own default sockets. Their directories are the user's alone, mode 0700.
func Private(path string) bool {
	if os.Getuid() == 0 {
		return false
	}
	for _, dir := range thisUser().privateDirectories() {
		if filepath.Dir(path) == dir {
			return true
		}
	}
	return false
}

// privateDirectories are where a user's own daemon may have its socket.
func (a account) privateDirectories() (all []string) {
	uid := strconv.Itoa(a.uid)
	usual := filepath.Join(a.runtime, uid)
	if d := os.Getenv("XDG_RUNTIME_DIR"); d != "" {
		all = append(all, filepath.Join(d, "weft"))
	}
	if _, err := os.Stat(usual); err == nil && os.Getenv("XDG_RUNTIME_DIR") != usual {
		all = append(all, filepath.Join(usual, "weft"))
	}
	return append(all, filepath.Join(os.TempDir(), "weft-"+uid))
}
