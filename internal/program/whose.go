package program

import (
	"fmt"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// Owner is the user that has loaded a program. User is also the name under which a NIC knows the
// users of its processes (driver.Entry). It is empty for a NIC inside a program, whose processes
// all belong to one user.
type Owner struct {
	NIC  uint64 // the NIC that vouches for the user; 0: a user of this host
	User string
	UID  int // if NIC is 0
}

// Whose is the set of users whose processes a guard may judge.
type Whose struct {
	User string // by name
	Any  bool   // every user's
}

// Covers reports whether w includes the processes of a user.
func (w Whose) Covers(user string) bool { return w.Any || w.User == user }

// whose returns the users whose processes a program may guard.
func (s *Spec) whose() Whose { return Whose{s.Owner.User, s.GuardAny} }

// mayJudge refuses a guard for a process of another user. A process that is not there yet is
// judged only if its user is covered by the guard: the engine checks that when the process comes.
func (t *Table) mayJudge(s *Spec) error {
	user, there := t.nic.UserOf(s.Guards)
	if !there || s.whose().Covers(user) {
		return nil
	}
	return notTheirs(s.Guards, user)
}

// mayEnd refuses to take a guard away from a process of another user. Before the process comes,
// the guard belongs to its loader.
func (t *Table) mayEnd(guard *Spec, by Owner, any bool) error {
	if guard.Guards.IsZero() || any {
		return nil
	}
	user, there := t.nic.UserOf(guard.Guards)
	if there && user == by.User || !there && guard.Owner == by {
		return nil
	}
	if !there {
		user = guard.Owner.User
	}
	return notTheirs(guard.Guards, user)
}

// MayUnload returns ErrNotTheirs if a program guards a process of another user, so the asker may
// not unload it.
func (t *Table) MayUnload(id vm.ID, by Owner, any bool) error {
	l := t.loaded[id]
	if l == nil {
		return nil
	}
	return t.mayEnd(&l.spec, by, any)
}

func notTheirs(process vni.Name, user string) error {
	return fmt.Errorf(
		"guard of %v: %w, %q; expected a request of that user, of root or the daemon's user, "+
			"or by a NIC with the role admin",
		process, ErrNotTheirs, user)
}
