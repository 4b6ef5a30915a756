package stuck

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/vni"
)

// The values of Rank.Does. If there is a cause for a value, both use the same word.
const (
	doesOperation = "operation"
	doesWaits     = "waits"
)

// rank is one rank of the job.
type rank struct {
	n      int
	row    *Row    // nil: no host has reported the rank
	silent *Silent // the host that should have reported it

	does   string
	in     *ctl.GroupStanding // its membership in the group whose operation it is in
	group  *group             // that group
	waits  []*ctl.Wait        // its waits outside of groups, the oldest first
	node   *node
	behind bool // others wait for it in an operation of a group
}

// report returns the rank's entry in the report.
func (k *rank) report() Rank {
	r := Rank{Rank: k.n, Does: k.does, Text: k.text()}
	if k.row != nil {
		r.Node, r.PID, r.State, r.Standing = k.row.Node, k.row.PID, k.row.State, k.row.Standing
	} else if k.silent != nil {
		r.Node = k.silent.Node
	}
	return r
}

// classify sets what each rank does. If a rank sleeps in the kernel, an operation of a group or a
// wait takes precedence over the rank's state, because it may only be fetching a page from a
// disk.
func (a *analysis) classify() {
	for _, k := range a.ranks {
		k.does = k.class()
	}
}

func (k *rank) class() string {
	switch r := k.row; {
	case r == nil && k.silent != nil:
		return CauseHost
	case r == nil:
		return CauseNotAttached
	case r.State == ctl.RankEnded:
		return CauseEnded
	case r.State == ctl.RankStopped, r.State == ctl.RankTraced:
		return CauseStopped
	case r.Standing != nil && k.inOperation():
		return doesOperation
	case r.Standing != nil && k.inWait():
		return doesWaits
	case r.State == ctl.RankUninterruptible:
		return CauseUninterruptible
	case !r.Attached || r.Standing == nil:
		return CauseNotAttached
	}
	return CauseOutside
}

// inOperation finds the operation of a group in which the rank has been longest.
func (k *rank) inOperation() bool {
	for i := range k.row.Standing.Groups {
		g := &k.row.Standing.Groups[i]
		if g.In != nil && g.State != groupBroken && (k.in == nil || g.For > k.in.For) {
			k.in = g
		}
	}
	return k.in != nil
}

// inWait finds the waits of the rank. A process that is not parked waits for nothing: it has
// posted receives, and computes. Receives of libraries and inboxes are always posted, so they
// count only if there are no other waits.
func (k *rank) inWait() bool {
	if !k.row.Standing.Parked {
		return false
	}
	for pass := range 3 {
		for i := range k.row.Standing.Waits {
			if w := &k.row.Standing.Waits[i]; weight(w) == pass {
				k.waits = append(k.waits, w)
			}
		}
		if len(k.waits) > 0 {
			return true
		}
	}
	return false
}

// weight returns 0 for waits that stop a program, and more for waits that may always be present.
func weight(w *ctl.Wait) int {
	switch {
	case w.Port >= vni.LibraryPorts:
		return 2
	case w.What == "inbox" || w.What == "datagram":
		return 1
	}
	return 0
}

// place returns the rank's number and location.
func (k *rank) place() string {
	s := fmt.Sprintf("rank %d", k.n)
	switch {
	case k.row == nil && k.silent != nil:
		return s + " on " + k.silent.Node
	case k.row == nil:
		return s
	}
	if k.row.Node != "" {
		s += " on " + k.row.Node
	}
	if k.row.PID != 0 {
		s += fmt.Sprintf(" (pid %d)", k.row.PID)
	}
	return s
}

// text describes what the rank does.
func (k *rank) text() string {
	switch k.does {
	case CauseHost:
		if k.silent.Refused {
			return "is not known: its host refuses"
		}
		return "is on a host that does not answer"
	case CauseEnded:
		if k.row.Cause != "" {
			return k.row.Cause
		}
		return "has ended"
	case CauseStopped:
		if k.row.State == ctl.RankTraced {
			return "is stopped by a debugger"
		}
		return "is stopped by a signal"
	case CauseUninterruptible:
		return "waits in the kernel and takes no signal (state D)"
	case CauseNotAttached:
		if k.row == nil {
			return "is attached to no daemon that answers"
		}
		return k.activity() + ", not attached to the daemon"
	case doesOperation:
		return k.operationText()
	case doesWaits:
		return waits(k.waits[0].For) + " " + waitText(k.waits[0]) + k.unreadText()
	}
	s := k.activity() + " outside of Weft"
	if n := len(k.row.Standing.Waits) + k.row.Standing.MoreWaits; n > 0 {
		s += fmt.Sprintf(", with %s posted", count(n, "operation"))
	}
	return s
}

func (k *rank) activity() string {
	switch k.row.State {
	case ctl.RankSleeping:
		return "sleeps"
	case ctl.RankUninterruptible:
		return "waits in the kernel (state D)"
	}
	return "runs"
}

func (k *rank) operationText() string {
	g := k.in
	if g.State == groupJoining {
		return fmt.Sprintf("%s in the join of %s, which %d of %d members have entered", waits(g.For), k.group.title(),
			g.Present, g.Size)
	}
	return fmt.Sprintf("%s in %s, operation %d of %s", waits(g.For), stepText(g.In), g.In.Number, k.group.title())
}

// unreadText describes messages that the rank has and does not receive.
func (k *rank) unreadText() string {
	if u := k.wrongTag(); u != nil {
		return fmt.Sprintf("; it has not received the message from %s with %s", peerText(u.From, u.At),
			tagText(u.Port, u.Tag))
	}
	return ""
}

// wrongTag finds a message from the process for which the rank waits, with a tag for which the
// rank does not wait.
func (k *rank) wrongTag() *ctl.Unread {
	if k.does != doesWaits {
		return nil
	}
	w := k.waits[0]
	if w.What != "receive" && w.What != "probe" || w.Why != "" {
		return nil
	}
	for i := range k.row.Standing.Unread {
		u := &k.row.Standing.Unread[i]
		from := w.Any || w.Peer != "" && w.Peer == u.From || w.Peer == "" && w.At != nil && u.At != nil &&
			*w.At == *u.At
		if from && u.Port < vni.LibraryPorts && (u.Port != w.Port || !w.AnyTag && u.Tag != w.Tag) {
			return u
		}
	}
	return nil
}

// indexIn returns the index in the name of a process of an application.
func indexIn(name, application string) (int, bool) {
	app, index, ok := strings.Cut(name, "/")
	n, err := strconv.Atoi(index)
	return n, ok && err == nil && n >= 0 && app == application
}

// peerText returns the name of a process, or its address.
func peerText(name string, at *ctl.Address) string {
	switch {
	case name != "":
		return name
	case at != nil:
		return fmt.Sprintf("the process in slot %d of NIC %v", at.Slot, at.NIC)
	}
	return "an unknown process"
}

func tagText(port uint16, tag uint64) string {
	if port == 0 {
		return fmt.Sprintf("tag %d", tag)
	}
	return fmt.Sprintf("tag %d on port %d", tag, port)
}

// waitText describes a wait of a rank.
func waitText(w *ctl.Wait) string {
	peer := peerText(w.Peer, w.At)
	if w.Unreachable {
		peer += " (whose NIC does not answer)"
	}
	from, tags := "from "+peer, "with "+tagText(w.Port, w.Tag)
	if w.Any {
		from = "from any process"
	}
	if w.AnyTag {
		tags = "with any tag"
		if w.Port != 0 {
			tags = fmt.Sprintf("with any tag on port %d", w.Port)
		}
	}
	switch w.What {
	case "receive", "probe":
		return cmp.Or(map[string]string{"arriving": "for the rest of a message "}[w.Why], "for a message ") + from +
			" " + tags
	case "reply":
		return "for the reply of " + peer + " to a call"
	case "datagram":
		return "for a datagram " + tags
	case "inbox":
		return "in an Inbox for a message " + from + " " + tags
	case "name":
		return "for a process with the name " + peer
	case "multicast":
		return fmt.Sprintf("for %s of a multicast, the first %s", count(w.Left, "receiver"), peer)
	case "program":
		return "for a program in a NIC"
	}
	return sendText(w, peer)
}

func sendText(w *ctl.Wait, peer string) string {
	what := fmt.Sprintf("a message of %d bytes with %s", w.Bytes, tagText(w.Port, w.Tag))
	switch w.What {
	case "answer":
		what = "a reply"
	case "put", "get":
		return fmt.Sprintf("for a %s of %d bytes at %s", w.What, w.Bytes, peer)
	}
	switch w.Why {
	case "name":
		return "for a process with the name " + peer + ", to send it " + what
	case "permission", "room", "order":
		return "for " + peer + " to receive " + what
	}
	if w.Unreachable {
		return "for " + peer + " to take " + what
	}
	return "for the NIC of " + peer + " to take " + what
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
