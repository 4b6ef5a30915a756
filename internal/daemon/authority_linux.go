package daemon

import (
	"fmt"
	"os"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/secure"
	"github.com/weftnet/weft/internal/trust"
)

// The rights of the users and NICs that ask this NIC. The kernel tells the user of a local
// client. Another NIC has proved its id, and its roles say for which of its users it may speak.
// No request names its own asker.

// localAsker is the user of a client of the socket.
func localAsker(uid int) deploy.Asker { return deploy.Asker{UID: uid, User: secure.UserName(uid)} }

// rights returns what an asker may do with the programs of this NIC.
func (d *Daemon) rights(a deploy.Asker) (r deploy.Rights) {
	if a.NIC == 0 {
		owner := a.UID == 0 || a.UID == os.Getuid()
		return deploy.Rights{
			Look: true, Change: owner || slices.Contains(d.live.Load().programUIDs, a.UID), GuardAny: owner,
			Cure: "expected the daemon's user, root, or one of program_uids",
		}
	}
	d.loop.Do(func(clock.Time) {
		r.Look = d.engine.Allows(uint64(a.NIC), trust.Observe, a.User)
		r.Change = d.engine.Allows(uint64(a.NIC), trust.Program, a.User)
		r.GuardAny = d.engine.Allows(uint64(a.NIC), trust.Admin, a.User)
	})
	r.Cure = fmt.Sprintf("`%s` and `%s` on the host of NIC %v give it these roles",
		grant(a.NIC, "observe"), grant(a.NIC, "program="+a.User), d.id)
	return r
}

// grant is the command that gives another NIC a role here.
func grant(nic registry.NICID, role string) string {
	return fmt.Sprintf("weft fabric grant %v %s --config FILE", nic, role)
}

// remoteAsker returns the asker behind a request of another NIC, or an error if that NIC may not
// make the request.
func (d *Daemon) remoteAsker(nic uint64, r *ctl.Request) (deploy.Asker, error) {
	a := deploy.Asker{NIC: registry.NICID(nic)}
	switch r.Op { // the sites of these decide
	case ctl.OpProgram:
		a.User = r.Program.User
	case ctl.OpJob:
		a.User = r.Job.User
	}
	if r.Op == ctl.OpProgram || r.Op == ctl.OpJob {
		if err := trust.CheckUser(a.User); err != nil {
			return a, fmt.Errorf("%w: a request of NIC %v about %ss: %w", ctl.ErrBadRequest, a.NIC, r.Op, err)
		}
		return a, nil
	}
	may := false
	d.loop.Do(func(clock.Time) { may = d.engine.Allows(nic, trust.Observe, "") })
	if !may {
		return a, fmt.Errorf("%w: NIC %v may not look at NIC %v; `%s` on the host of NIC %v gives it the role observe",
			ctl.ErrRefused, a.NIC, d.id, grant(a.NIC, "observe"), d.id)
	}
	return a, nil
}

// countControl counts the outcome of a request of another NIC.
func (d *Daemon) countControl(count func(*nic.Engine)) {
	d.loop.Do(func(clock.Time) { count(d.engine) })
}
