package main

import (
	"errors"
	"io"
	"os"

	"github.com/weftnet/weft/internal/launch"
)

// rankRow is the JSON form of the end of a rank.
type rankRow struct {
	Rank       int    `json:"rank"`
	Node       string `json:"node"`
	PID        int    `json:"pid,omitempty"`
	Exit       int    `json:"exit"`
	Signal     int    `json:"signal,omitempty"`
	SignalName string `json:"signal_name,omitempty"`
	Core       bool   `json:"core,omitempty"`
	OOM        string `json:"oom,omitempty"`
	Cause      string `json:"cause,omitempty"`
	User       int64  `json:"user_ns"`
	System     int64  `json:"system_ns"`
	MaxRSS     int64  `json:"max_rss_bytes"`
	Unkillable bool   `json:"unkillable,omitempty"`
	Unknown    bool   `json:"unknown,omitempty"` // no host has told its end
}

func rowOf(e *launch.RankEnd) rankRow {
	row := rankRow{
		Rank: e.Rank, Node: e.Node, PID: e.PID, Exit: e.Status, Signal: e.Signal, Core: e.Core, OOM: e.OOM,
		Cause: e.Cause,
		User:  int64(e.User), System: int64(e.System), MaxRSS: e.MaxRSSBytes, Unkillable: e.Unkillable,
		Unknown: !e.Known,
	}
	if e.Signal != 0 {
		row.SignalName = signalName(signalOf(e.Signal))
	}
	return row
}

// jobEvent tells which ranks are where, before they start.
type jobEvent struct {
	Event     string      `json:"event"` // placed
	Job       string      `json:"job"`
	Machine   string      `json:"machine,omitempty"`
	Size      int         `json:"size"`
	Placement string      `json:"placement"` // packed, oversubscribed, per-node or one-host
	Hosts     []hostRanks `json:"hosts"`
}

type hostRanks struct {
	Node  string `json:"node"`
	Ranks []int  `json:"ranks"`
}

func hostEvents(hosts []launch.Host) (list []hostRanks) {
	for _, h := range hosts {
		list = append(list, hostRanks{h.Name, h.Ranks})
	}
	return list
}

// rankEvent tells the end of a rank.
type rankEvent struct {
	Event string `json:"event"` // ended
	rankRow
}

// hostEvent tells of a host, or of the whole job.
type hostEvent struct {
	Event string `json:"event"` // host-lost, restart
	Node  string `json:"node,omitempty"`
	Text  string `json:"text"`
}

// refusalEvent tells one reason why no rank was started.
type refusalEvent struct {
	Event string `json:"event"` // refused
	Node  string `json:"node,omitempty"`
	What  string `json:"what,omitempty"`
	Text  string `json:"text"`
	Cure  string `json:"cure,omitempty"`
}

// survivorRow is the JSON form of a process that SIGKILL has not ended.
type survivorRow struct {
	Node string `json:"node"`
	Rank int    `json:"rank"`
	PID  int    `json:"pid"`
	Why  string `json:"why"`
}

// summary is the last object of --json.
type summary struct {
	Event    string `json:"event"` // summary
	Job      string `json:"job"`
	Status   int    `json:"status"`
	Cause    string `json:"cause,omitempty"`
	Restarts int    `json:"restarts,omitempty"`
	// bytes that weft run sent to hosts; absent without --stage
	Staged    *uint64       `json:"staged_bytes,omitempty"`
	Ranks     []rankRow     `json:"ranks,omitempty"`
	Survivors []survivorRow `json:"survivors,omitempty"`
	Unknown   []string      `json:"unknown,omitempty"` // hosts whose end is not known
}

// refused reports that no rank was started.
func (r *running) refused(err error) error {
	r.say("no rank was started: %v", err)
	if err := r.refusal(refusalEvent{Text: err.Error()}); err != nil {
		return err
	}
	return r.summarized(&summary{Status: launch.StatusRefused, Cause: err.Error()})
}

// refusal writes a cause if --json asks for it.
func (r *running) refusal(e refusalEvent) error {
	if r.events == nil {
		return nil
	}
	e.Event = "refused"
	return r.events.print(e)
}

// failed reports that weft run itself failed.
func (r *running) failed(err error) error {
	r.say("%s", hostErrorText(err))
	r.unplaced()
	return r.summarized(&summary{Status: launch.StatusFailed, Cause: hostErrorText(err)})
}

// summarized prints the summary, and returns the error that ends weft with its status.
func (r *running) summarized(s *summary) error {
	s.Event, s.Job = "summary", r.job
	if r.events != nil {
		if err := r.events.print(s); err != nil && s.Status == 0 {
			return err
		}
	}
	if s.Status == 0 {
		return nil
	}
	return &exitError{status: s.Status}
}

// report prints how the job ended.
func (r *running) report(result *launch.Result) error {
	s := &summary{Status: result.Status, Cause: result.Cause, Restarts: result.Restarts, Unknown: result.Unknown}
	if r.staged != nil {
		sent := r.staged.wait()
		s.Staged = &sent
	}
	for i := range result.Ranks {
		s.Ranks = append(s.Ranks, rowOf(&result.Ranks[i]))
	}
	if err := r.reportRefusals(result); err != nil {
		return err
	}
	for _, v := range result.Survivors {
		s.Survivors = append(s.Survivors, survivorRow{v.Host, v.Rank, v.PID, v.Why})
		r.say("process %d on %s could not be killed: %s", v.PID, v.Host, v.Why)
	}
	for _, u := range result.Unknown {
		r.say("unknown whether the ranks on a host have ended: %s", u)
	}
	return r.summarized(s)
}

// reportRefusals prints why no rank was started, or else the cause of the end.
func (r *running) reportRefusals(result *launch.Result) error {
	none := len(result.Refusals) > 0 && len(result.Ranks) == 0
	if len(result.Ranks) == 0 {
		r.unplaced()
	}
	switch {
	case none:
		r.say("no rank was started:")
	case result.Cause != "" && !r.broken():
		r.say("%s", result.Cause)
	}
	for _, f := range result.Refusals {
		if none {
			r.say("  host %s: %s", f.Host, refusalText(f.Text, f.Cure))
		}
		if err := r.refusal(refusalEvent{Node: f.Host, What: f.What, Text: f.Text, Cure: f.Cure}); err != nil {
			return err
		}
	}
	return nil
}

// unplaced discards the placement for --json: no rank has started.
func (r *running) unplaced() {
	if r.events != nil {
		r.events.unplaced()
	}
}

// refusalText joins a cause and its cure.
func refusalText(text, cure string) string {
	if cure == "" {
		return text
	}
	return text + "; " + cure
}

// isScreen reports whether w is a terminal, where a person reads the output as it comes.
func isScreen(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isTTY(f)
}

// oneFile reports whether both writers are one file, such as a terminal.
func oneFile(a, b io.Writer) bool {
	f, ok := a.(*os.File)
	g, also := b.(*os.File)
	if !ok || !also {
		return a == b
	}
	x, err := f.Stat()
	y, err2 := g.Stat()
	return errors.Join(err, err2) == nil && os.SameFile(x, y)
}
