package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/vni"
)

// readings returns the source of a NIC that is read once in each of its lives. It counts less in
// each.
func readings(lives ...uint64) statSource {
	return func(context.Context) (reading, error) {
		if len(lives) == 0 {
			return reading{}, errors.New("no more")
		}
		r := reading{info: &ctl.Info{NIC: 7, Incarnation: lives[0]}, at: time.Now(), values: make([]uint64, len(vni.Names()))}
		r.values[vni.RelSends] = uint64(1000 * len(lives))
		lives = lives[1:]
		return r, nil
	}
}

// The growth was once printed as 18446744073709550616.
func TestANICThatRestartsWhileItIsWatchedIsReadAnew(t *testing.T) {
	var out bytes.Buffer
	if err := watchStat(t.Context(), &out, &statOptions{watch: time.Millisecond}, readings(41, 42)); err == nil || err.Error() != "no more" {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "NIC 0:0:0:0:0:0:0:7") != 2 || !strings.Contains(text, "incarnation 42") || !strings.Contains(text, " 1000  "+vni.RelSends.String()) {
		t.Errorf("watched over a restart:\n%s", text)
	}
}

// An incarnation is a time in nanoseconds, with more digits than a float64 holds.
func TestTheIncarnationInJSONIsExact(t *testing.T) {
	var out bytes.Buffer
	if err := watchStat(t.Context(), &out, &statOptions{json: true}, readings(1795699261000000123)); err != nil {
		t.Fatal(err)
	}
	var any map[string]any
	if err := json.Unmarshal(out.Bytes(), &any); err != nil || any["incarnation"] != "1795699261000000123" {
		t.Errorf("incarnation %v, %v", any["incarnation"], err)
	}
}
