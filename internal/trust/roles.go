package trust

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/limits"
)

// Role is a set of things that a NIC allows another NIC. No role includes another.
type Role uint8

// The roles.
const (
	Observe Role = 1 << iota // read state and counters
	Program                  // load programs, on behalf of users
	Run                      // start processes, on behalf of users
	Admin                    // stop the NIC; guard processes of any user

	AllRoles = Observe | Program | Run | Admin
)

// Root is the user that no role covers unless its list names it. Callers pass this name for every
// name of uid 0.
const Root = "root"

// roleNames are in the order of the bits.
var roleNames = []string{"observe", "program", "run", "admin"}

// withUsers are the roles that may list users.
const withUsers = Program | Run

// String returns the names of the roles, separated by commas, or "none".
func (r Role) String() string {
	var names []string
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ",")
}

// ParseRole parses the name of one role.
func ParseRole(s string) (Role, error) {
	if i := slices.Index(roleNames, s); i >= 0 {
		return 1 << i, nil
	}
	return 0, fmt.Errorf("unknown role %q: expected observe, program, run or admin", s)
}

// Roles holds the roles that a certificate or a grant gives a NIC. Program and Run may list the
// users for whom the NIC may speak; a role without a list covers every user except root. The zero
// value allows nothing.
type Roles struct {
	Set          Role
	ProgramUsers []string // sorted and distinct; nil unless Set has Program
	RunUsers     []string // sorted and distinct; nil unless Set has Run
}

// ParseRoles parses roles in the form ROLE[=USER,USER]. Each role may occur once.
func ParseRoles(texts ...string) (Roles, error) {
	var r Roles
	for _, s := range texts {
		name, list, listed := strings.Cut(s, "=")
		role, err := ParseRole(name)
		switch {
		case err != nil:
			return Roles{}, err
		case r.Set&role != 0:
			return Roles{}, fmt.Errorf("role %s occurs twice; write one list of users for it", name)
		case listed && role&withUsers == 0:
			return Roles{}, fmt.Errorf("role %q: %s takes no users; expected %[2]s alone", s, name)
		}
		r.Set |= role
		if !listed {
			continue
		}
		users := strings.Split(list, ",")
		for _, u := range users {
			if err := CheckUser(u); err != nil {
				return Roles{}, fmt.Errorf("role %q: %w", s, err)
			}
		}
		slices.Sort(users)
		*r.users(role) = slices.Compact(users)
		if n := len(*r.users(role)); n > limits.UsersPerRole {
			return Roles{}, fmt.Errorf("role %s lists %d users; expected at most %d", name, n, limits.UsersPerRole)
		}
	}
	return r, nil
}

// users returns the user list of Program or Run.
func (r *Roles) users(role Role) *[]string {
	if role == Program {
		return &r.ProgramUsers
	}
	return &r.RunUsers
}

// Strings returns the roles in the form that ParseRoles accepts.
func (r Roles) Strings() []string {
	texts := make([]string, 0, len(roleNames))
	for i, name := range roleNames {
		role := Role(1 << i)
		if r.Set&role == 0 {
			continue
		}
		if role&withUsers != 0 && len(*r.users(role)) > 0 {
			name += "=" + strings.Join(*r.users(role), ",")
		}
		texts = append(texts, name)
	}
	return texts
}

// String returns the roles separated by spaces, or "none".
func (r Roles) String() string {
	if r.Set == 0 {
		return "none"
	}
	return strings.Join(r.Strings(), " ")
}

// Allow reports whether r has the role. If the role is Program or Run, it must also cover the
// user. Root must be listed.
func (r Roles) Allow(role Role, user string) bool {
	if role == 0 || r.Set&role != role {
		return false
	}
	for _, one := range []Role{Program, Run} {
		if role&one != 0 && !covers(*r.users(one), user) {
			return false
		}
	}
	return true
}

func covers(list []string, user string) bool {
	if len(list) == 0 {
		return user != "" && user != Root
	}
	return slices.Contains(list, user)
}

// check returns an error for roles that no decoder and no signer may accept.
func (r Roles) check() error {
	if r.Set&^AllRoles != 0 {
		return fmt.Errorf("unknown roles %#x", uint8(r.Set&^AllRoles))
	}
	for _, role := range []Role{Program, Run} {
		users := *r.users(role)
		if len(users) > 0 && r.Set&role == 0 {
			return fmt.Errorf("users for the role %v, which is not given", role)
		}
		if len(users) > limits.UsersPerRole {
			return fmt.Errorf("role %v lists %d users; expected at most %d", role, len(users), limits.UsersPerRole)
		}
		for i, u := range users {
			if err := CheckUser(u); err != nil {
				return err
			}
			if i > 0 && users[i-1] >= u {
				return fmt.Errorf("users %q and %q of the role %v are not in order", users[i-1], u, role)
			}
		}
	}
	return nil
}

// CheckUser returns an error if name is not a user name: 1 to 64 bytes of A-Z, a-z, 0-9, '.',
// '_', '-', '@' and '+', not '-' first.
func CheckUser(name string) error {
	bad := name == "" || len(name) > limits.UserNameBytes || name[0] == '-'
	for _, c := range []byte(name) {
		bad = bad || !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("._-@+", c) >= 0)
	}
	if bad {
		return fmt.Errorf("user %.80q: expected 1 to %d bytes of A-Z, a-z, 0-9, '.', '_', '-', '@', '+', not '-' first",
			name, limits.UserNameBytes)
	}
	return nil
}
