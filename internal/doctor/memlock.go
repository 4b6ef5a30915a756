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
	return []Finding{{
		What: fmt.Sprintf("the limit of locked memory (RLIMIT_MEMLOCK) is %d bytes, and AF_XDP on this interface "+
			"locks %d", has, want),
		Cost: "a NIC cannot use AF_XDP: --link xdp does not start, and --prefer latency uses UDP",
		Mend: p.raiseMemlock(want),
		Note: p.restartNote(),
	}}, nil
}

// raiseMemlock returns the command that starts the daemon with a larger limit. A unit of systemd
// gets a file of its own for this. Without a unit, the command raises the limit of the shell,
// and the programs of the shell inherit it.
func (p *Patient) raiseMemlock(bytes int64) string {
	s := &p.Setup
	if s.Service == "" || p.NIC == nil {
		raise := fmt.Sprintf("prlimit --pid $$ --memlock=%d:%d", bytes, bytes)
		return then(p.asRoot(raise), p.restart(""))
	}
	dir := "/etc/systemd/system/" + s.Service + ".d"
	text := fmt.Sprintf(`[Service]\nLimitMEMLOCK=%d\n`, bytes)
	return then(
		p.asRoot("mkdir -p "+quote(dir)),
		fmt.Sprintf("printf '%s' | %s >/dev/null", text, p.asRoot("tee "+quote(dir+"/memlock.conf"))),
		p.asRoot("systemctl daemon-reload"), p.restart(""))
}

// wantsXDP reports whether the NIC should have an AF_XDP link and has none.
func (p *Patient) wantsXDP() bool {
	s := &p.Setup
	wants := strings.HasPrefix(s.Link, "xdp") || s.Link == "auto" && s.Latency
	return wants && (p.NIC == nil || !strings.HasPrefix(p.NIC.Info.Link, "xdp"))
}
