package doctor

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// lookThrottled finds control groups that have stopped the daemon because it had used up its
// processor time. It checks the daemon's group and all groups that enclose it.
func lookThrottled(p *Patient) ([]Finding, error) {
	if p.NIC == nil {
		return nil, nil
	}
	dirs, err := p.Host.CPUGroups(p.pid())
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, dir := range dirs {
		if f, throttled := p.throttledBy(dir); throttled {
			found = append(found, f)
		}
	}
	return found, nil
}

// leastThrottled is the least harmful rate: one stop in this number of periods. Rarer stops do no
// harm.
const leastThrottled = 100

// throttledBy reports whether a control group has a limit of processor time that has stopped its
// processes. A group without such files limits nothing.
func (p *Patient) throttledBy(dir string) (Finding, bool) {
	file, none := filepath.Join(dir, "cpu.max"), "max"
	limit, err := p.Host.Read(file)
	if err != nil {
		file, none = filepath.Join(dir, "cpu.cfs_quota_us"), "-1" // version 1
		limit, err = p.Host.Read(file)
	}
	quota := strings.Fields(string(limit))
	if err != nil || len(quota) == 0 || quota[0] == none {
		return Finding{}, false
	}
	stat, err := p.Host.Read(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return Finding{}, false
	}
	times, periods := number(stat, "nr_throttled "), number(stat, "nr_periods ")
	if times == 0 || times*leastThrottled < periods {
		return Finding{}, false
	}
	f := Finding{
		What: fmt.Sprintf("the control group of the daemon may use %s, and was stopped in %d of %d periods (%q)",
			strings.Join(quota, " µs of ")+" µs", times, periods, dir),
		Cost: "the NIC stands still until the next period, so round trips are longer by up to one period, and " +
			"peers may consider it dead",
		Mend: p.lift(file, none),
		Note: "a container or a service sets the limit again at its start: lift the limit in its configuration, too",
	}
	return f, true
}

// lift returns the command that removes the limit of a control group.
func (p *Patient) lift(file, none string) string {
	s := &p.Setup
	if s.Service != "" && filepath.Base(filepath.Dir(file)) == s.Service {
		systemctl := p.asRoot("systemctl")
		if s.OfUser {
			systemctl = "systemctl --user"
		}
		return fmt.Sprintf("%s set-property %s CPUQuota=", systemctl, quote(s.Service))
	}
	return fmt.Sprintf("echo %s | %s >/dev/null", none, p.asRoot("tee "+quote(file)))
}

// number returns the number after a key at the start of a line; 0 if there is none.
func number(text []byte, key string) uint64 {
	word, err := field(text, key)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(word, 10, 64)
	return n
}
