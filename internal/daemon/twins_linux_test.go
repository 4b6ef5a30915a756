package daemon_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/daemon"
)

// attachRank attaches a process of rank 1 of 2, as a pod of an Indexed Job does.
func attachRank(t *testing.T, c daemon.Config, incarnation int) (*weft.Process, error) {
	t.Helper()
	for name, value := range map[string]string{"WEFT_SIZE": "2", "JOB_COMPLETION_INDEX": "1", "JOB_NAME": "solver",
		"WEFT_JOB_KEY": "0123456789abcdef", "WEFT_INCARNATION": strconv.Itoa(incarnation)} {
		t.Setenv(name, value)
	}
	p, err := weft.Attach(t.Context(), weft.AttachConfig{Socket: c.Socket})
	if err == nil {
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return p, err
}

// The daemon takes the name from the earlier process. So the earlier process need not answer, and
// may hang.
func TestANewerPodOfARankReplacesTheEarlierOneOnAnotherHost(t *testing.T) {
	c := configs(t, 2)
	log := run(t, c...)
	older, err := attachRank(t, c[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, mustAttach(t, c[1], "other/0"), "solver/1")
	newer, err := attachRank(t, c[1], 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := older.Recv(t.Context(), weft.AnyProcess, weft.AnyTag, make([]byte, 8)); !errors.Is(err, weft.ErrNameLost) {
		t.Errorf("a receive of the earlier process ends with %v; expected ErrNameLost", err)
	}
	eventually(t, "the log of the earlier process's daemon tells of the lost name", func() bool {
		return strings.Contains(log.String(), `msg="another process has the name now" process=solver/1`)
	})
	a, err := newer.WaitName(t.Context(), newer.Name())
	if err != nil || a != newer.Address() {
		t.Errorf("%v is the process at %v, %v; expected %v", newer.Name(), a, err, newer.Address())
	}
	if _, err := attachRank(t, c[0], 1); !errors.Is(err, weft.ErrNameLost) {
		t.Errorf("the earlier process comes again: %v; expected ErrNameLost", err)
	}
}
