package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weftnet/weft/internal/doctor"
	"github.com/weftnet/weft/internal/fabric"
)

// setupOf returns the setup of a daemon with these arguments in a working directory; empty: this
// one. It checks only the form of the configuration.
func setupOf(args []string, dir string) (doctor.Setup, error) {
	o := &nicOptions{}
	c := newNICCommandOf(o)
	if err := c.ParseFlags(args[1:]); err != nil {
		return doctor.Setup{}, usagef("%w", err)
	}
	if o.file != "" {
		o.file = within(dir, o.file)
	}
	conf, err := o.given(c)
	if err != nil {
		return doctor.Setup{}, err
	}
	_, state := conf.Paths()
	s := doctor.Setup{
		Link: cmp.Or(conf.Link, "udp"), Latency: conf.Prefer == "latency", Socket: conf.Socket,
		StateDir: within(dir, state), Directory: dir, Args: args,
	}
	if conf.GSO != nil {
		s.GSO, s.NoGSO = *conf.GSO, !*conf.GSO
	}
	if len(conf.KeyFiles) > 0 {
		s.KeyFile = within(dir, conf.KeyFiles[0])
	}
	if s.KeyPath, err = fabricFile(s.KeyFile); err != nil {
		s.KeyPath = "" // such as for a user without a home
	}
	if conf.Certificate != "" {
		s.Certificate = within(dir, conf.Certificate)
	}
	if s.Listen, err = conf.ListenAddr(); err != nil {
		return s, usagef("listen: %w", err)
	}
	return s, nil
}

// ofFurtherLink changes the setup of a daemon's first link to that of another one.
func ofFurtherLink(s *doctor.Setup, name string) {
	s.StateDir = filepath.Join(s.StateDir, "links", name)
	s.Link, s.Latency, s.Certificate = "", false, "" // its own are not read
}

// within returns a path relative to a directory; empty: the working directory.
func within(dir, path string) string {
	if dir == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// setupOfDaemon returns the setup of the running daemon, from its command line and control group.
func setupOfDaemon(h doctor.Host, pid int) (doctor.Setup, error) {
	proc := "/proc/" + strconv.Itoa(pid)
	text, err := h.Read(proc + "/cmdline")
	if err != nil {
		return doctor.Setup{}, err
	}
	args := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")[1:]
	dir, err := h.Target(proc + "/cwd")
	if err != nil { // the daemon is another user's
		dir = "/"
	}
	if len(args) == 0 || args[0] != "nic" { // another program runs the daemon
		args = []string{"nic"}
	}
	s, err := setupOf(args, dir)
	if err != nil {
		return s, err
	}
	if env, err := h.Read(proc + "/environ"); err == nil {
		s.NoGSO = s.NoGSO || !s.GSO && withoutGSO(string(env))
		s.Env = carriedOver(string(env))
		for _, e := range s.Env {
			if file, ok := strings.CutPrefix(e, fabric.FileVariable+"="); ok && file != "" && s.KeyFile == "" {
				s.KeyFile = within(dir, file)
				s.KeyPath = s.KeyFile
			}
		}
	}
	s.Foreign = !ours(h, proc)
	if group, err := h.Read(proc + "/cgroup"); err == nil {
		s.Service, s.OfUser = unitOf(h, string(group), pid)
	}
	return s, nil
}

// ours reports whether a process is known to belong to this user.
func ours(h doctor.Host, proc string) bool {
	status, err := h.Read(proc + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			words := strings.Fields(ids) // real, effective, saved, and that of files
			return len(words) > 1 && words[1] == strconv.Itoa(os.Geteuid())
		}
	}
	return false
}

// carried are the variables that a restarted daemon needs to find its files and to run as before.
// No others are carried over, since some are secrets and the command is printed.
var carried = []string{
	"WEFT_GSO", "WEFT_SOCKET", fabric.FileVariable, "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME",
}

// carriedOver returns those of an environment, as NAME=VALUE.
func carriedOver(env string) (some []string) {
	for e := range strings.SplitSeq(env, "\x00") {
		if name, _, ok := strings.Cut(e, "="); ok && slices.Contains(carried, name) {
			some = append(some, e)
		}
	}
	return some
}

// withoutGSO reports whether $WEFT_GSO switches segmentation offload off in an environment.
func withoutGSO(env string) bool {
	for _, e := range strings.Split(env, "\x00") {
		if v, ok := strings.CutPrefix(e, "WEFT_GSO="); ok {
			on, err := strconv.ParseBool(v)
			return err == nil && !on
		}
	}
	return false
}

// unit matches the unit at the end of the path of a control group. A daemon may have moved into a
// leaf of its own.
var unit = regexp.MustCompile(`(/user@\d+\.service/.*)?/([^/\n]+\.service)(/weft-nic)?\n`)

// unitOf returns the systemd unit whose main process is the daemon, or "". If another service, such
// as cron, started the daemon, the daemon is in the control group of that service, but is not its
// main process.
func unitOf(h doctor.Host, group string, pid int) (name string, ofUser bool) {
	for _, m := range unit.FindAllStringSubmatch(group, -1) {
		ofUser = m[1] != ""
		show := []string{"systemctl", "show", "--property=MainPID", "--value", m[2]}
		if ofUser {
			show = append(show[:1:1], append([]string{"--user"}, show[1:]...)...)
		}
		main, err := h.Output(show...)
		if err == nil && strings.TrimSpace(string(main)) == strconv.Itoa(pid) {
			return m[2], ofUser
		}
	}
	return "", false
}
