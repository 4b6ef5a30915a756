package machine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weftnet/weft/internal/procstat"
)

// process is a process of a host.
type process struct {
	pid  int
	args string
}

// strangers returns the processes in the network of a host other than its daemon and the given
// ones. A process cannot leave its network namespace without privileges. So a new session, an
// empty environment or a dead parent does not hide it.
func (h *host) strangers(but ...int) (all []process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || h.daemon != nil && h.daemon.Process != nil && pid == h.daemon.Process.Pid {
			continue
		}
		space, err := os.Readlink(filepath.Join("/proc", e.Name(), "ns/net"))
		if err != nil || space != h.space || contains(but, pid) || zombie(pid) {
			continue
		}
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		all = append(all, process{pid, strings.TrimSpace(string(bytes.ReplaceAll(args, []byte{0}, []byte{' '})))})
	}
	return all
}

func contains(all []int, one int) bool {
	for _, n := range all {
		if n == one {
			return true
		}
	}
	return false
}

// zombie reports whether a process has ended and its parent has not yet waited for it. The
// parent of such a process is this program or init.
func zombie(pid int) bool {
	p, there := procstat.Read(pid)
	return !there || p.Ended()
}

// stopped reports whether a process is stopped.
func stopped(pid int) bool {
	p, there := procstat.Read(pid)
	return there && p.State == 'T'
}

// holdings counts the file descriptors of a process by kind.
type holdings struct {
	memfds, sockets, others int
}

// more lists the kinds of which a has more than b. It returns an empty string if there are none.
func (a holdings) more(b holdings) string {
	var text []string
	for _, kind := range []struct {
		name      string
		have, had int
	}{{"memory files", a.memfds, b.memfds}, {"sockets", a.sockets, b.sockets},
		{"other descriptors", a.others, b.others}} {
		if kind.have > kind.had {
			text = append(text, fmt.Sprintf("%d %s, %d before", kind.have, kind.name, kind.had))
		}
	}
	return strings.Join(text, "; ")
}

func holdingsOf(pid int) (h holdings, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return h, err
	}
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		switch {
		case err != nil: // closed meanwhile
		case strings.HasPrefix(to, "/memfd:"):
			h.memfds++
		case strings.HasPrefix(to, "socket:"):
			h.sockets++
		default:
			h.others++
		}
	}
	return h, nil
}
