// Package pmi implements PMI-1, the text protocol between a launcher and the processes of an MPI
// job. A Server serves the ranks of one host. A Client is one rank of another launcher, such as
// mpiexec.hydra.
//
//	rank ── cmd=init pmi_version=1 pmi_subversion=1 ──────────────► server
//	     ◄─ cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
//	     ── cmd=put kvsname=JOB key=K value=V ─► ◄─ cmd=put_result rc=0
//	     ── cmd=barrier_in ───────────────────► ◄─ cmd=barrier_out   once all ranks are in
//	     ── cmd=get kvsname=JOB key=K ────────► ◄─ cmd=get_result rc=0 value=V
//	     ── cmd=finalize ─────────────────────► ◄─ cmd=finalize_ack
//
// A message is one line of NAME=VALUE tuples. The tuples may be in any order, and unknown names
// are ignored. The rank asks, the server answers, and the rank sends no second request before the
// answer.
package pmi

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of the protocol. MPICH's clients have buffers of 1024 bytes for a line, and its launcher
// states the same bounds.
const (
	NameBytes  = 256  // longest name of a job
	KeyBytes   = 64   // longest key, with the zero byte that C adds
	ValueBytes = 1024 // longest value, with the zero byte that C adds
	LineBytes  = 4096 // longest line
	lineTuples = 64   // most tuples in a line
)

// errLine is the error of a malformed line.
var errLine = errors.New("malformed line")

// message is one parsed line.
type message struct {
	cmd    string
	fields map[string]string
}

// parse reads a line without its end. A word without "=" belongs to the value before it.
func parse(line []byte) (m message, err error) {
	if len(line) > LineBytes {
		return m, fmt.Errorf("%w: %d bytes; expected at most %d", errLine, len(line), LineBytes)
	}
	if i := bytes.IndexFunc(line, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }); i >= 0 {
		return m, fmt.Errorf("%w: byte %#x at %d; expected visible ASCII characters", errLine, line[i], i)
	}
	m.fields = make(map[string]string)
	last := ""
	for i, word := range strings.Fields(string(line)) {
		name, value, found := strings.Cut(word, "=")
		switch {
		case i >= lineTuples:
			return m, fmt.Errorf("%w: more than %d words", errLine, lineTuples)
		case !found && last != "":
			m.fields[last] += " " + word
			continue
		case !found || name == "":
			return m, fmt.Errorf("%w: %.40q; expected NAME=VALUE", errLine, word)
		}
		if _, twice := m.fields[name]; twice {
			return m, fmt.Errorf("%w: two values of %.40q", errLine, name)
		}
		m.fields[name], last = value, name
	}
	for _, name := range []string{"cmd", "mcmd"} {
		if m.cmd = m.fields[name]; m.cmd != "" {
			return m, nil
		}
	}
	return m, fmt.Errorf("%w: %.40q has no cmd", errLine, line)
}

// number returns the number in a field, or an error that names the field.
func (m message) number(name string) (int, error) {
	n, err := strconv.Atoi(m.fields[name])
	if err != nil {
		return 0, fmt.Errorf("%w: %s=%.40s of %s; expected a number", errLine, name, m.fields[name], m.cmd)
	}
	return n, nil
}

// word turns a text into one word of visible characters, for a field that cannot hold spaces.
func word(text string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '=' {
			return '_'
		}
		return r
	}, text)
}

// visible reports whether a text may be a key or a value: characters from "!" to "~".
func visible(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
