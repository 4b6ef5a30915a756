package proxy

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/newcomers"
)

// Users holds the users of a proxy and the hashes of their passwords. A check has these steps:
//
//	the user's last correct password?       ─ yes ──► correct, at once
//	may its source try again?               ─ no ───► unchecked
//	is there room to wait?                  ─ no ───► unchecked
//	the hash of the password                ── 50 ms of one core, PasswordChecks concurrently
//
// The password of an unknown user is compared with a special hash, and takes the same time.
type Users struct {
	users   map[string]*user
	nobody  *user
	tags    [32]byte // the secret key of the tags in this process
	tries   newcomers.Buckets
	waiting room
	checks  chan struct{} // holds an element for each check that may begin
}

type user struct {
	hash []byte
	good atomic.Pointer[[sha256.Size]byte] // the tag of the last correct password
}

// The errors of a check.
var (
	errWrong     = errors.New("wrong user or password")
	errUnchecked = errors.New("too many passwords were tried; try again in some seconds")
)

// longestPassword is the longest password, in bytes: bcrypt ignores the rest.
const longestPassword = 72

// ParseUsers reads users and the hashes of their passwords, one user per line:
//
//	alice:$2a$10$…
//
// It skips empty lines and lines that begin with #. All hashes must have the same cost: otherwise
// the time of a check would show which users exist.
func ParseUsers(text string) (*Users, error) { return parseUsers(text, limits.LeastPasswordCost) }

// parseUsers is ParseUsers with another minimum cost, for tests.
func parseUsers(text string, least int) (*Users, error) {
	u := &Users{users: make(map[string]*user), checks: make(chan struct{}, limits.PasswordChecks)}
	cost, costAt := 0, 0
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimSuffix(line, "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		name, hash, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("line %d has no colon; expected USER:HASH, as weft proxy password USER prints it",
				number)
		}
		if err := checkUser(name); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if u.users[name] != nil {
			return nil, fmt.Errorf("line %d: user %q has a line already", number, name)
		}
		n, err := costOf(hash, least)
		if err != nil {
			return nil, fmt.Errorf("line %d: user %q: %w", number, name, err)
		}
		if costAt != 0 && n != cost {
			return nil, fmt.Errorf("line %d: the hash has cost %d and that of line %d has cost %d; "+
				"expected one cost for all users, since the time of a check would tell which users exist",
				number, n, costAt, cost)
		}
		cost, costAt = n, number
		u.users[name] = &user{hash: []byte(hash)}
	}
	if len(u.users) == 0 {
		return nil, errors.New("there is no user; expected lines USER:HASH, as weft proxy password USER prints them")
	}
	return u, u.begin(cost)
}

// begin completes Users whose hashes have this cost.
func (u *Users) begin(cost int) error {
	if _, err := rand.Read(u.tags[:]); err != nil {
		return err
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(rand.Text()), cost)
	if err != nil {
		return err
	}
	u.nobody = &user{hash: hash}
	u.tries = newcomers.Buckets{Most: limits.PasswordSources, Burst: limits.PasswordTries, Every: limits.PasswordEvery}
	u.waiting.most = limits.PasswordChecks + limits.PasswordsWaiting
	for range limits.PasswordChecks {
		u.checks <- struct{}{}
	}
	return nil
}

// checkUser checks the name of a user. SOCKS5 has room for 255 bytes. In HTTP, a colon ends the
// name.
func checkUser(name string) error {
	switch {
	case name == "" || len(name) > 255:
		return fmt.Errorf("the name of a user has %d bytes; expected 1 to 255", len(name))
	case !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == ':' }):
		return fmt.Errorf("%.40q is not the name of a user; expected UTF-8 without colons and control characters", name)
	}
	return nil
}

// costOf returns the cost of a bcrypt hash. The cost must be within its limits.
func costOf(hash string, least int) (int, error) {
	n, err := bcrypt.Cost([]byte(hash))
	switch {
	case err != nil:
		return 0, errors.New("the hash is not one of bcrypt; expected $2a$COST$…, " +
			"as weft proxy password USER prints it")
	case n < least || n > limits.MostPasswordCost:
		return 0,
			fmt.Errorf("the hash has cost %d; expected %d to %d, as from weft proxy password USER "+
				"or htpasswd -nB -C %d USER",
				n, least, limits.MostPasswordCost, limits.PasswordCost)
	}
	if !whole(hash) {
		return 0, errors.New("the hash is not whole; expected 60 characters, as weft proxy password USER prints them")
	}
	return n, nil
}

// whole reports whether a hash is complete: $2a$10$, and 53 characters of bcrypt's alphabet. A
// truncated hash matches no password.
func whole(hash string) bool {
	const alphabet = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	return len(hash) == 60 && strings.Trim(hash[7:], alphabet) == ""
}

// PasswordLine returns a user's line for ParseUsers.
func PasswordLine(name, password string) (string, error) {
	return passwordLine(name, password, limits.PasswordCost)
}

func passwordLine(name, password string, cost int) (string, error) {
	if err := checkUser(name); err != nil {
		return "", err
	}
	if password == "" || len(password) > longestPassword {
		return "", fmt.Errorf("the password has %d bytes; expected 1 to %d", len(password), longestPassword)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	if err != nil {
		return "", err
	}
	return name + ":" + string(hash), nil
}

// check returns nil if the credentials of a client are correct. It admits the client first, so
// that the client cannot give way during the check.
func (u *Users) check(ctx context.Context, from net.Conn, c credentials) error {
	if err := admit(ctx); err != nil {
		return err
	}
	one, there := u.users[c.user]
	if !there {
		one = u.nobody
	}
	tag := u.tag(c.password)
	if good := one.good.Load(); good != nil && hmac.Equal(good[:], tag[:]) {
		return nil
	}
	source := newcomers.SourceOf(from.RemoteAddr())
	if !u.tries.Take(source, time.Now()) {
		return errUnchecked
	}
	right, err := u.compare(ctx, one, c.password)
	switch {
	case err != nil:
		u.tries.Return(source)
		return err
	case !right || !there:
		return errWrong
	}
	u.tries.Return(source)
	one.good.Store(&tag)
	return nil
}

// compare hashes a password and compares it with the user's hash.
func (u *Users) compare(ctx context.Context, one *user, password string) (bool, error) {
	if !u.waiting.take() {
		return false, errUnchecked
	}
	defer u.waiting.give()
	select {
	case <-u.checks:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { u.checks <- struct{}{} }()
	tooLong := len(password) > longestPassword // bcrypt ignores the rest
	err := bcrypt.CompareHashAndPassword(one.hash, []byte(password[:min(len(password), longestPassword)]))
	return err == nil && !tooLong, nil
}

// tag returns the keyed hash by which the proxy remembers a correct password.
func (u *Users) tag(password string) (t [sha256.Size]byte) {
	h := hmac.New(sha256.New, u.tags[:])
	h.Write([]byte(password))
	h.Sum(t[:0])
	return t
}
