package stuck

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
)

var rewrite = flag.Bool("rewrite", false, "write the reports in testdata anew")

// job makes facts, rank by rank.
type job struct{ Facts }

// newJob returns a job of the given number of ranks, on hosts with four ranks each. All ranks
// wait in a barrier, operation 7 of the group world.
func newJob(size int) *job {
	j := &job{Facts{Job: "job", Size: size, Hosts: (size + 3) / 4}}
	for n := range size {
		j.Rows = append(j.Rows, Row{Node: fmt.Sprintf("h%d", n/4), RankInfo: ctl.RankInfo{Rank: n, PID: 100 + n, State: ctl.RankSleeping, Attached: true,
			Standing: &ctl.Standing{Parked: true, Groups: []ctl.GroupStanding{{Group: "world", State: "open", Size: size, Present: size, Rank: n}}}}})
		j.in(n, 7, "barrier", "")
	}
	return j
}

func (j *job) world(n int) *ctl.GroupStanding { return &j.Rows[n].Standing.Groups[0] }

func (j *job) in(n int, number uint32, kind, root string) {
	g := j.world(n)
	g.In, g.Under, g.Done, g.For = &ctl.GroupStep{Number: number, Kind: kind, Root: root}, 1, number-1, int64(41*time.Second)
}

// out removes a rank from its operation: it has done the operations before.
func (j *job) out(n int) {
	g := j.world(n)
	g.Done = g.In.Number - 1
	g.In, g.Under, g.Done = nil, 0, g.In.Number-1
}

func (j *job) outAll() {
	for n := range j.Rows {
		j.out(n)
	}
}

func (j *job) waits(n int, w ctl.Wait) {
	if j.world(n).In != nil {
		j.out(n)
	}
	w.For = int64(40 * time.Second)
	j.Rows[n].Standing.Waits = append(j.Rows[n].Standing.Waits, w)
}

func (j *job) receives(n, from int, tag uint64) {
	j.waits(n, ctl.Wait{What: "receive", Peer: fmt.Sprintf("job/%d", from), Tag: tag, Bytes: 8})
}

func (j *job) state(n int, state string) {
	j.out(n)
	j.Rows[n].State = state
	j.Rows[n].Standing.Parked = false
}

// breaks breaks the group of all ranks.
func (j *job) breaks(change func(n int, g *ctl.GroupStanding)) {
	for n := range j.Rows {
		g := j.world(n)
		g.State = "broken"
		change(n, g)
		j.Rows[n].Standing.Parked = false
	}
}

// remove removes the rows of ranks.
func (j *job) remove(ranks ...int) {
	j.Rows = slices.DeleteFunc(j.Rows, func(r Row) bool { return slices.Contains(ranks, r.Rank) })
}

// cases lists jobs that make no progress, each with the kind of its first cause and the ranks to
// look at.
var cases = []struct {
	name  string
	size  int
	kind  string
	ranks []int
	make  func(j *job)
}{
	{"stopped", 16, CauseStopped, []int{5}, func(j *job) { j.state(5, ctl.RankStopped) }},
	{"traced", 4, CauseStopped, []int{1}, func(j *job) { j.state(1, ctl.RankTraced) }},
	{"uninterruptible", 4, CauseUninterruptible, []int{1}, func(j *job) { j.state(1, ctl.RankUninterruptible) }},
	{"computes", 8, CauseOutside, []int{6}, func(j *job) {
		j.state(6, ctl.RankRunning)
		j.Rows[6].Standing.Waits = []ctl.Wait{{What: "receive", Any: true}}
	}},
	{"sleeps", 8, CauseOutside, []int{2, 6}, func(j *job) { j.state(2, ctl.RankSleeping); j.state(6, ctl.RankSleeping) }},
	{"many", 32, CauseOutside, nil, func(j *job) {
		for n := range 25 {
			j.state(n+3, ctl.RankRunning)
		}
	}},
	{"ended-before-join", 4, CauseEnded, []int{3}, func(j *job) {
		for n := range 4 {
			*j.world(n) = ctl.GroupStanding{Group: "world", State: "joining", Size: 4, Present: 3, Rank: -1, For: 5e9, In: &ctl.GroupStep{Kind: "join"}}
		}
		j.Rows[3].RankInfo = ctl.RankInfo{Rank: 3, State: ctl.RankEnded, Cause: "exited with status 0"}
	}},
	{"never-attached", 4, CauseNotAttached, []int{3}, func(j *job) {
		for n := range 4 {
			*j.world(n) = ctl.GroupStanding{Group: "world", State: "joining", Size: 4, Present: 3, Rank: -1, For: 5e9, In: &ctl.GroupStep{Kind: "join"}}
		}
		j.remove(3)
	}},
	{"not-attached-yet", 4, CauseNotAttached, []int{3}, func(j *job) {
		for n := range 4 {
			*j.world(n) = ctl.GroupStanding{Group: "world", State: "joining", Size: 4, Present: 3, Rank: -1, For: 5e9, In: &ctl.GroupStep{Kind: "join"}}
		}
		j.Rows[3].Standing, j.Rows[3].Attached, j.Rows[3].State = nil, false, ctl.RankRunning
	}},
	{"never-joined", 4, CauseOutside, []int{2}, func(j *job) {
		for n := range 4 {
			*j.world(n) = ctl.GroupStanding{Group: "world", State: "joining", Size: 4, Present: 3, Rank: -1, For: 5e9, In: &ctl.GroupStep{Kind: "join"}}
		}
		j.Rows[2].Standing.Groups = nil
	}},
	{"joined-another", 4, CauseElsewhere, []int{2}, func(j *job) {
		for n := range 4 {
			*j.world(n) = ctl.GroupStanding{Group: "world", State: "joining", Size: 4, Present: 3, Rank: -1, For: 5e9, In: &ctl.GroupStep{Kind: "join"}}
		}
		j.world(2).Group, j.world(2).Present, j.world(2).Size = "wrold", 1, 3
	}},
	{"ended-in-group", 4, CauseEnded, []int{1}, func(j *job) {
		j.breaks(func(n int, g *ctl.GroupStanding) { g.Lost, g.Present = "job/1", 3 })
		j.Rows[1].RankInfo = ctl.RankInfo{Rank: 1, State: ctl.RankEnded, Cause: "exited with status 0"}
	}},
	{"left-the-group", 4, CauseEnded, []int{1}, func(j *job) {
		j.breaks(func(n int, g *ctl.GroupStanding) { g.Lost, g.Present = "job/1", 3 })
		j.Rows[1].Standing.Groups = nil
		j.receives(0, 1, 3)
		j.world(0).In, j.Rows[0].Standing.Parked = &ctl.GroupStep{Number: 7, Kind: "barrier"}, true
	}},
	{"ended-well", 4, CauseNone, nil, func(j *job) { // no rank needs the rank that has ended
		j.breaks(func(n int, g *ctl.GroupStanding) { g.Lost, g.Present, g.In, g.Done = "job/1", 3, nil, 7 })
		j.Rows[1].RankInfo = ctl.RankInfo{Rank: 1, State: ctl.RankEnded, Cause: "exited with status 0"}
	}},
	{"host-down", 12, CauseHost, []int{4, 5, 6, 7}, func(j *job) {
		j.remove(4, 5, 6, 7)
		j.Silent = []Silent{{Node: "h1", Ranks: []int{4, 5, 6, 7}, Why: "no answer in time"}}
	}},
	{"host-refuses", 8, CauseHost, []int{0, 1}, func(j *job) {
		j.remove(0, 1)
		j.Silent = []Silent{{Node: "h1", Ranks: []int{0, 1}, Why: "NIC 7 may not look at the jobs", Refused: true}}
	}},
	{"wrong-tag", 4, CauseTag, []int{1}, func(j *job) {
		j.receives(1, 0, 7)
		j.Rows[1].Standing.Unread = []ctl.Unread{{From: "job/0", Tag: 8, Bytes: 8}}
	}},
	{"wrong-port", 4, CauseTag, []int{1}, func(j *job) {
		j.waits(1, ctl.Wait{What: "receive", Any: true, AnyTag: true, Port: 2})
		j.Rows[1].Standing.Unread = []ctl.Unread{{From: "job/0", Port: 3, Tag: 8, Bytes: 8}}
	}},
	{"mutual", 2, CauseCycle, []int{0, 1}, func(j *job) { j.receives(0, 1, 5); j.receives(1, 0, 5) }},
	{"mutual-and-barrier", 4, CauseCycle, []int{1, 3}, func(j *job) { j.receives(1, 3, 5); j.receives(3, 1, 5) }},
	{"sends-to-each-other", 2, CauseCycle, []int{0, 1}, func(j *job) {
		for n := range 2 {
			j.waits(n, ctl.Wait{What: "send", Why: "permission", Peer: fmt.Sprintf("job/%d", 1-n), Tag: 3, Bytes: 1 << 20})
		}
	}},
	{"ring", 6, CauseCycle, []int{0, 1, 2, 3, 4, 5}, func(j *job) {
		for n := range 6 {
			j.receives(n, (n+1)%6, 1)
		}
	}},
	{"broadcast-among-barriers", 4, CauseDisagreement, []int{2}, func(j *job) {
		j.breaks(func(n int, g *ctl.GroupStanding) { g.Mismatch = true })
		j.world(2).In = &ctl.GroupStep{Number: 7, Kind: "broadcast", Root: "job/0"}
	}},
	{"different-roots", 4, CauseDisagreement, []int{0}, func(j *job) {
		for n := range 4 {
			j.in(n, 7, "broadcast", "job/0")
		}
		j.in(0, 7, "broadcast", "job/1")
	}},
	{"skipped-one", 4, CauseElsewhere, []int{3}, func(j *job) { j.receives(3, 0, 9) }},
	{"operation-before", 4, CauseElsewhere, []int{1}, func(j *job) { j.in(1, 6, "broadcast", "job/0") }},
	{"two-groups-in-two-orders", 2, CauseCycle, []int{0, 1}, func(j *job) {
		j.out(1)
		for n := range 2 {
			j.Rows[n].Standing.Groups = append(j.Rows[n].Standing.Groups, ctl.GroupStanding{Group: "other", State: "open", Size: 2, Present: 2, Rank: n, Done: 3})
		}
		j.Rows[1].Standing.Groups[1].In = &ctl.GroupStep{Number: 4, Kind: "barrier"}
	}},
	{"part", 4, CauseOutside, []int{1}, func(j *job) {
		for n := range 2 {
			j.Rows[n].Standing.Groups = append(j.Rows[n].Standing.Groups, ctl.GroupStanding{Group: "aaaa", Index: 1 << 31, Part: true, State: "open", Size: 2, Present: 2, Rank: n, Done: 3})
			j.world(n).In = nil
		}
		j.outAllBut(2, 3)
		j.Rows[0].Standing.Groups[1].In = &ctl.GroupStep{Number: 4, Kind: "reduce"}
		j.Rows[1].Standing.Parked = false
	}},
	{"no-reply", 4, CauseNoReply, []int{0}, func(j *job) {
		j.waits(3, ctl.Wait{What: "reply", Peer: "job/0", Bytes: 8})
		j.waits(0, ctl.Wait{What: "receive", Any: true, Tag: 4})
	}},
	{"call-not-taken", 4, CauseElsewhere, []int{3}, func(j *job) {
		j.waits(3, ctl.Wait{What: "reply", Peer: "job/0", Bytes: 8})
		j.Rows[0].Standing.Unread = []ctl.Unread{{From: "job/3", Tag: 4, Bytes: 8}}
	}},
	{"outsider", 4, CauseOutsider, []int{2}, func(j *job) { j.waits(2, ctl.Wait{What: "reply", Peer: "server/0"}) }},
	{"unreachable", 4, CauseUnreachable, []int{2}, func(j *job) {
		j.waits(2, ctl.Wait{What: "send", Why: "link", Peer: "server/0", Tag: 2, Bytes: 10, Unreachable: true})
	}},
	{"waits-for-the-stopped", 8, CauseStopped, []int{5}, func(j *job) { j.state(5, ctl.RankStopped); j.receives(6, 5, 2); j.receives(7, 6, 2) }},
	{"the-example", 16, CauseStopped, []int{5}, func(j *job) {
		j.state(5, ctl.RankStopped)
		j.in(7, 6, "broadcast", "job/0")
		j.receives(9, 3, 7)
		j.receives(3, 9, 7)
	}},
	{"background", 4, CauseOutside, []int{1}, func(j *job) { // receives of libraries always wait
		j.state(1, ctl.RankRunning)
		j.receives2(0, ctl.Wait{What: "receive", Peer: "job/2", Port: 0xff01})
	}},
	{"before-the-first", 4, CauseOutside, []int{1}, func(j *job) {
		for n := range 4 {
			j.in(n, 1, "barrier", "")
		}
		j.state(1, ctl.RankSleeping)
	}},
	{"network", 4, CauseNetwork, nil, func(j *job) {}},
	{"embedded", 3, CauseStopped, []int{1}, func(j *job) {
		for n := range 3 {
			j.Rows[n].Standing, j.Rows[n].Attached = nil, false
		}
		j.Rows[1].State = ctl.RankStopped
	}},
	{"nothing", 2, CauseNone, nil, func(j *job) { j.outAll(); j.Rows[0].Standing.Parked, j.Rows[1].Standing.Parked = false, false }},
	{"no-rank", 0, CauseNone, nil, func(j *job) {}},
	{"all-have-left", 3, CauseNone, nil, func(j *job) { j.remove(0, 1, 2) }},
}

func (j *job) outAllBut(ranks ...int) {
	for n := range j.Rows {
		if !slices.Contains(ranks, n) {
			j.world(n).In, j.world(n).Done = nil, 7
		} else {
			j.world(n).In, j.world(n).Done = nil, 7
			j.Rows[n].Standing.Parked = false
		}
	}
}

// receives2 adds a wait to a rank that stays in its operation.
func (j *job) receives2(n int, w ctl.Wait) {
	j.Rows[n].Standing.Waits = append(j.Rows[n].Standing.Waits, w)
}

func TestEachJobThatHangsIsExplained(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			j := newJob(c.size)
			c.make(j)
			r := Analyze(j.Facts)
			if len(r.Causes) == 0 || r.Causes[0].Kind != c.kind || c.ranks != nil && !slices.Equal(r.Causes[0].Ranks, c.ranks) {
				t.Errorf("causes %+v; expected %s of ranks %v first", r.Causes, c.kind, c.ranks)
			}
			var b bytes.Buffer
			if err := r.Text(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, c.name+".txt", b.Bytes())
		})
	}
}

// golden compares a report with the one in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the report is\n%s\nexpected\n%s", got, want)
	}
}

func TestEveryReportInTestdataHasItsJob(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txt")
		if !slices.ContainsFunc(cases, func(c struct {
			name  string
			size  int
			kind  string
			ranks []int
			make  func(j *job)
		}) bool {
			return c.name == name
		}) {
			t.Errorf("no job makes %s", f)
		}
	}
}

func TestAReportSurvivesJSON(t *testing.T) {
	j := newJob(16)
	cases[0].make(j)
	r := Analyze(j.Facts)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(r, again) {
		t.Errorf("it comes back as %+v, %v", again, err)
	}
	for _, field := range []string{`"kind":"stopped"`, `"ranks":[5]`, `"waiting":15`, `"does":"operation"`, `"node":"h1"`} {
		if !bytes.Contains(b, []byte(field)) {
			t.Errorf("the JSON lacks %s", field)
		}
	}
}

// A host may report nonsense. The analysis ends, and leaves the nonsense out.
func TestRowsThatMakeNoSenseAreLeftOut(t *testing.T) {
	j := newJob(2)
	j.Rows = append(j.Rows, Row{RankInfo: ctl.RankInfo{Rank: -1}}, Row{RankInfo: ctl.RankInfo{Rank: 7}}, Row{RankInfo: ctl.RankInfo{Rank: 1, State: ctl.RankEnded}})
	j.receives(0, 0, 1) // from the rank itself
	j.waits(1, ctl.Wait{What: "surprise", Peer: "job/99"})
	j.Silent = []Silent{{Node: "h9", Ranks: []int{-3, 1, 99}}}
	j.Rows[1].Standing.Groups = append(j.Rows[1].Standing.Groups, ctl.GroupStanding{Group: "x", In: &ctl.GroupStep{Kind: "dance", Root: "nobody"}})
	r := Analyze(j.Facts)
	if len(r.Ranks) != 2 || r.Size != 2 || !r.Ranks[1].is(doesOperation) {
		t.Errorf("the report is %+v", r)
	}
	if !slices.ContainsFunc(r.Causes, func(c Cause) bool { return c.Kind == CauseCycle && slices.Equal(c.Ranks, []int{0}) }) {
		t.Errorf("a rank that waits for its own message is no cause: %+v", r.Causes)
	}
}

func (r *Rank) is(does string) bool { return r.Does == does }

// Each host of a large job may report the worst case. The time of the analysis is linear in the
// size of the reports.
func TestALargeJobIsAnalyzed(t *testing.T) {
	j := newJob(4096)
	for n := range 4096 {
		if n%2 == 1 {
			j.receives(n, (n+2)%4096, 1)
		}
	}
	r := Analyze(j.Facts)
	if len(r.Causes) == 0 || r.Causes[0].Kind != CauseCycle || len(r.Causes[0].Ranks) != 2048 || r.Causes[0].Waiting != 2048 {
		t.Errorf("%d causes, the first of kind %s with %d ranks, for which %d wait", len(r.Causes), r.Causes[0].Kind, len(r.Causes[0].Ranks), r.Causes[0].Waiting)
	}
	var b bytes.Buffer
	if err := r.Text(&b); err != nil || b.Len() > 16<<10 {
		t.Errorf("the text has %d bytes, %v", b.Len(), err)
	}
}

func TestNumbersAreListedInRuns(t *testing.T) {
	for want, n := range map[string][]int{"": nil, "3": {3}, "3, 4": {3, 4}, "0-2, 5, 7-9": {0, 1, 2, 5, 7, 8, 9}} {
		if got := numbersText(n); got != want {
			t.Errorf("%v is listed as %q; expected %q", n, got, want)
		}
	}
}

// If another launcher has started the job, its size is not reported. The size follows from the
// group that its ranks join.
func TestARankThatNeverCameIsMissedByTheGroupOfTheJob(t *testing.T) {
	j := newJob(6)
	j.remove(5)
	j.Size = 0
	for n := range j.Rows {
		g := j.world(n)
		g.Group, g.State, g.Present, g.In.Kind = "job", "joining", 5, "join"
	}
	r := Analyze(j.Facts)
	if r.Size != 6 || r.Causes[0].Kind != CauseNotAttached || !slices.Equal(r.Causes[0].Ranks, []int{5}) {
		t.Errorf("%d ranks, causes %+v; expected rank 5 of 6", r.Size, r.Causes)
	}
}
