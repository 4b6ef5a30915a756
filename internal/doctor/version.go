package doctor

import "fmt"

// unknownCommit is the commit of a program that was built outside of a checkout.
const unknownCommit = "unknown"

// lookVersion finds a daemon of another build than this program: it was not restarted after an
// update, or PATH has an old weft.
func lookVersion(p *Patient) ([]Finding, error) {
	if p.NIC == nil {
		return nil, nil
	}
	i := &p.NIC.Info
	known := i.Commit != unknownCommit && p.Commit != unknownCommit
	if i.Version == p.Version && (i.Commit == p.Commit || !known) {
		return nil, nil
	}
	return []Finding{{
		What: fmt.Sprintf("the daemon (process %d) is weft %s, commit %s, and this program is weft %s, commit %s",
			i.PID, i.Version, i.Commit, p.Version, p.Commit),
		Cost: "the tools and programs of this build may misread the daemon, or be refused",
		Mend: p.restart(""),
		Note: note("if this program is the older one, install the newer one instead", p.restartNote()),
	}}, nil
}
