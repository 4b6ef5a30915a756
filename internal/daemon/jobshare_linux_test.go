package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
)

// anotherUser is neither root nor the user of the test.
var anotherUser = os.Getuid() + 1000

func TestOneUserCannotHoldAllReservationsOfAHost(t *testing.T) {
	j := &jobs{&Daemon{}, newPlaces(false)}
	j.d.live.Store(j.d.settings.live(fabricKeys{}))
	alice, bob := deploy.Asker{UID: anotherUser, User: "alice"}, deploy.Asker{UID: anotherUser + 1, User: "bob"}
	var leave func()
	for i := range limits.ReservesOfUser {
		var no *ctl.Refusal
		if leave, no = j.enter(alice); no != nil {
			t.Fatalf("reservation %d: %+v", i, no)
		}
	}
	if _, no := j.enter(alice); no == nil || !strings.Contains(no.Text, "user alice") || no.Cure == "" {
		t.Errorf("one more reservation of alice: %+v", no)
	}
	if _, no := j.enter(bob); no != nil {
		t.Errorf("a reservation of bob: %+v", no)
	}
	leave()
	if _, no := j.enter(alice); no != nil {
		t.Errorf("a reservation of alice after another has ended: %+v", no)
	}
	for range limits.ReservesAtOnce - limits.ReservesOfUser - 1 {
		if _, no := j.enter(deploy.Asker{UID: 0, User: "root"}); no != nil {
			t.Fatalf("a reservation of root: %+v", no)
		}
	}
	if _, no := j.enter(bob); no == nil || !strings.Contains(no.Text, "as many reservations as it can") {
		t.Errorf("more reservations than the daemon works on: %+v", no)
	}
}

func TestOneUserCannotHoldAllJobsOfAHost(t *testing.T) {
	j := &jobs{&Daemon{}, newPlaces(false)}
	j.d.live.Store(j.d.settings.live(fabricKeys{}))
	alice, bob := &account{uid: anotherUser, name: "alice"}, &account{uid: anotherUser + 1, name: "bob"}
	add := func(who *account, n int) {
		for range n {
			j.all[fmt.Sprint(len(j.all))] = &job{account: who}
		}
	}
	add(alice, limits.JobsOfUser-1)
	if no := j.full(alice); no != nil {
		t.Errorf("the last job of alice: %+v", no)
	}
	add(alice, 1)
	if no := j.full(alice); no == nil || !strings.Contains(no.Text, "64 jobs of user alice") || no.Cure == "" {
		t.Errorf("one job more of alice: %+v", no)
	}
	for _, other := range []*account{bob, {name: "root"}, {uid: os.Getuid(), name: "the daemon's"}} {
		if no := j.full(other); no != nil {
			t.Errorf("a job of %s: %+v", other.name, no)
		}
	}
	add(&account{name: "root"}, limits.JobsPerHost-limits.JobsOfUser-1)
	if no := j.full(&account{name: "root"}); no != nil {
		t.Errorf("root has more jobs than another user may have: %+v", no)
	}
	add(&account{name: "root"}, 1)
	if no := j.full(&account{name: "root"}); no == nil {
		t.Error("root has more jobs than the host takes")
	}
}

// A missing directory is not a question of rights.
func TestARefusalThatIsNoMatterOfRightsIsNoWarning(t *testing.T) {
	var out bytes.Buffer
	d := &Daemon{log: slog.New(slog.NewTextHandler(&out, nil)), control: &control{}}
	j := &jobs{d, newPlaces(false)}
	no := ctl.Refusal{What: ctl.RefusedDir, Text: "working directory /nowhere: there is none"}
	for range 3 {
		if r := j.refuse(deploy.Asker{NIC: 7, User: "alice"}, no); len(r.Refusals) != 1 {
			t.Fatalf("reply %+v", r)
		}
	}
	got := out.String()
	if !strings.Contains(got, "level=INFO") || !strings.Contains(got, no.Text) || strings.Contains(got, "not permitted") || strings.Count(got, "\n") != 1 {
		t.Errorf("the log has %q; expected one line of INFO with the refusal", got)
	}
}
