package deploy

import (
	"fmt"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/registry"
)

// Asker is the user on whose behalf a request comes. The kernel or a proven NIC says who it is, and
// never the request. Uploads and preparations belong to their asker.
type Asker struct {
	NIC  registry.NICID // that passes the request on, and has proved its id; 0: the user is one of this host
	User string         // the user's name; if NIC is not 0, that NIC vouches for it
	UID  int            // the user's number if NIC is 0; else 0
}

// String describes the asker.
func (a Asker) String() string {
	if a.NIC == 0 {
		return fmt.Sprintf("user %d", a.UID)
	}
	return fmt.Sprintf("NIC %v, for its user %q,", a.NIC, a.User)
}

// owner is the asker as the table of programs knows owners.
func (a Asker) owner() program.Owner {
	return program.Owner{NIC: uint64(a.NIC), User: a.User, UID: a.UID}
}

// Rights are what an asker may do at a NIC. The zero value allows nothing.
type Rights struct {
	Look     bool // list programs, and read what they display
	Change   bool // load, start and unload programs, and send to them
	GuardAny bool // let programs guard processes of every user, and not of the asker alone

	Cure string // what gives a right that is missing
}

// Everything is what users may do with the NIC inside their own program.
func Everything(Asker) Rights { return Rights{Look: true, Change: true, GuardAny: true} }

// refuse reports why an asker may not do what a request asks for; nil: it may.
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
