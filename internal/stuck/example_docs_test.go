package stuck

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
)

// In the example, the ranks are in their first operation, but rank 2 waits for a message that
// never arrives.
func TestTheExampleInTheDocsIsWhatAReportSays(t *testing.T) {
	const id, since = "job-e1ac0197", int64(2 * time.Second)
	f := Facts{Job: id, Size: 12, Hosts: 3}
	for n := range f.Size {
		g := ctl.GroupStanding{Group: id, State: "open", Size: f.Size, Present: f.Size, Rank: n, For: since, In: &ctl.GroupStep{Number: 1, Kind: "barrier"}, Under: 1}
		r := ctl.RankInfo{Rank: n, PID: 553 + n, State: ctl.RankSleeping, Attached: true, Standing: &ctl.Standing{Parked: true}}
		if n == 2 {
			g.In, g.Under = nil, 0
			r.Standing.Waits = []ctl.Wait{{What: "receive", Peer: fmt.Sprintf("%s/%d", id, 5), Tag: 7, Bytes: 8, For: since}}
		}
		r.Standing.Groups = []ctl.GroupStanding{g}
		f.Rows = append(f.Rows, Row{RankInfo: r, Node: fmt.Sprintf("h%d", 1+n/4)})
	}
	report := Analyze(f)
	var b bytes.Buffer
	if err := report.Text(&b); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/machine.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```\n"+b.String()+"```\n") {
		t.Errorf("docs/machine.md lacks this report:\n%s", b.String())
	}
}
