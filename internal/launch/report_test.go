package launch

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// manyRanks is a set with the largest number of ranks of a host.
type manyRanks struct{ Set }

func (manyRanks) Inspect() []ctl.RankInfo {
	all := make([]ctl.RankInfo, limits.RanksPerHost)
	for i := range all {
		all[i] = ctl.RankInfo{Rank: i, PID: 4194304 - i, State: ctl.RankRunning}
	}
	return all
}

// asksOnce is a daemon that requests one report, and receives packets like the link.
type asksOnce struct {
	end   context.CancelFunc
	asked bool
	ranks int
	whole bool
}

func (d *asksOnce) Told(context.Context) (*ctl.ToKeeper, error) {
	if d.asked {
		d.end()
		return nil, errors.New("the end of the test")
	}
	d.asked = true
	return &ctl.ToKeeper{Report: true}, nil
}

func (d *asksOnce) Answer(m *ctl.FromKeeper) error {
	if b, err := json.Marshal(m); err != nil || len(b) > ctl.MaxMessage {
		return errors.New("too long")
	}
	d.ranks += len(m.Ranks)
	d.whole = m.Report
	return nil
}

func TestAKeeperReportsAllRanksOfAFullHost(t *testing.T) {
	d := &asksOnce{}
	k := &keeper{daemon: d, set: manyRanks{}}
	k.ctx, d.end = context.WithCancel(t.Context())
	k.obeyDaemon()
	if d.ranks != limits.RanksPerHost || !d.whole {
		t.Errorf("%d ranks, whole: %v", d.ranks, d.whole)
	}
}

// The cause of an end may name a path of any bytes.
func TestACauseOfAnyBytesArrives(t *testing.T) {
	for name, text := range map[string]string{
		"bytes that are no UTF-8":         "start /" + strings.Repeat("\xff", 500),
		"a character across the bound":    strings.Repeat("x", maxAbortText-1) + "漢字",
		"another character across it":     strings.Repeat("x", maxAbortText-2) + "漢字",
		"many bytes that are no UTF-8":    strings.Repeat("\xfe ", maxAbortText),
		"less than the bound":             "漢字",
		"as long as the bound, and valid": strings.Repeat("x", maxAbortText),
	} {
		for _, m := range []message{&Summary{Failure: short(text), NotStarted: true}, &endedMsg{Exit: Exit{Cause: short(text)}}} {
			got, err := parse(m.append(nil), true)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if e, is := got.(*endedMsg); is && e.Cause != short(text) {
				t.Errorf("%s: the cause %q arrived as %q", name, short(text), e.Cause)
			}
		}
	}
}
