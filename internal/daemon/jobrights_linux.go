package daemon

import (
	"fmt"
	"os"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/trust"
)

// The rights to jobs:
//
//	            local user                               user of another NIC
//	reserve     for itself                               the NIC's role run covers the user
//	list        every user that may connect              role observe, or run for the user
//	kill        the job's user, the daemon's, root       role run for the user, for its own job;
//	                                                     role admin
//
// A daemon that is not root starts ranks as its own user only.

// allows reports whether a NIC has a role here, for one of its users.
func (d *Daemon) allows(nic registry.NICID, role trust.Role, user string) (may bool) {
	d.loop.Do(func(clock.Time) { may = d.engine.Allows(uint64(nic), role, user) })
	return may
}

// mayRun returns a refusal if an asker may not start ranks as a user, and else nil. The argument
// who is nil if the user does not exist here.
func (j *jobs) mayRun(a deploy.Asker, who *account) *ctl.Refusal {
	if a.NIC == 0 {
		return nil // asks for itself
	}
	name := a.User
	if who != nil && who.uid == 0 {
		name = trust.Root
	}
	if j.d.allows(a.NIC, trust.Run, a.User) && j.d.allows(a.NIC, trust.Run, name) {
		return nil
	}
	return &ctl.Refusal{What: ctl.RefusedRole,
		Text: fmt.Sprintf("NIC %v may not start processes of user %s on this host", a.NIC, name),
		Cure: fmt.Sprintf("`%s` on this host gives it the role run", grant(a.NIC, "run="+name))}
}

// runsAs refuses a user that does not exist here, or one for which this daemon cannot start
// processes.
func runsAs(who *account, err error) *ctl.Refusal {
	switch {
	case err != nil:
		return &ctl.Refusal{What: ctl.RefusedUser, Text: err.Error(),
			Cure: "make the user on this host, with the same name"}
	case os.Getuid() != 0 && who.uid != os.Getuid():
		return &ctl.Refusal{What: ctl.RefusedUser,
			Text: fmt.Sprintf("the daemon runs as user %d and starts processes as no other; user %s is %d",
				os.Getuid(), who.name, who.uid),
			Cure: "start the daemon as root, or run the job as the daemon's user"}
	}
	return nil
}

// mayLook returns an error if an asker may not see the jobs here.
func (j *jobs) mayLook(a deploy.Asker) error {
	if a.NIC == 0 || j.d.allows(a.NIC, trust.Observe, "") || j.d.allows(a.NIC, trust.Run, a.User) {
		return nil
	}
	return fmt.Errorf("%w: %v may not look at the slots and jobs of NIC %v; `%s` or `%s` on its host lets it",
		ctl.ErrRefused, a, j.d.id, grant(a.NIC, "run="+a.User), grant(a.NIC, "observe"))
}

// mayKill returns an error if an asker may not end a job.
func (j *jobs) mayKill(a deploy.Asker, b *job) error {
	switch {
	case a.NIC == 0 && (a.UID == b.account.uid || a.UID == 0 || a.UID == os.Getuid()):
		return nil
	case a.NIC == 0:
		return fmt.Errorf("%w: user %d may not end %s, a job of user %s; expected that user, the daemon's, or root",
			ctl.ErrRefused, a.UID, b.ID, b.account.name)
	case a.User == b.account.trusted() && j.d.allows(a.NIC, trust.Run, a.User), j.d.allows(a.NIC, trust.Admin, ""):
		return nil
	}
	return fmt.Errorf("%w: %v may not end %s, a job of user %s; `%s` or `%s` on the host of NIC %v lets it",
		ctl.ErrRefused, a, b.ID, b.account.name, grant(a.NIC, "run="+b.account.trusted()),
		grant(a.NIC, "admin"), j.d.id)
}
