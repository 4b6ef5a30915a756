package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// holding counts the resources that a daemon holds on behalf of processes.
type holding struct {
	files      int // file descriptors
	maps       int // memory mappings that it shares with processes
	goroutines int
	processes  uint64
	staged     uint64
	groups     uint64
}

// holds looks at the daemon from outside, and asks it for its counters.
func (r *hostileRun) holds() (h holding, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	info, counters, err := r.daemon.stat(ctx)
	if err != nil {
		return h, err
	}
	h.goroutines = info.Goroutines
	h.processes, h.staged, h.groups = counters[vni.NICProcessesNow.String()],
		counters[vni.NICStagedBytesNow.String()], counters[vni.NICGroupsNow.String()]
	proc := fmt.Sprintf("/proc/%d/", r.daemon.Process.Pid)
	files, err := os.ReadDir(proc + "fd")
	if err != nil {
		return h, err
	}
	h.files = len(files)
	maps, err := os.ReadFile(proc + "maps")
	h.maps = strings.Count(string(maps), "memfd:weft")
	return h, err
}

// within reports whether no count of h is larger than in was.
func (h holding) within(was holding) bool {
	return h.files <= was.files && h.maps <= was.maps && h.goroutines <= was.goroutines &&
		h.processes <= was.processes && h.staged <= was.staged && h.groups <= was.groups
}

// settledLooks is how many looks in a row must agree before a daemon that has just come up
// counts as at rest.
const settledLooks = 5

// settled waits until a new daemon is at rest, and returns what it holds. The daemon answers
// before the last of its goroutines has begun.
func (r *hostileRun) settled() (h holding, err error) {
	same := 0
	h, ok, err := r.look(patience, func(now, last holding) bool {
		if same++; now != last {
			same = 1
		}
		return same == settledLooks
	})
	if err == nil && !ok {
		err = fmt.Errorf("bench: what a daemon without processes holds still changes after %v: %+v", patience, h)
	}
	return h, err
}

// letGo waits until the daemon holds no more than before. All processes have gone.
func (r *hostileRun) letGo(before holding) error {
	now, ok, err := r.look(patienceAmongHostile, func(now, _ holding) bool { return now.within(before) })
	if err == nil && !ok {
		err = fmt.Errorf("bench: when all have gone the daemon holds %+v; before they came it held %+v", now, before)
	}
	return err
}

// look looks at the daemon at intervals until should returns true, or for the time d. should
// gets the counts now and at the last look.
func (r *hostileRun) look(d time.Duration, should func(now, last holding) bool) (now holding, ok bool, err error) {
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		last := now
		if now, err = r.holds(); err != nil {
			return now, false, errors.Join(err, r.daemon.alive())
		}
		if should(now, last) {
			return now, true, nil
		}
	}
	return now, false, nil
}

// named finds the line in which the daemon names a process of a kind that it has thrown out. The
// daemon has ended.
func (r *hostileRun) named(kind string) string {
	for line := range strings.Lines(r.daemon.stderr.String()) {
		if strings.Contains(line, `msg="process thrown out"`) && strings.Contains(line, "process=evil-"+kind+"/") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
