package launch

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/mutate"
)

// receive takes the messages of the keepers, in order. It writes output itself: while the console
// waits, the keepers wait too. It receives the messages of all processes and drops all others:
// otherwise they would fill the memory in which messages of the keepers wait.
func (l *launcher) receive() {
	inbox, err := l.p.Inbox(weft.AnyProcess, weft.AnyTag, maxMessage)
	if err != nil {
		l.attempt().cut(err)
		return
	}
	defer inbox.Close()
	for {
		m, err := inbox.Next(l.ctx)
		switch {
		case err == nil || errors.Is(err, weft.ErrTruncated):
			l.dispatch(&m)
		case l.ctx.Err() == nil:
			l.attempt().cut(err)
			return
		default:
			return
		}
	}
}

// dispatch passes a message to the current attempt if one of its keepers sent it. The address of
// the sender decides: NICs vouch for it.
func (l *launcher) dispatch(m *weft.Message) {
	a := l.attempt()
	a.mu.Lock()
	h := a.at[m.Addr]
	a.mu.Unlock()
	if h == nil && l.o.Defect == mutate.LaunchStrangerHeard {
		if e, ok := anyMessage(m.Data).(*endedMsg); ok && e.Rank < len(a.ranks) {
			h = a.ranks[e.Rank].host
		}
	}
	if h == nil || m.Tag != tag {
		l.addStrangers(1)
		return
	}
	err := fmt.Errorf("message of %d bytes; expected at most %d", m.Full, maxMessage)
	if m.Len == m.Full {
		err = a.take(h, m.Data)
	}
	if err != nil {
		a.distrust(h, err)
	}
}

// anyMessage reads a message that may be malformed, for a defect.
func anyMessage(b []byte) message {
	m, _ := parse(b, true)
	return m
}

// take handles one message of a keeper. An error means that no keeper sends such a message.
func (a *attempt) take(h *host, b []byte) error {
	m, err := parse(b, true)
	if err != nil {
		return err
	}
	if r := rankOf(m); r >= 0 && (r >= len(a.ranks) || a.ranks[r].host != h) {
		return fmt.Errorf("%w: rank %d is on another host", errMalformed, r)
	}
	if m, ok := m.(outputMsg); ok {
		a.output(m)
		return nil
	}
	a.lock()
	defer a.unlock()
	h.heard = a.rt.Now()
	if h.state == hostLost {
		return nil
	}
	return a.heed(h, m)
}

// rankOf returns the rank of a message, or -1.
func rankOf(m message) int {
	switch m := m.(type) {
	case outputMsg:
		return m.rank
	case wantMsg:
		return m.rank
	case stateMsg:
		return m.rank
	case abortMsg:
		return m.rank
	case *endedMsg:
		return m.Rank
	}
	return -1
}

// heed applies a message to the state. The caller holds the lock.
func (a *attempt) heed(h *host, m message) error {
	if _, gone := m.(*Summary); !gone && h.state != hostStarted {
		if c, answer := m.(clockMsg); answer && h.state == hostGone && h.skew.asks > 0 {
			a.answered(h, c)
			return nil
		}
		if _, staged := m.(stagedMsg); !staged || h.state != hostReady {
			return fmt.Errorf("%w: %T at the wrong time", errMalformed, m)
		}
	}
	switch m := m.(type) {
	case wantMsg:
		a.ranks[m.rank].wants = true
		a.hungry.Open()
	case stateMsg:
		kind := NoteResumed
		if m.stopped {
			kind = NoteStopped
		}
		a.tell(Note{Kind: kind, Host: h.Name, Rank: m.rank})
	case *endedMsg:
		h.skew.low = max(h.skew.low, m.Ahead)
		a.rankOver(m.Exit, true, moment{m.DiedAt, h})
	case *Summary:
		a.gone(h, m)
	case stagedMsg:
		h.staged = true
		for _, r := range m.refusals {
			a.refusals = append(a.refusals, HostRefusal{Host: h.Name, Refusal: r})
		}
	case barrierMsg:
		return a.enter(h, m)
	case endingMsg:
		f := failure{status: asked, cause: fmt.Sprintf("host %s: %s", h.Name, m.text), retry: m.again}
		if m.again {
			f.status = StatusFailed
		}
		a.fail(f)
		a.end(a.o.grace())
	case abortMsg:
		a.fail(failure{status: m.status & 0xff,
			cause: fmt.Sprintf("rank %d on %s: aborted: %s", m.rank, h.Name, m.text), retry: true})
		a.end(a.o.grace())
	}
	return nil
}

// gone handles the last message of a keeper, which may be repeated until it is acknowledged.
func (a *attempt) gone(h *host, m *Summary) {
	if h.done() {
		return
	}
	h.skew.low = max(h.skew.low, m.Ahead)
	if a.o.Defect != mutate.LaunchUnacked && !a.asks(h) {
		h.post(ackMsg{})
	}
	a.addStrangers(m.Strangers)
	before := h.state
	h.state = hostGone
	for _, s := range m.Survivors {
		a.survivors = append(a.survivors, HostSurvivor{Host: h.Name, Survivor: s})
	}
	for _, r := range m.Refusals {
		a.refusals = append(a.refusals, HostRefusal{Host: h.Name, Refusal: r})
	}
	cause := m.Failure
	if cause == "" {
		cause = "its keeper did not report the end of the rank"
	}
	cause = fmt.Sprintf("host %s: %s", h.Name, cause)
	if before < hostStarted { // the host had no rank
		if !a.ending {
			a.fail(failure{status: StatusFailed, cause: cause, retry: true})
			a.end(a.o.grace())
		}
		return
	}
	if m.NotStarted {
		a.unstarted(h, m.Failure, cause)
		return
	}
	for _, r := range h.Ranks {
		a.rankOver(Exit{Rank: r, Cause: cause}, false, a.now())
	}
	a.release()
}

// unstarted handles a host that could start none of its ranks: that is a late refusal. The ranks
// have no end for a Note. The caller holds the lock.
func (a *attempt) unstarted(h *host, why, cause string) {
	h.unstarted = true
	a.refusals = append(a.refusals, HostRefusal{Host: h.Name, Refusal: ctl.Refusal{What: ctl.RefusedProgram, Text: why,
		Cure: "look whether the program runs there by itself"}})
	if !a.ending {
		a.fail(failure{status: StatusRefused, cause: cause, retry: true})
		a.end(a.o.grace())
	}
	for _, n := range h.Ranks {
		if r := &a.ranks[n]; !r.over {
			r.Cause, r.over = cause, true
			a.leaves(n)
		}
	}
	a.release()
}

// Statuses as in a shell: 128 + SIGPIPE for a writer whose reader is gone, and 128 + SIGTERM for
// a job that a daemon was asked to end.
const (
	brokenPipe = 128 + 13
	asked      = 128 + 15
)

// output writes the output of a rank. After an error the job ends, and further output is dropped.
func (a *attempt) output(m outputMsg) {
	if a.deaf {
		return
	}
	if err := a.console.Output(m.rank, m.stream, m.data); err != nil {
		a.deaf = true
		a.launcher.stop(&ending{status: brokenPipe, cause: fmt.Sprintf("the output cannot be written: %v", err)})
	}
}

// enter handles a keeper's part of a barrier.
func (a *attempt) enter(h *host, m barrierMsg) error {
	if !a.o.PMI {
		return fmt.Errorf("%w: a barrier in a job without PMI", errMalformed)
	}
	if h.entered {
		return fmt.Errorf("%w: it enters a barrier twice", errMalformed)
	}
	for i := range m.entries {
		a.kvsBytes += m.entries[i].size()
	}
	if a.kvsBytes > MaxKVSBytes {
		return fmt.Errorf("%w: the key-value space of the job has more than %d bytes", errMalformed, MaxKVSBytes)
	}
	h.entries = append(h.entries, m.entries...)
	if h.entered = !m.more; h.entered {
		a.release()
	}
	return nil
}

// release ends a barrier that every live host has entered: each keeper gets the entries of all.
func (a *attempt) release() {
	var entries []entry
	waits := false
	for _, h := range a.hosts {
		if h.state == hostStarted && !h.entered {
			return
		}
		waits = waits || h.entered && h.state == hostStarted
		entries = append(entries, h.entries...)
	}
	if !waits {
		return
	}
	for _, h := range a.hosts {
		h.entered, h.entries = false, nil
		_ = batches(entries, func(more bool, part []entry) error {
			h.post(releaseMsg{more, part})
			return nil
		})
	}
}
