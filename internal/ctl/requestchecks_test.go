package ctl

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/limits"
)

// remoteOps holds the operations that one NIC may ask another for.
var remoteOps = []string{OpStat, OpNodes, OpNames, OpProcesses, OpGroups, OpMemory, OpProgram, OpJob}

// wholeRequests returns a good request of each operation.
func wholeRequests() (all []*Request) {
	for _, r := range []Request{
		{Op: OpAttach, Attach: &Attach{}}, {Op: OpAlloc, Alloc: &Alloc{}}, {Op: OpRegister, Given: &Register{}},
		{Op: OpPart, Part: &Part{}}, {Op: OpFree, Free: &Free{}}, {Op: OpShare, Segment: &SharedSegment{}},
		{Op: OpUnshare, Segment: &SharedSegment{}}, {Op: OpSegment, Tool: &SegmentTool{Do: SegmentRead}},
		{Op: OpProgram, Program: &Program{Do: ProgramList}}, {Op: OpJob, Job: &Job{What: JobList}},
		{Op: OpLeave}, {Op: OpStat}, {Op: OpNodes}, {Op: OpNames}, {Op: OpProcesses}, {Op: OpGroups}, {Op: OpMemory},
		{Op: OpCheck}, {Op: OpThrown}, {Op: OpSegments}, {Op: OpLinks}, {Op: OpShutdown},
		{Op: OpReload, Reload: &Reload{}}, {Op: OpNode, Node: &NodeChange{Do: NodeAdd, Node: "10.0.0.2"}},
	} {
		r.Version = Version
		all = append(all, &r)
	}
	return all
}

// wholeReserve returns a good reservation with each bound at its largest value.
func wholeReserve() *Reserve {
	return &Reserve{
		Job: "job-0123abcd", Restart: mostRestarts, Host: limits.JobHosts - 1, Size: limits.JobSize, Ranks: limits.RanksPerHost,
		First: limits.JobSize - limits.RanksPerHost, Launcher: Address{NIC: 1, Slot: 1}, SHA256: strings.Repeat("a", 64),
		Version: strings.Repeat("v", 64), Link: strings.Repeat("l", 64), Machine: strings.Repeat("m", limits.MachineNameBytes),
		Program: "/" + strings.Repeat("p", limits.PathBytes-1), Dir: "/",
	}
}

// wholeMachine returns a good machine with each bound at its largest value.
func wholeMachine() *Machine {
	nodes := slices.Repeat([]MachineNode{{Name: "h1"}, {NIC: 7}}, limits.MachineNodes/2)
	return &Machine{Name: "m", Nodes: nodes, Slots: limits.SlotsPerHost, Link: strings.Repeat("l", 64)}
}

func TestARequestOfEachOperationIsTakenAndNoneWithoutItsArguments(t *testing.T) {
	for _, r := range wholeRequests() {
		if err := r.check(); err != nil {
			t.Errorf("%s: %v", r.Op, err)
		}
		bare := Request{Version: Version, Op: r.Op}
		argued := r.Attach != nil || r.Alloc != nil || r.Given != nil || r.Part != nil || r.Free != nil ||
			r.Segment != nil || r.Tool != nil || r.Program != nil || r.Job != nil || r.Reload != nil || r.Node != nil
		err := bare.check()
		if argued && (!errors.Is(err, ErrBadRequest) || !strings.Contains(err.Error(), "without its arguments")) || !argued && err != nil {
			t.Errorf("%s without arguments: %v", r.Op, err)
		}
	}
}

// A process must not attach, allocate or end the daemon at another NIC through its own.
func TestOnlyRequestsThatLookOrThatTheOtherNICAuthorisesGoToAnotherNIC(t *testing.T) {
	for _, r := range wholeRequests() {
		r.NIC = 7
		err := r.check()
		if remote := slices.Contains(remoteOps, r.Op); r.Remote() != remote || remote != (err == nil) || err != nil && !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s of another NIC: remote %v, %v", r.Op, r.Remote(), err)
		}
		lost := slices.Contains(append(remoteOps, OpCheck, OpThrown, OpSegments, OpLinks), r.Op)
		if r.forgoes() != lost {
			t.Errorf("the reply to %s may be lost: %v", r.Op, r.forgoes())
		}
	}
	for _, what := range []string{JobMachineSet, JobMachineGet, JobMachineList, JobMachineDelete} {
		r := Request{Version: Version, Op: OpJob, NIC: 7, Job: &Job{What: what, Machine: wholeMachine()}}
		if err := r.check(); !errors.Is(err, ErrBadRequest) || r.Remote() {
			t.Errorf("%s of another NIC: %v", what, err)
		}
	}
	if r := (&Request{Op: OpJob}); r.Remote() {
		t.Error("a request about jobs without its arguments goes to another NIC")
	}
}

func TestABadPartOfARequestIsRefusedBeforeTheDaemonLooksAtTheRest(t *testing.T) {
	for what, r := range map[string]Request{
		"a list from below 0":         {Op: OpNodes, From: -1},
		"a link that is no name":      {Op: OpStat, Link: "a/b"},
		"an unknown segment request":  {Op: OpSegment, Tool: &SegmentTool{Do: "fly"}},
		"an unknown program request":  {Op: OpProgram, Program: &Program{Do: "fly"}},
		"an unknown kind of resident": {Op: OpProgram, Program: &Program{Do: ProgramList, Resident: "cloud"}},
		"an unknown job request":      {Op: OpJob, Job: &Job{What: "fly"}},
		"an unknown change of nodes":  {Op: OpNode, Node: &NodeChange{Do: "fly", Node: "10.0.0.2"}},
		"a change of no node":         {Op: OpNode, Node: &NodeChange{Do: NodeAdd}},
		"a node without end":          {Op: OpNode, Node: &NodeChange{Do: NodeAdd, Node: strings.Repeat("a", maxNodeText+1)}},
		"no operation":                {},
	} {
		r.Version = Version
		if err := r.check(); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := (&Request{Version: Version, Op: OpStat, Link: "fast0"}).check(); err != nil {
		t.Errorf("a good link: %v", err)
	}
	for _, resident := range []string{"", ResidentVM, ResidentXDP, ResidentAuto} {
		for _, do := range []string{ProgramPut, ProgramPrepare, ProgramCommit, ProgramUndo, ProgramSettle, ProgramUnload, ProgramStart, ProgramSend, ProgramList, ProgramLog} {
			if err := (&Program{Do: do, Resident: resident}).check(); err != nil {
				t.Errorf("%s of a program, resident %q: %v", do, resident, err)
			}
		}
	}
}

func TestEachBoundOfAReservationIsKept(t *testing.T) {
	if err := wholeReserve().check(); err != nil {
		t.Fatal(err)
	}
	least := &Reserve{Job: "job-00000000", Size: 1, Ranks: 1, Launcher: Address{NIC: 1, Slot: 1}, Program: "/p", Dir: "/" + strings.Repeat("d", limits.PathBytes-1)}
	if err := least.check(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Reserve){
		"job":                   func(r *Reserve) { r.Job += "0" },
		"restart -1":            func(r *Reserve) { r.Restart = -1 },
		"restart":               func(r *Reserve) { r.Restart++ },
		"host -1":               func(r *Reserve) { r.Host = -1 },
		"host":                  func(r *Reserve) { r.Host++ },
		"size 0":                func(r *Reserve) { r.Size, r.Ranks, r.First = 0, 0, 0 },
		"size":                  func(r *Reserve) { r.Size++ },
		"no rank":               func(r *Reserve) { r.Ranks = 0 },
		"ranks":                 func(r *Reserve) { r.Ranks++; r.First-- },
		"first -1":              func(r *Reserve) { r.First = -1 },
		"first":                 func(r *Reserve) { r.First++ },
		"launcher without NIC":  func(r *Reserve) { r.Launcher.NIC = 0 },
		"launcher without slot": func(r *Reserve) { r.Launcher.Slot = 0 },
		"sha256":                func(r *Reserve) { r.SHA256 += "a" },
		"memory":                func(r *Reserve) { r.MemoryBytes = -1 },
		"version":               func(r *Reserve) { r.Version += "v" },
		"link":                  func(r *Reserve) { r.Link += "l" },
		"machine":               func(r *Reserve) { r.Machine += "m" },
		"program":               func(r *Reserve) { r.Program += "p" },
		"relative program":      func(r *Reserve) { r.Program = "bin/true" },
		"dir":                   func(r *Reserve) { r.Dir = "/" + strings.Repeat("d", limits.PathBytes) },
		"dir with a zero":       func(r *Reserve) { r.Dir = "/a\x00b" },
	} {
		r := wholeReserve()
		change(r)
		for _, err := range []error{r.check(), (&Job{What: JobReserve, Reserve: r}).check()} {
			if !errors.Is(err, ErrBadRequest) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

func TestEachBoundOfAMachineIsKept(t *testing.T) {
	if err := wholeMachine().check(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Machine){
		"no name":        func(m *Machine) { m.Name = "" },
		"a long name":    func(m *Machine) { m.Name = strings.Repeat("m", limits.MachineNameBytes+1) },
		"a name of dots": func(m *Machine) { m.Name = "." },
		"nodes":          func(m *Machine) { m.Nodes = append(m.Nodes, MachineNode{NIC: 1}) },
		"slots -1":       func(m *Machine) { m.Slots = -1 },
		"slots":          func(m *Machine) { m.Slots++ },
		"link":           func(m *Machine) { m.Link += "l" },
		"an empty node":  func(m *Machine) { m.Nodes[3] = MachineNode{} },
		"a bad host":     func(m *Machine) { m.Nodes[3] = MachineNode{Name: "a b", NIC: 7} },
	} {
		m := wholeMachine()
		change(m)
		if err := m.check(); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s: %v", what, err)
		}
		if err := (&Job{What: JobMachineSet, Machine: m}).check(); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s in a request: %v", what, err)
		}
	}
	if err := CheckMachineName(strings.Repeat("m", limits.MachineNameBytes)); err != nil {
		t.Errorf("the longest name: %v", err)
	}
	for _, name := range []string{"", strings.Repeat("m", limits.MachineNameBytes+1), "-m", "m/n"} {
		if err := CheckMachineName(name); err == nil {
			t.Errorf("the name %q is taken", name)
		}
	}
}

func TestRequestsAboutJobsAreChecked(t *testing.T) {
	for _, c := range []struct {
		j    Job
		good bool
	}{
		{Job{What: JobReserve, Reserve: wholeReserve()}, true},
		{Job{What: JobReserve}, false},
		{Job{What: JobStuck, ID: strings.Repeat("a", limits.NameBytes)}, true},
		{Job{What: JobStuck, ID: strings.Repeat("a", limits.NameBytes+1)}, false},
		{Job{What: JobStuck, ID: "A"}, false},
		{Job{What: JobStuck}, false},
		{Job{What: JobKill, ID: "job-0123abcd.9999", Grace: int64(limits.MostJobGrace)}, true},
		{Job{What: JobKill, ID: "job-0123abcd", Grace: int64(limits.MostJobGrace) + 1}, false},
		{Job{What: JobKill, ID: "job-0123abcd", Grace: -1}, false},
		{Job{What: JobKill, ID: "job-0123abcd"}, true},
		{Job{What: JobKill, ID: "job-0123abcd.0"}, false},
		{Job{What: JobKill}, false},
		{Job{What: JobList}, true},
		{Job{What: JobList, ID: "job"}, false},
		{Job{What: JobSlots}, true},
		{Job{What: JobMachineList}, true},
		{Job{What: JobMachineSet, Machine: wholeMachine()}, true},
		{Job{What: JobMachineSet}, false},
		{Job{What: JobMachineGet}, false},
		{Job{What: JobMachineDelete}, false},
		{Job{What: JobMachineDelete, Machine: &Machine{Name: "m"}}, true},
	} {
		if err := c.j.check(); c.good != (err == nil) || err != nil && !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s of job %q: %v; expected that it is good: %v", c.j.What, c.j.ID, err, c.good)
		}
	}
	if r := (&Reserve{Job: "job-0123abcd", Restart: 2}); r.Application() != "job-0123abcd.2" || KeeperApplication(r.Job, 0) != "job-0123abcd.run" {
		t.Errorf("the ranks are %s, the keepers of the first start %s", r.Application(), KeeperApplication(r.Job, 0))
	}
}
