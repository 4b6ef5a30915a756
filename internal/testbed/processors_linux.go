package testbed

import "golang.org/x/sys/unix"

// setApart gives each host its share of the processors that this process may use, those that follow one another, and so all
// commands that are started on it. Where there are fewer processors than hosts, the hosts share all of them.
func (t *Testbed) setApart() error {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return explain("asking for the processors", err)
	}
	n, hosts := may.Count(), len(t.hosts)
	if n < hosts {
		return nil
	}
	shares := make([]unix.CPUSet, hosts)
	for cpu, seen := 0, 0; seen < n; cpu++ {
		if may.IsSet(cpu) {
			shares[seen*hosts/n].Set(cpu)
			seen++
		}
	}
	for i, h := range t.hosts {
		var err error
		if e := h.ns.call(func() { err = unix.SchedSetaffinity(0, &shares[i]) }); e != nil {
			return e
		}
		if err != nil {
			return explain("giving a host processors of its own", err)
		}
	}
	return nil
}
