package launch

import "time"

// A job ends with the status of its first failure. The reports of failures may come in another order:
// output of a rank comes before its end, a host may be slow, and a host that is lost is noticed late.
// So the launcher ends the job at the first report, and compares the times of the failures at the end.
//
// The keepers note when ranks die, by their own clocks. Messages of the launcher tell a keeper the
// launcher's clock. The message that came fastest shows best how far that clock is ahead:
//
//	launcher's clock ─ keeper's clock ≥ clock in a message ─ keeper's clock at its arrival

// ahead is how far the clock of the launcher is ahead of a keeper's, in nanoseconds. Its error is the
// time of the fastest message from the launcher.
type ahead time.Duration

func (a ahead) check() bool { return a >= ahead(-ever) && a <= ahead(ever) }

// endedMsg is the end of a rank, with the time of its death.
type endedMsg struct {
	Exit
	DiedAt time.Duration `json:"died_ns,omitempty"` // by the keeper's clock
	Ahead  ahead         `json:"ahead_ns,omitempty"`
}

// clock returns the keeper's clock at a time.
func (k *keeper) clock(t time.Time) time.Duration { return max(t.Sub(k.born), 0) }

// heardClock takes the launcher's clock in a message that has just come.
func (k *keeper) heardClock(launcher time.Duration) {
	a := ahead(launcher - k.clock(k.rt.Now()))
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.synced || a > k.ahead {
		k.synced, k.ahead = true, a
	}
}

// ended makes the message about the end of a rank.
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
	}
	return m
}

// heardAhead takes the difference of the clocks in a message of a host's keeper. The caller holds the
// lock.
func (h *host) heardAhead(a ahead) {
	if !h.synced || a > h.ahead {
		h.synced, h.ahead = true, a
	}
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
	return m.at + time.Duration(m.by.ahead)
}

// now returns the present moment.
func (a *attempt) now() moment { return moment{at: a.clock(a.rt.Now())} }

// decide makes the earliest failure the one that counts. Deaths of ranks and losses of hosts compete.
// Another failure, such as a wish of the user, counts if it was the first to be known: it is not
// reported, and so not late. The caller holds the lock.
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
