package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/nic"
)

// If no NIC confirms an attach in time, the error names that cause, and not only a deadline that
// the caller never set.
func TestAnAttachThatNoNICConfirmsNamesTheCause(t *testing.T) {
	err := unconfirmed(context.DeadlineExceeded)
	if !errors.Is(err, ctl.ErrNoAnswer) || !strings.Contains(err.Error(), "no NIC has confirmed the name of the process within 4s") {
		t.Errorf("%v; expected an error that names the cause", err)
	}
	if err := unconfirmed(nic.ErrNameTaken); err != nic.ErrNameTaken {
		t.Errorf("another refusal becomes %v", err)
	}
}
