package deploy

import (
	"fmt"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/registry"
)

// Asker is the user on whose behalf a request comes. The kernel or a proven NIC tells that user;
// the request never does. Uploads and preparations belong to their asker.
type Asker struct {
	// NIC is the NIC that sends the request, and has proved its id; 0: a user of this host.
	NIC  registry.NICID
	User string // the user's name; if NIC is not 0, that NIC vouches for it
	UID  int    // the user's number if NIC is 0; else 0
}

// String describes the asker.
func (a Asker) String() string {
	if a.NIC == 0 {
		return fmt.Sprintf("user %d", a.UID)
	}
	return fmt.Sprintf("NIC %v, for its user %q,", a.NIC, a.User)
}

// owner returns the asker as an owner in the table of programs.
func (a Asker) owner() program.Owner {
	return program.Owner{NIC: uint64(a.NIC), User: a.User, UID: a.UID}
}

// Rights holds what an asker may do at a NIC. The zero value allows nothing.
type Rights struct {
	Look     bool // list programs, and read what they display
	Change   bool // load, start and unload programs, and send to them
	GuardAny bool // let programs guard processes of every user, not only the asker's

	Cure string // how to get a missing right
}

// Everything returns the rights of any asker at a NIC inside the user's own program: all of them.
func Everything(Asker) Rights { return Rights{Look: true, Change: true, GuardAny: true} }

// refuse returns why an asker may not make a request, or nil if it may.
func (s *Site) refuse(a Asker, rights *Rights, do string) error {
	what := "change programs of NIC %v nor send to them"
	switch do {
	case ctl.ProgramList, ctl.ProgramLog:
		if rights.Look {
			return nil
		}
		what = "list programs of NIC %v nor read what they display"
	default:
		if rights.Change {
			return nil
		}
	}
	return &refusal{fmt.Errorf("%v may neither "+what+"; %s", a, s.NIC, rights.Cure), ctl.ErrRefused}
}
