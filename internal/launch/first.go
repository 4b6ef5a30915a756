package launch

import "time"

// A job ends with the status of its first failure. The reports of failures may come in another
// order: the output of a rank comes before its end, a host may be slow, and the loss of a host is
// noticed late. So the launcher ends the job at the first report, and compares the times of the
// failures at the end.
//
// The keepers note when ranks die, by their own clocks. Messages of the launcher tell a keeper
// the launcher's clock. The fastest message shows best how far that clock is ahead:
//
//	clock in the message ─ keeper's clock at its arrival ≤ launcher's clock ─ keeper's clock
//
// If ranks have failed on several hosts before the launcher ended the job, this is not exact
// enough. The launcher then asks these keepers for their clocks before they end. An answer gives
// the other bound:
//
//	launcher's clock ─ keeper's clock ≤ launcher's clock at the arrival of an answer ─ clock in it

// ahead is how far the launcher's clock is ahead of a keeper's, in nanoseconds.
type ahead time.Duration

// clockAsks is how often the launcher asks a keeper for its clock. The fastest messages count.
const clockAsks = 8

// skew is what the launcher knows about the clock of a keeper. The true difference is between low
// and high.
type skew struct {
	low, high ahead
	asks      int // unanswered requests
}

func (s *skew) ahead() ahead {
	if s.high < s.low || s.high == ahead(ever) {
		return s.low // the clocks drift, or there was no answer
	}
	return s.low + (s.high-s.low)/2
}

func (a ahead) check() bool { return a >= ahead(-ever) && a <= ahead(ever) }

// endedMsg is the end of a rank, with the time of its death.
type endedMsg struct {
	Exit
	DiedAt time.Duration `json:"died_ns,omitempty"` // by the keeper's clock
	Ahead  ahead         `json:"ahead_ns,omitempty"`
}

// clock returns the keeper's clock at a time.
func (k *keeper) clock(t time.Time) time.Duration { return max(t.Sub(k.born), 0) }

// heardClock notes the launcher's clock from a message that has just arrived.
func (k *keeper) heardClock(launcher time.Duration) {
	a := ahead(launcher - k.clock(k.rt.Now()))
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.synced || a > k.ahead {
		k.synced, k.ahead = true, a
	}
}

// answer tells the launcher this keeper's clock.
func (k *keeper) answer(m askMsg) {
	_ = k.say(clockMsg{m.clock, k.clock(k.rt.Now())})
}

// ended returns the message about the end of a rank.
func (k *keeper) ended(e Exit) *endedMsg {
	died := e.Died
	if died.IsZero() {
		died = k.rt.Now()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return &endedMsg{Exit: e, DiedAt: k.clock(died), Ahead: k.ahead}
}

// clock returns the launcher's clock at a time.
func (l *launcher) clock(t time.Time) time.Duration { return max(t.Sub(l.born), 0) }

// stamped returns a message with the launcher's clock, if the message carries it.
func (l *launcher) stamped(m message) message {
	now := l.clock(l.rt.Now())
	switch m := m.(type) {
	case startMsg:
		m.clock = now
		return m
	case pingMsg:
		m.clock = now
		return m
	case endMsg:
		m.clock = now
		return m
	case askMsg:
		m.clock = now
		return m
	}
	return m
}

// newSkew returns the skew before the first message.
func newSkew() skew { return skew{low: ahead(-ever), high: ahead(ever)} }

// asks asks the keeper of a host for its clock if a rank there may be the first that failed. It
// reports whether the last message to the keeper must wait for the answers. The caller holds the
// lock.
func (a *attempt) asks(h *host) bool {
	if len(a.hosts) < 2 || !a.ending {
		return false
	}
	for i := range a.failures {
		if w := a.failures[i].when; w.by == h && w.at+time.Duration(h.skew.low) <= a.ended {
			h.skew.asks = clockAsks
			h.post(askMsg{})
			return true
		}
	}
	return false
}

// answered handles an answer of a keeper that is otherwise done. The caller holds the lock.
func (a *attempt) answered(h *host, m clockMsg) {
	now := a.clock(a.rt.Now())
	h.skew.low = max(h.skew.low, ahead(m.asked-m.clock))
	h.skew.high = min(h.skew.high, ahead(now-m.clock))
	if h.skew.asks--; h.skew.asks > 0 {
		h.queue = append(h.queue, askMsg{})
	} else {
		h.queue = append(h.queue, ackMsg{})
	}
	h.gate.Open()
}

// moment is when something happened: by the clock of a host's keeper, or by the launcher's.
type moment struct {
	at time.Duration
	by *host // nil: the launcher
}

// time returns the launcher's clock at the moment.
func (m moment) time() time.Duration {
	if m.by == nil {
		return m.at
	}
	return m.at + time.Duration(m.by.skew.ahead())
}

// now returns the present moment.
func (a *attempt) now() moment { return moment{at: a.clock(a.rt.Now())} }

// decide makes the earliest failure the one that counts. Deaths of ranks and losses of hosts
// compete. Another failure, such as a wish of the user, counts if it was the first known one: it
// is not reported by a message, and so is never late. The caller holds the lock.
func (a *attempt) decide() {
	if a.failed == nil || a.failed.when == nil {
		return
	}
	for i := range a.failures {
		if f := &a.failures[i]; f.when.time() < a.failed.when.time() {
			a.failed = f
		}
	}
}
