package doctor

// sysctlUserfault is the sysctl that permits every process a userfaultfd for system calls, too.
const sysctlUserfault = "vm.unprivileged_userfaultfd"

// lookUserfault finds out whether this user can page network memory.
func lookUserfault(p *Patient) ([]Finding, error) {
	whole, err := p.Host.Userfault()
	if whole && err == nil {
		return nil, nil
	}
	f := Finding{
		What: "the kernel gives this user only a userfaultfd that ignores the accesses of system calls",
		Cost: "a system call such as read(2) fails with EFAULT if it touches an absent page of network memory",
		Mend: p.asRoot("sysctl -w " + sysctlUserfault + "=1"),
		Note: "it permits userfaultfd to all users; access to /dev/userfaultfd for one group is the narrower cure",
	}
	if err != nil {
		f.What = "this user has no userfaultfd: " + err.Error()
		f.Cost = "regions of network memory cannot be mapped into programs (weft mem map)"
	}
	if value, rerr := p.Host.Read("/proc/sys/vm/unprivileged_userfaultfd"); rerr != nil {
		f.Mend, f.Note = "", "the kernel has no userfaultfd: it needs Linux 6.6 or later with CONFIG_USERFAULTFD"
	} else if p.Host.Root() || len(value) > 0 && value[0] == '1' {
		f.Mend = ""
		f.Note = "the sysctl permits it, so a seccomp filter refuses it: allow userfaultfd in the profile of the " +
			"container or service"
	}
	return []Finding{f}, nil
}
