package daemon

import (
	"bufio"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/weftnet/weft/internal/secure"
	"github.com/weftnet/weft/internal/trust"
)

// account is a user of this host, as whom a keeper runs.
type account struct {
	name, home, shell string
	uid               int
	gid               uint32
	groups            []uint32
}

// accountOf finds the user of this host for whom an asker asks. Another NIC gives a name, which means
// the user of that name here. The kernel gives the number of a local user.
func accountOf(remote bool, name string, uid int) (*account, error) {
	if !remote {
		return accountOfUID(uid)
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("user %q does not exist on this host", name)
	}
	return accountFrom(u)
}

// accountOfUID also finds users without an entry in the user database: those of containers. Such a user
// has no groups beside the daemon's, if it is the daemon's own, and else no account here.
func accountOfUID(uid int) (*account, error) {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return accountFrom(u)
	}
	if uid != os.Getuid() {
		return nil, fmt.Errorf("user %d does not exist on this host", uid)
	}
	return &account{name: secure.UserName(uid), uid: uid, gid: uint32(os.Getgid()), home: "/", shell: "/bin/sh"}, nil
}

func accountFrom(u *user.User) (*account, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %q has the number %q; expected a decimal one", u.Username, u.Uid)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %q has the group %q; expected a decimal one", u.Username, u.Gid)
	}
	a := &account{name: u.Username, uid: int(uid), gid: uint32(gid), home: u.HomeDir, shell: shellOf(u.Username)}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %q: %w", u.Username, err)
	}
	for _, g := range groups {
		if n, err := strconv.ParseUint(g, 10, 32); err == nil {
			a.groups = append(a.groups, uint32(n))
		}
	}
	return a, nil
}

// shellOf reads the shell from /etc/passwd. Users of other databases get /bin/sh.
func shellOf(name string) string {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return "/bin/sh"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if p := strings.Split(s.Text(), ":"); len(p) == 7 && p[0] == name && p[6] != "" {
			return p[6]
		}
	}
	return "/bin/sh"
}

// trusted is the name by which roles know the user: that of root for every name of uid 0.
func (a *account) trusted() string {
	if a.uid == 0 {
		return trust.Root
	}
	return a.name
}

// environment is what a keeper gets of the environment of a login. Of the daemon's own environment only
// XDG_CACHE_HOME comes along, and only to a keeper of the daemon's own user. There the keeper keeps
// staged programs.
func (a *account) environment() []string {
	env := []string{"HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name, "SHELL=" + a.shell,
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if cache := os.Getenv("XDG_CACHE_HOME"); a.uid == os.Getuid() && cache != "" {
		env = append(env, "XDG_CACHE_HOME="+cache)
	}
	return env
}

// credential is nil for the daemon's own user: only root can change the user and groups of a process.
func (a *account) credential() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: a.gid, Groups: a.groups}
}
