package nic

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// eventOnly holds the counters that the scenarios of this package need not move, with the reason.
var eventOnly = map[vni.Counter]string{
	vni.RelWindowFull:           "4,096 segments under way at once; internal/rel has tests with a full window",
	vni.RelReceivedBeyondWindow: "only a sender that breaks the protocol; internal/rel has tests with one",
	vni.DropAddress:             "a switch tells the true sender; internal/rel has tests with forged ones",
	vni.DropStaleHello:          "a hello overtaken by a later life; internal/rel has tests with some",
	vni.DropVersion:             "a NIC of another version; internal/rel has tests with some",
	vni.DropFault:               "only the fault hooks of internal/rel, which has tests with them",
	vni.NICCreditsRecalled:      "a credit that was idle while others waited; the simulator's crowded seeds meet it",
	vni.NICNameConflicts:        "claims that met after a partition; the simulator's partitions meet it",
	vni.NICTransitBytesNow:      "a level, and back at 0 when a test ends, or Leaks would complain",
	vni.RelPathDoubts:           "a switch in memory carries whole frames; the simulator's narrow paths meet it",
	vni.RelPathsNarrowed:        "so they do this",
	vni.RelPathsWidened:         "and this",
	vni.RelPartsSent:            "and this",
	vni.RelPartsReceived:        "and this",
	vni.RelDatagramsIncomplete:  "and a switch in memory loses no pieces; internal/rel has tests with lost ones",
	vni.RelDatagramsNoRoom:      "as many pieces of as many peers; internal/rel has tests with some",
	vni.NICProgramsLost:         "messages for programs that were out when a session ended; the simulator's workshops meet it",
	vni.NICProgramDatagramsLost: "as many datagrams of programs as cannot leave; the same",
	vni.LinkSystemCalls:         "a switch in memory makes none",
	vni.LinkFramesBatched:       "nor does it send batches",
	vni.LinkFramesCopied:        "or take one in one step",
	vni.LinkECNMarked:           "or mark frames",
	vni.LinkDroppedOut:          "a switch in memory refuses, and drops nothing",
	vni.LinkCaptureMissed:       "and writes no capture; internal/link/capture has tests with full disks",
	vni.NICSendsDelayed:         "sends that a guard lets go later; the simulator's guards meet it",
	vni.NICSendsRefused:         "and that it refuses",
}

// moved holds the counts of the engines of all tests.
var moved struct {
	sync.Mutex
	counts [512]uint64
}

// tally adds the counts of an engine at the end of its test.
func tally(e *Engine) {
	moved.Lock()
	defer moved.Unlock()
	for i := range vni.Names() {
		moved.counts[i] += e.Count(vni.Counter(i))
	}
}

// TestMain checks, when all tests have run, that some scenario has moved every counter.
func TestMain(m *testing.M) {
	status := m.Run()
	if status == 0 && !testing.Short() && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == "" {
		for i, name := range vni.Names() {
			if _, excused := eventOnly[vni.Counter(i)]; moved.counts[i] == 0 && !excused {
				fmt.Printf("counter %s: no test has moved it\n", name)
				status = 1
			}
		}
	}
	os.Exit(status)
}

func TestEveryCounterHasASource(t *testing.T) { // decision 17
	list, err := os.ReadFile("../vni/counters.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^\t((?:Rel|Drop|NIC|Link)\w+)`).FindAllStringSubmatch(string(list), -1)
	if len(names) != len(vni.Names()) {
		t.Fatalf("found %d counters of %d in the list", len(names), len(vni.Names()))
	}
	var files []string
	for _, dir := range []string{".", "../names", "../coll", "../relay", "../program", "../rel"} {
		found, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(found) == 0 {
			t.Fatal(dir, err)
		}
		files = append(files, found...)
	}
	var source strings.Builder
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(b)
	}
	for i, n := range names {
		if !regexp.MustCompile(`\bvni\.` + n[1] + `\b|counter:"` + vni.Names()[i] + `"`).MatchString(source.String()) {
			t.Errorf("nothing counts %s", n[1])
		}
	}
}

func TestWhatHappensSeldomIsCounted(t *testing.T) { // decision 17
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	grows := func(e *Engine, c vni.Counter, what func()) {
		t.Helper()
		before := e.Count(c)
		what()
		f.until(5*time.Second, c.String(), func() bool { return e.Count(c) > before })
	}
	grows(b.e, vni.DropShort, func() {
		stranger := f.sw.Port()
		if buf := stranger.Reserve(mem.Address(2)); buf != nil {
			stranger.Commit(3)
			stranger.Flush(f.now)
		}
	})
	grows(b.e, vni.DropKind, func() { // a kind that does not exist yet
		stranger := f.sw.Port()
		if buf := stranger.Reserve(mem.Address(2)); buf != nil {
			o := wire.Outer{Kind: 15, Index: 1, Counter: 1}
			o.Put(buf)
			stranger.Commit(wire.OuterLen)
			stranger.Flush(f.now)
		}
	})
	grows(a.e, vni.NICResolves, func() {
		a.finish(false, a.start(vni.CodeResolve, &vni.SendContext{Receiver: b.name, Flags: vni.WantNotify}, nil))
	})
	grows(a.e, vni.NICCalls, func() {
		i, _ := a.v.TakeSend()
		a.v.SetSend(i, &vni.SendContext{Receiver: b.name, Flags: vni.WantNotify | vni.IsCall, Token: callToken | 1<<16 | uint32(i), PoolIndex: vni.NoPool})
		a.post(vni.Command{Code: vni.CodeSend, Context: uint16(i)})
		a.finish(false, i)
	})
	id, key, err := b.e.AddRegion(b.slot, make([]byte, 4096))
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, offset uint64) {
		to := vni.Remote{NIC: 2, Slot: b.slot, Gen: b.gen, Region: id, Key: key, Offset: offset}
		a.finish(false, a.start(vni.CodePut, &vni.SendContext{Remote: to, Flags: vni.WantNotify}, make([]byte, 100)))
	}
	grows(b.e, vni.NICRefusedKey, func() { put(key+1, 0) })
	grows(b.e, vni.NICRefusedRange, func() { put(key, 4000) })
	grows(b.e, vni.NICWakes, func() {
		buf := make([]byte, 10)
		i := b.recv("a/0", 9, 0, buf)
		b.v.SetSleeping(true)
		a.wantSent(a.send("b/0", 9, 0, buf))
		b.finish(true, i)
		b.v.SetSleeping(false)
	})
}

func TestARestartIsCounted(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	later, err := New(Config{ID: 2, Incarnation: 2, Secrets: secret.Seeded(9), Link: f.engines[1].cfg.Link})
	if err != nil {
		t.Fatal(err)
	}
	f.engines[1] = later
	if err := later.AddNode(1, mem.Address(1)); err != nil {
		t.Fatal(err)
	}
	f.until(5*time.Second, "the news", func() bool { return f.engines[0].Count(vni.RelDownRestarted) == 1 })
}
