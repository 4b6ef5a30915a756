package doctor

import (
	"regexp"
	"slices"
	"strings"
)

// plain matches words that a shell takes as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote makes a word for a POSIX shell.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// words quotes words and joins them by spaces.
func words(all ...string) string {
	quoted := make([]string, len(all))
	for i, w := range all {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}

// asRoot returns a simple command that runs as root.
func (p *Patient) asRoot(command string) string {
	if p.Host.Root() {
		return command
	}
	return "sudo " + command
}

// then joins commands: each runs only if the one before succeeded. It skips empty ones.
func then(commands ...string) string { return joined(" && ", commands) }

// note joins sentences. It skips empty ones.
func note(sentences ...string) string { return joined("; ", sentences) }

// joined joins the texts that are not empty.
func joined(by string, texts []string) string {
	some := slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" })
	return strings.Join(some, by)
}

// restarts reports whether this user can start the daemon again as it ran. Only its own user can,
// unless it is a unit of the system's systemd: another user's daemon would have another state
// directory, and so another identity.
func (p *Patient) restarts() bool {
	s := &p.Setup
	return p.NIC == nil || !s.Foreign || s.Service != "" && !s.OfUser
}

// restart returns the command that restarts the daemon. It returns "" if this user cannot restart
// it, and between if none runs. between runs while the daemon is down, and may be empty.
func (p *Patient) restart(between string) string { return p.restartWith(between) }

// restartWith is like restart, with more arguments of weft nic. It does not give them to a systemd
// unit.
func (p *Patient) restartWith(between string, more ...string) string {
	s := &p.Setup
	switch {
	case p.NIC == nil:
		return between
	case !p.restarts():
		return ""
	}
	if s.Service != "" {
		systemctl := p.asRoot("systemctl")
		if s.OfUser {
			systemctl = "systemctl --user"
		}
		if between == "" {
			return systemctl + " restart " + quote(s.Service)
		}
		return then(systemctl+" stop "+quote(s.Service), between, systemctl+" start "+quote(s.Service))
	}
	stop := "weft nic stop"
	if s.Socket != "" {
		stop += " --socket " + quote(s.Socket)
	}
	line := []string{"nohup", "setsid"}
	if len(s.Env) > 0 {
		line = append(append(line, "env"), s.Env...)
	}
	start := words(slices.Concat(line, []string{"weft"}, s.Args, more)...)
	if s.Directory != "" {
		start = "cd " + quote(s.Directory) + " && exec " + start
	}
	return then(stop, between, "("+start+" >>"+quote(s.StateDir+"/nic.log")+" 2>&1 </dev/null &)")
}

// restartNote warns of the cost of a restart.
func (p *Patient) restartNote() string {
	switch {
	case p.NIC == nil:
		return ""
	case !p.restarts():
		return "the daemon belongs to another user or container: `weft doctor` prints the command that restarts it " +
			"if that user runs it there"
	}
	return "a restart of the daemon disconnects the attached processes: their calls fail with ErrNICGone"
}
