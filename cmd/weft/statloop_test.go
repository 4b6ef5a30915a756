package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/vni"
)

// loopReading returns a reading of a NIC that has made n polls of 2 µs, and was late by 3 ms once.
func loopReading(n int) *reading {
	l := &vni.Loop{LongestPollAt: 1, LongestLagAt: time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.Local).UnixNano()}
	for range n {
		l.Polls.Record(2 * time.Microsecond)
	}
	l.Lags.Record(3 * time.Millisecond)
	return &reading{info: &ctl.Info{NIC: 1}, at: time.Now(), values: make([]uint64, len(vni.Names())), loop: l}
}

func TestTheLoopIsPrintedWithItsLongestLag(t *testing.T) {
	var out bytes.Buffer
	if err := printStat(&out, &statOptions{loop: true}, nil, loopReading(70)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(fields(t, out.String(), "polls with work")[:5], " "); got != "polls with work 70 2µs" {
		t.Errorf("polls: %s", got)
	}
	if got := strings.Join(fields(t, out.String(), "lag"), " "); !strings.HasPrefix(got, "lag 1 3ms") || !strings.HasSuffix(got, " 3ms 2026-03-04 05:06:07.008") {
		t.Errorf("lags: %s", got)
	}
	out.Reset()
	if err := printStat(&out, &statOptions{loop: true}, loopReading(70), loopReading(75)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(fields(t, out.String(), "polls with work")[:5], " "); got != "polls with work 5 2µs" {
		t.Errorf("polls since the last reading: %s", got)
	}
}

func TestTheLoopInJSONHasTheTimeOfItsLongestLag(t *testing.T) {
	var out bytes.Buffer
	if err := printStat(&out, &statOptions{loop: true, json: true}, nil, loopReading(70)); err != nil {
		t.Fatal(err)
	}
	var got struct{ Polls, Lag durationsJSON }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Polls.Count != 70 || got.Lag.Most != uint64(3*time.Millisecond) || got.Lag.LongestAt.UnixNano() != loopReading(1).loop.LongestLagAt {
		t.Errorf("%s", &out)
	}
	if err := printStat(cannotWrite{syscall.ENOSPC}, &statOptions{loop: true}, nil, loopReading(1)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a reading that could not be printed: %v", err)
	}
}

func TestMemoryOfAnotherBuildIsRefused(t *testing.T) {
	mem := vni.AlignedBytes(vni.StatBytes)
	for _, o := range []*statOptions{{peers: true}, {loop: true}} {
		if _, err := moreOf(mem, o); err == nil {
			t.Errorf("memory that no NIC has formatted is read with %+v", *o)
		}
		if _, err := moreOf(mem[:vni.CounterPageBytes], o); err == nil || !strings.Contains(err.Error(), "the same build") {
			t.Errorf("short memory: %v", err)
		}
	}
}
