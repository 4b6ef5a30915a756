package weft

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// Under mpiexec.hydra only the PMI server knows the name of the job, so the process has no name
// yet.
func TestARankThatFindsNoDaemonIsToldItsRankAndWhatNeedsNoDaemon(t *testing.T) {
	t.Setenv("PMI_SIZE", "4")
	t.Setenv("PMI_FD", "9")
	t.Setenv("WEFT_SOCKET", filepath.Join(t.TempDir(), "nic.sock"))
	for _, rank := range []string{"0", "1"} {
		t.Setenv("PMI_RANK", rank)
		_, err := Attach(t.Context(), AttachConfig{})
		if err == nil || !errors.Is(err, ErrNoDaemon) || !strings.HasPrefix(err.Error(), "weft: attach rank "+rank+" of a job of PMI-1: no NIC daemon") ||
			!strings.Contains(err.Error(), "weft.Open") {
			t.Errorf("rank %s: %v", rank, err)
		}
	}
}
