package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/vni"
)

// cannotWrite is an output on which every write fails.
type cannotWrite struct{ err error }

func (c cannotWrite) Write([]byte) (int, error) { return 0, c.err }

func TestLostOutputFailsACommand(t *testing.T) {
	lines := []string{"pdl run ../../examples/programs/ping.pdl", "--version", "stat --help", "nic --sample"}
	if !testing.Short() { // a simulation is long under the race detector
		lines = append(lines, "sim --seed 10", "sim --seed 10 --json")
	}
	for _, line := range lines {
		var stderr bytes.Buffer
		status := run(t.Context(), strings.Fields(line), cannotWrite{syscall.ENOSPC}, &stderr)
		if status != exitFailed || stderr.String() != "weft: no space left on device\n" {
			t.Errorf("weft %s, whose output has no room: status %d, standard error %q", line, status, &stderr)
		}
	}
}

func TestACommandThatOutlivesItsReaderDoesNotFailByThat(t *testing.T) {
	out := &printed{to: cannotWrite{syscall.EPIPE}}
	if _, err := io.WriteString(out, "not read"); !errors.Is(err, syscall.EPIPE) || out.lost() != nil {
		t.Errorf("the writer is told %v, and the command fails by %v", err, out.lost())
	}
}

func TestReadingsThatAreLostEndTheirSeries(t *testing.T) {
	now := &reading{info: &ctl.Info{}, values: make([]uint64, len(vni.Names()))}
	for _, o := range []*statOptions{{}, {json: true}} {
		if err := printStat(cannotWrite{syscall.ENOSPC}, o, nil, now); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a reading that could not be printed, json %v: %v", o.json, err)
		}
	}
}
