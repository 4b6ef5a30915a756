package stuck

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
)

// A hostile host may report anything. Analyze must always produce a report.
func TestWhateverHostsTellThereIsAReport(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 3))
		f := wild(r)
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Fatalf("seed %d: %v", seed, p)
				}
			}()
			report := Analyze(f)
			var b bytes.Buffer
			if err := report.Text(&b); err != nil || b.Len() == 0 {
				t.Fatalf("seed %d: %d bytes, %v", seed, b.Len(), err)
			}
		}()
	}
}

func wild(r *rand.Rand) (f Facts) {
	number := func() int { return []int{-1, 0, 1, 2, 3, 5, math.MinInt, math.MaxInt}[r.IntN(8)] }
	word := func(all ...string) string { return all[r.IntN(len(all))] }
	name := func() string {
		return word("", "job/0", "job/1", "job/4294967295", "/", "other/1", "job", "job/-1", "job/x")
	}
	kind := func() string { return word("", "barrier", "broadcast", "reduce", "shrink", "join", "?") }
	address := func() *ctl.Address {
		if r.IntN(3) == 0 {
			return nil
		}
		return &ctl.Address{NIC: 1, Slot: uint16(number())}
	}
	f = Facts{Job: "job", Size: min(number(), 64), Hosts: number()}
	for range r.IntN(6) {
		row := Row{Node: word("", "h1", "h2")}
		row.Rank, row.PID = max(0, min(number(), 60)), number()
		row.State = word("", ctl.RankRunning, ctl.RankStopped, ctl.RankEnded, ctl.RankSleeping,
			ctl.RankTraced, ctl.RankUninterruptible, "?")
		row.Attached, row.Cause = r.IntN(2) == 0, word("", "exit status 0", "exit status 1")
		if r.IntN(4) > 0 {
			s := &ctl.Standing{Parked: r.IntN(2) == 0, MoreGroups: number(), MoreWaits: number(), MoreUnread: number()}
			for range r.IntN(4) {
				g := ctl.GroupStanding{Group: word("", "job", "other"), Index: uint32(r.IntN(2)), Part: r.IntN(4) == 0,
					State: word("", "joining", "open", "broken"),
					Size:  number(), Present: number(), Rank: number(), Under: number(), Done: uint32(number()), For: int64(number()), Mismatch: r.IntN(4) == 0,
					Lost: name(), LostAt: address()}
				if r.IntN(3) > 0 {
					g.In = &ctl.GroupStep{Number: uint32(number()), Kind: kind(), Root: name()}
				}
				s.Groups = append(s.Groups, g)
			}
			for range r.IntN(4) {
				s.Waits = append(s.Waits, ctl.Wait{
					What: word("", "receive", "reply", "send", "answer", "put", "name", "multicast", "?"),
					Why:  word("", "name", "accept", "arriving", "?"), Peer: name(), At: address(), Any: r.IntN(2) == 0,
					Unreachable: r.IntN(4) == 0, Tag: uint64(number()), AnyTag: r.IntN(2) == 0, For: int64(number())})
				s.Unread = append(s.Unread, ctl.Unread{From: name(), At: address(), Tag: uint64(number()), For: int64(number())})
			}
			row.Standing = s
		}
		f.Rows = append(f.Rows, row)
	}
	for range r.IntN(3) {
		f.Silent = append(f.Silent, Silent{Node: fmt.Sprint("s", r.IntN(3)), Why: "no answer in time", Ranks: []int{number() % 64}})
	}
	return f
}
