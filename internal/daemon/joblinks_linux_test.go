package daemon_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
)

// A job uses the link on which its launcher is attached. The slots belong to the host, whichever
// link the ranks use (NETSTAR-8).
func TestJobsOfTwoLinksShareTheSlotsOfTheHost(t *testing.T) {
	c, slots := twoLinks(t, 1)[0], 4
	c.Slots, c.Keeper = &slots, keeping("starts")
	run(t, c)
	slow := c
	slow.Socket += "#slow0"
	here, there := launch(t, c), launch(t, slow)
	if here.launcher.NIC == there.launcher.NIC {
		t.Fatal("both launchers are on one NIC")
	}
	r := there.reserve(t, 0, there.wants(3, func(r *ctl.Reserve) { r.Link = "slow0" }))
	if !r.Ready || r.NIC != there.launcher.NIC {
		t.Fatalf("reply %+v", r)
	}
	eventually(t, "the keeper is attached to its link", func() bool {
		all := links(t, c)
		return all[0].Processes == 1 && all[1].Processes == 2
	})
	if s, err := here.conn.NIC(0).Job(t.Context(), &ctl.Job{What: ctl.JobSlots}); err != nil || s.Slots != 4 || s.Free != 1 {
		t.Errorf("by fast0 there are slots %+v, %v; expected 1 of 4 free", s, err)
	}
	other := func(r *ctl.Reserve) { r.Job = "job-0badcafe" }
	if no := here.reserve(t, 0, here.wants(2, other)); fmt.Sprint(causes(no)) != "[slots]" {
		t.Errorf("two more ranks by fast0 are refused for %+v; expected the slots", no.Refusals)
	}
	if jobs, err := here.conn.NIC(0).Jobs(t.Context()); err != nil || len(jobs) != 0 {
		t.Errorf("fast0 lists %+v, %v; expected no job of slow0", jobs, err)
	}
}

func TestAReservationThatNamesAnotherLinkIsRefused(t *testing.T) {
	c := twoLinks(t, 1)[0]
	c.Keeper = keeping("starts")
	run(t, c)
	l := launch(t, c)
	for link, want := range map[string]string{"slow0": `is on the link "fast0" of its daemon`, "fast7": `the daemon has no link "fast7"; it has fast0, slow0`} {
		no := l.reserve(t, 0, l.wants(1, func(r *ctl.Reserve) { r.Link = link }))
		if fmt.Sprint(causes(no)) != "[link]" || !strings.Contains(no.Refusals[0].Text, want) {
			t.Errorf("a reservation on %s by fast0 is refused for %+v; expected %q", link, no.Refusals, want)
		}
	}
}

func TestAMachineHasTheNICsOfItsLink(t *testing.T) {
	c := twoLinks(t, 1)[0]
	run(t, c)
	tool, ids := dial(t, c.Socket, ""), links(t, c)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for i, link := range []string{"", "slow0"} {
		m := &ctl.Machine{Name: "m", Link: link, Nodes: []ctl.MachineNode{{Name: host}}}
		r, err := tool.NIC(0).Job(t.Context(), &ctl.Job{What: ctl.JobMachineSet, Machine: m})
		if err != nil || len(r.Machines) != 1 || r.Machines[0].Nodes[0].NIC != registry.NICID(ids[i].NIC) {
			t.Errorf("a machine of link %q is %+v, %v; expected the NIC of %+v", link, r, err, ids[i])
		}
	}
	_, err = tool.NIC(0).Job(t.Context(), &ctl.Job{What: ctl.JobMachineSet, Machine: &ctl.Machine{Name: "m", Link: "fast7", Nodes: []ctl.MachineNode{{Name: host}}}})
	if err == nil || !strings.Contains(err.Error(), `"fast7"; this daemon has fast0, slow0`) {
		t.Errorf("a machine of link fast7: %v", err)
	}
}
