package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// lookMemlock finds a limit of locked memory that is too small for an AF_XDP link, if the NIC
// should have such a link. CAP_IPC_LOCK bypasses this limit.
func lookMemlock(p *Patient) ([]Finding, error) {
	if !p.wantsXDP() {
		return nil, nil
	}
	if free, err := p.capable(capIPCLock); err != nil || free {
		return nil, err
	}
	file := "/proc/" + p.pid() + "/limits"
	text, err := p.Host.Read(file)
	if err != nil {
		return nil, err
	}
	word, err := field(text, "Max locked memory")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if word == "unlimited" {
		return nil, nil
	}
	has, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: Max locked memory: %w", file, err)
	}
	want := p.xdpBytes()
	if has >= want {
		return nil, nil
	}
	mend, cure := p.raiseMemlock(want)
	return []Finding{{
		What: fmt.Sprintf("the limit of locked memory (RLIMIT_MEMLOCK) is %d bytes, and AF_XDP on this interface "+
			"locks %d", has, want),
		Cost: "a NIC cannot use AF_XDP: --link xdp does not start, and --prefer latency uses UDP",
		Mend: mend,
		Note: note(cure, p.restartNote()),
	}}, nil
}

// raiseMemlock returns the command that starts the daemon with a larger limit. A unit of systemd
// gets a file of its own for this. Without a unit, the limit of the shell is raised, which the
// programs that it starts inherit. A user's own systemd cannot exceed its own limit, and a new
// limit needs its restart, which would end the user's sessions. Then there is only a note.
func (p *Patient) raiseMemlock(bytes int64) (mend, cure string) {
	s := &p.Setup
	switch {
	case s.Service != "" && s.OfUser:
		return "", fmt.Sprintf("raise LimitMEMLOCK of the system unit user@.service to %d bytes, and that of %s; "+
			"the limit holds after the user's next login", bytes, s.Service)
	case !p.restarts():
		return "", ""
	case s.Service == "" || p.NIC == nil:
		raise := fmt.Sprintf("prlimit --pid $$ --memlock=%d:%d", bytes, bytes)
		return then(p.asRoot(raise), p.restart("")), ""
	}
	dir := "/etc/systemd/system/" + s.Service + ".d"
	text := fmt.Sprintf(`[Service]\nLimitMEMLOCK=%d\n`, bytes)
	return then(
		p.asRoot("mkdir -p "+quote(dir)),
		fmt.Sprintf("printf '%s' | %s >/dev/null", text, p.asRoot("tee "+quote(dir+"/memlock.conf"))),
		p.asRoot("systemctl daemon-reload"), p.restart("")), ""
}

// wantsXDP reports whether the NIC is to have an AF_XDP link and has none. A daemon of another
// build does not tell its link, which may be AF_XDP already.
func (p *Patient) wantsXDP() bool {
	s := &p.Setup
	if p.NIC != nil && p.NIC.Info.Link == "" {
		return false
	}
	wants := strings.HasPrefix(s.Link, "xdp") || s.Link == "auto" && s.Latency
	return wants && (p.NIC == nil || !strings.HasPrefix(p.NIC.Info.Link, "xdp"))
}
