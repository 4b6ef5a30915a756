package ctl

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// HostSocket is the socket of the daemon of the whole host: the one that root starts without a
// path.
const HostSocket = "/run/weft/nic.sock"

// socketVariable is the environment variable with the socket of processes and tools that name
// none.
const socketVariable = "WEFT_SOCKET"

// ErrNotTrusted means that a socket may belong to the wrong user: the daemon was started by a
// stranger, or a stranger can change the directory. A daemon makes and seals the memory that it
// shares with a process; a false daemon need not.
var ErrNotTrusted = errors.New("not trusted")

// Sockets returns the places where a daemon that serves this user may listen if no place is
// given, the first choice first. A daemon takes the first, and clients try each in turn:
//
//	$WEFT_SOCKET                    alone, if it is set
//	$XDG_RUNTIME_DIR/weft/nic.sock  the user's own daemon
//	/run/user/UID/weft/nic.sock     the same for cron, su and services, which lack the variable
//	TMPDIR/weft-UID/nic.sock        the same if there is no runtime directory
//	/run/weft/nic.sock              the host's daemon; for root the only place
//
// Only the user or root can make the directories of all places but the first, or they are checked
// for that: see checkPrivate, makeDirectory and vouched.
func Sockets() []string {
	return thisUser().sockets()
}

// account is a user, and the directory in which the system keeps a directory for each user that
// is logged in.
type account struct {
	uid     int
	runtime string
}

func thisUser() account { return account{os.Getuid(), "/run/user"} }

// sockets returns the Sockets of a user, in this process's environment.
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

// DefaultSocket returns the socket of a daemon that is given none.
func DefaultSocket() string { return Sockets()[0] }

// Private reports whether path is one of the user's own default sockets. Their directories belong
// to the user alone, with mode 0700.
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

// privateDirectories returns the directories where a user's own daemon may have its socket.
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
