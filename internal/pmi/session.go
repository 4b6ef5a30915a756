package pmi

import (
	"fmt"
	"strings"
)

// Space is the key-value space of a job.
type Space interface {
	// Put stores a value. The other hosts see it after the next Barrier.
	Put(key, value string) error

	// Get returns a value that a rank of this host has put, or that a Barrier brought.
	Get(key string) (value string, ok bool)
}

// Bounds of what one rank may put.
const (
	rankPuts  = 4096
	rankBytes = 1 << 20
)

// spawnLines bounds the lines of a spawn request, which is refused as a whole.
const spawnLines = 16384

// session is the server's side of one connection: a function from a line to an answer. It never
// waits.
type session struct {
	job     string
	size    int
	mapping string // value of mappingKey; empty: unknown
	space   Space

	puts, bytes int // what the rank has put so far
	spawning    int // lines of a spawn request so far; 0: none
}

// deed is the server's action in addition to the answer.
type deed int

const (
	nothing deed = iota
	barrier      // wait for all ranks, and answer then
	finish       // close the connection after the answer
	abort        // end the job; there is no answer, and the connection stays open
)

// answer returns the answer to a line, without its end. An error is a breach of the protocol: the
// server closes the connection.
func (s *session) answer(line []byte) (reply string, what deed, m message, err error) {
	if s.spawning > 0 {
		return s.spawn(line)
	}
	if m, err = parse(line); err != nil {
		return "", nothing, m, err
	}
	switch m.cmd {
	case "init":
		reply, err = s.init(m)
	case "get_maxes":
		reply = fmt.Sprintf("cmd=maxes rc=0 kvsname_max=%d keylen_max=%d vallen_max=%d",
			NameBytes, KeyBytes, ValueBytes)
	case "get_universe_size":
		reply = fmt.Sprintf("cmd=universe_size rc=0 size=%d", s.size)
	case "get_appnum":
		reply = "cmd=appnum rc=0 appnum=0"
	case "get_my_kvsname":
		reply = "cmd=my_kvsname rc=0 kvsname=" + s.job
	case "put":
		reply = result("put_result", s.put(m))
	case "get":
		reply = s.get(m)
	case "barrier_in":
		reply, what = "cmd=barrier_out rc=0", barrier
	case "finalize":
		reply, what = "cmd=finalize_ack rc=0", finish
	case "abort":
		what = abort
	case "spawn":
		s.spawning = 1
	case "publish_name", "unpublish_name", "lookup_name":
		kind, _, _ := strings.Cut(m.cmd, "_")
		reply = result(kind+"_result", fmt.Errorf("weft run has no names of services"))
	default:
		err = fmt.Errorf("unknown command %.40q", m.cmd)
	}
	return reply, what, m, err
}

// result returns an answer that says only whether a request succeeded.
func result(cmd string, err error) string {
	if err != nil {
		return "cmd=" + cmd + " rc=-1 msg=" + word(err.Error())
	}
	return "cmd=" + cmd + " rc=0 msg=success"
}

// init answers with the version for the connection: 1.1, or 1.0 if the rank knows no other.
func (s *session) init(m message) (string, error) {
	version, err := m.number("pmi_version")
	if err != nil {
		return "", err
	}
	sub, err := m.number("pmi_subversion")
	if err != nil {
		return "", err
	}
	if version < 1 || sub < 0 {
		return "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1", nil
	}
	if version > 1 || sub > 1 {
		sub = 1
	}
	return fmt.Sprintf("cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=%d", sub), nil
}

// check checks the space and the key of a request.
func (s *session) check(m message) (key string, err error) {
	key = m.fields["key"]
	switch {
	case m.fields["kvsname"] != s.job:
		err = fmt.Errorf("kvsname is %.40q; expected %q", m.fields["kvsname"], s.job)
	case key == "" || len(key) >= KeyBytes || !visible(key):
		err = fmt.Errorf("key has %d bytes; expected 1 to %d visible characters", len(key), KeyBytes-1)
	}
	return key, err
}

// put stores a value of the rank.
func (s *session) put(m message) error {
	key, err := s.check(m)
	if err != nil {
		return err
	}
	value := m.fields["value"]
	switch {
	case len(value) >= ValueBytes:
		return fmt.Errorf("value has %d bytes; expected at most %d", len(value), ValueBytes-1)
	case strings.HasPrefix(key, reserved):
		return fmt.Errorf("keys that begin with %s are the launcher's", reserved)
	case s.puts == rankPuts || s.bytes+len(key)+len(value) > rankBytes:
		return fmt.Errorf("a rank may put %d values and %d bytes", rankPuts, rankBytes)
	}
	if err := s.space.Put(key, value); err != nil {
		return err
	}
	s.puts, s.bytes = s.puts+1, s.bytes+len(key)+len(value)
	return nil
}

// get returns a value. A reserved key without a value has an empty one: clients ask for keys of
// other launchers, and end the program on an error.
func (s *session) get(m message) string {
	key, err := s.check(m)
	if err != nil {
		return result("get_result", err)
	}
	value, found := s.space.Get(key)
	switch {
	case key == mappingKey:
		value = s.mapping
	case !found && !strings.HasPrefix(key, reserved):
		return result("get_result", fmt.Errorf("key %s was not found", key))
	}
	return "cmd=get_result rc=0 msg=success value=" + value
}

// spawn skips the lines of a spawn request, and refuses the request at its end.
func (s *session) spawn(line []byte) (reply string, what deed, m message, err error) {
	if string(line) == "endcmd" {
		s.spawning = 0
		return result("spawn_result", fmt.Errorf("weft run starts no further processes")), nothing, m, nil
	}
	if s.spawning++; s.spawning > spawnLines {
		err = fmt.Errorf("%w: a spawn request of more than %d lines", errLine, spawnLines)
	}
	return "", nothing, m, err
}
