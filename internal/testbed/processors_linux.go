package testbed

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// shares divides the processors that this process may use into n shares of consecutive ones. It
// returns nil if there are fewer than n.
func shares(n int) ([]unix.CPUSet, error) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return nil, explain("asking for the processors", err)
	}
	if may.Count() < n {
		return nil, nil
	}
	s := make([]unix.CPUSet, n)
	for cpu, seen := 0, 0; seen < may.Count(); cpu++ {
		if may.IsSet(cpu) {
			s[seen*n/may.Count()].Set(cpu)
			seen++
		}
	}
	return s, nil
}

// setApart gives each host, and so all commands started on it, its share of the processors. If
// there are fewer processors than hosts, the hosts share all of them.
func (t *Testbed) setApart() error {
	s, err := shares(len(t.hosts))
	if s == nil {
		return err
	}
	for i, h := range t.hosts {
		if e := h.ns.call(func() { err = unix.SchedSetaffinity(0, &s[i]) }); e != nil {
			return e
		}
		if err != nil {
			return explain("giving a host processors of its own", err)
		}
	}
	return nil
}

// Apart calls f on a thread that has share i of n of the processors, so that a program started by
// f has it too. If there are fewer than n processors, it has all of them.
func Apart(i, n int, f func() error) error {
	s, err := shares(n)
	if err != nil {
		return err
	}
	if s == nil {
		return f()
	}
	var all unix.CPUSet
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return explain("asking for the processors", err)
	}
	if err := unix.SchedSetaffinity(0, &s[i]); err != nil {
		return explain("taking a share of the processors", err)
	}
	defer unix.SchedSetaffinity(0, &all) // the former set is still allowed
	return f()
}
