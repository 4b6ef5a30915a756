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

// account is the user of this host that a keeper runs as.
type account struct {
	name, home, shell string
	uid               int
	gid               uint32
	groups            []uint32
}

// accountOf finds the user of this host that an asker speaks for. Another NIC gives a name: the
// user of that name here. The kernel gives the number of a local user.
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

// accountOfUID also finds users without an entry in the user database, such as those of
// containers. The daemon's own user then gets an account with the daemon's group and no others.
// Any other such user has no account here.
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

// trusted returns the name by which roles know the user: root for every name of uid 0.
func (a *account) trusted() string {
	if a.uid == 0 {
		return trust.Root
	}
	return a.name
}

// environment returns the environment of a keeper, that of a login. It takes only XDG_CACHE_HOME
// from the daemon's own environment, and only for a keeper of the daemon's own user. The keeper
// keeps staged programs there.
func (a *account) environment() []string {
	env := []string{"HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name, "SHELL=" + a.shell,
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if cache := os.Getenv("XDG_CACHE_HOME"); a.uid == os.Getuid() && cache != "" {
		env = append(env, "XDG_CACHE_HOME="+cache)
	}
	return env
}

// credential returns the user and groups of a keeper. It is nil for the daemon's own user: only
// root can change the user and groups of a process.
func (a *account) credential() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: a.gid, Groups: a.groups}
}
