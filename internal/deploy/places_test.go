package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/registry"
)

// named returns a module with a name, which displays a number.
func named(t *testing.T, name string, n int) []byte {
	t.Helper()
	return compiled(t, fmt.Sprintf("PROGRAM %s: VAR n; TRIGGERS 1; BEGIN n = %d END; MESSAGE 1: BEGIN DISPLAY n END; END;", name, n))
}

// put loads a program into one NIC.
func (f *fabric) put(nic registry.NICID, name string, id uint32) {
	f.t.Helper()
	if _, err := f.client.Load(f.t.Context(), []registry.NICID{nic}, named(f.t, name, 1), deploy.Options{ID: id, Start: true}); err != nil {
		f.t.Fatal(err)
	}
}

// load loads a program into all NICs, and returns its number on each.
func (f *fabric) load(name string, o deploy.Options) (ids []uint32, err error) {
	placed, err := f.client.Load(f.t.Context(), f.all(), named(f.t, name, 2), o)
	for _, p := range placed {
		ids = append(ids, p.ID)
	}
	return ids, err
}

// A program is replaced by its name on every NIC, whatever its number there, and no other program
// is replaced.
func TestAProgramIsReplacedByItsNameOnEachNIC(t *testing.T) { // PANIC-2
	f := newFabric(t, 3)
	f.put(1, "pong", 1)
	f.put(2, "pong", 9)
	f.put(3, "victim", 1)
	f.put(3, "pong", 7)
	ids, err := f.load("pong", deploy.Options{Replace: true, Start: true})
	if err != nil || fmt.Sprint(ids) != "[1 9 7]" {
		t.Errorf("it was loaded as %v: %v", ids, err)
	}
	f.wantStates("1 pong running", "9 pong running", "1 victim running, 7 pong running")
	f.wantClean()
}

// On a NIC without a program of that name, the program gets the number that it has elsewhere if
// that is free. It never takes the number of another program.
func TestWhereNoneHasTheNameAFreeNumberIsTaken(t *testing.T) {
	for _, c := range []struct {
		victim uint32 // of NIC 3
		want   string
	}{{4, "[6 6 6]"}, {6, "[1 6 1]"}} {
		f := newFabric(t, 3)
		f.put(2, "pong", 6)
		f.put(3, "victim", c.victim)
		ids, err := f.load("pong", deploy.Options{Replace: true, Start: true})
		if err != nil || fmt.Sprint(ids) != c.want {
			t.Errorf("with the victim at %d it was loaded as %v: %v; want %s", c.victim, ids, err, c.want)
		}
		f.wantStates(fmt.Sprint(ids[0], " pong running"), "6 pong running", strings.Join(inOrder(fmt.Sprint(c.victim, " victim running"), fmt.Sprint(ids[2], " pong running")), ", "))
	}
}

func inOrder(a, b string) []string {
	if b < a {
		a, b = b, a
	}
	return []string{a, b}
}

// A request by number replaces any program, as asked.
func TestByItsNumberAProgramOfAnotherNameIsReplaced(t *testing.T) {
	f := newFabric(t, 2)
	f.put(2, "victim", 5)
	ids, err := f.load("pong", deploy.Options{ID: 5, Replace: true, Start: true})
	if err != nil || fmt.Sprint(ids) != "[5 5]" {
		t.Errorf("it was loaded as %v: %v", ids, err)
	}
	f.wantStates("5 pong running", "5 pong running")
}

func TestANumberIsChosenThatIsFreeOnAllNICs(t *testing.T) { // PANIC-2
	f := newFabric(t, 3)
	f.put(1, "a", 1)
	f.put(3, "b", 2)
	f.put(2, "c", 4)
	ids, err := f.load("pong", deploy.Options{Start: true})
	if err != nil || fmt.Sprint(ids) != "[3 3 3]" {
		t.Errorf("it was loaded as %v: %v", ids, err)
	}
	f.wantClean()
}

// If another tool takes the number while this one looks, this one tries the next number.
func TestANumberThatWasTakenMeanwhileIsNotInsistedOn(t *testing.T) {
	f := newFabric(t, 2)
	// no list shows a prepared program
	r, err := f.sites[1].Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramPrepare, Key: whole(t, f.sites[1], named(t, "other", 1)), ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := f.load("pong", deploy.Options{Start: true})
	if err != nil || fmt.Sprint(ids) != "[2 2]" {
		t.Errorf("it was loaded as %v: %v", ids, err)
	}
	if _, err := f.sites[1].Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramUndo, Key: r.Key}); err != nil {
		t.Error(err)
	}
	f.wantClean()
}

// A program that gets a chosen number on a NIC after that NIC was listed stays there, though
// another is to be replaced elsewhere.
func TestOnlyTheProgramOfTheNameIsReplacedWhateverIsLoadedMeanwhile(t *testing.T) {
	f := newFabric(t, 2)
	f.put(1, "pong", 1)
	site, meanwhile := f.sites[1], true
	f.fails = func(_ registry.NICID, do string) error {
		if do != ctl.ProgramPut || !meanwhile {
			return nil
		}
		meanwhile = false
		r, err := site.Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramPrepare, Key: whole(t, site, named(t, "victim", 1)), ID: 1, Start: true})
		if err != nil {
			return err
		}
		for _, do := range []string{ctl.ProgramCommit, ctl.ProgramSettle} {
			if _, err := site.Answer(deploy.Asker{}, &ctl.Program{Do: do, Key: r.Key}); err != nil {
				return err
			}
		}
		return nil
	}
	ids, err := f.load("pong", deploy.Options{Replace: true, Start: true})
	if err != nil || fmt.Sprint(ids) != "[1 2]" {
		t.Errorf("it was loaded as %v: %v", ids, err)
	}
	f.wantStates("1 pong running", "1 victim running, 2 pong running")
	f.wantClean()
}

// A requested number is not exchanged for another.
func TestATakenNumberThatWasAskedForIsRefused(t *testing.T) {
	f := newFabric(t, 2)
	f.put(2, "victim", 5)
	f.asked = nil
	if ids, err := f.load("pong", deploy.Options{ID: 5, Start: true}); !errors.Is(err, ctl.ErrTaken) || !strings.Contains(err.Error(), "loaded nowhere") {
		t.Errorf("it was loaded as %v: %v", ids, err)
	}
	if asked := f.requests(ctl.ProgramPrepare, 2); asked != 1 {
		t.Errorf("the NIC that has the number is asked %d times; expected once", asked)
	}
	f.wantStates("", "5 victim running")
	f.wantClean()
}

// requests counts the requests of a kind to a NIC.
func (f *fabric) requests(do string, nic registry.NICID) (n int) {
	for _, asked := range f.asked {
		if asked == fmt.Sprint(do, " ", uint64(nic)) {
			n++
		}
	}
	return n
}

// NICs that are silent during the rollback do not keep the others from being asked, each with its
// full time. The error says what happened on each NIC.
func TestSilentNICsDoNotKeepTheOthersFromBeingRolledBack(t *testing.T) { // PANIC-2
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 6)
		f.silent = func(id registry.NICID, do string) bool { return do == ctl.ProgramUndo && (id == 1 || id == 3) }
		begun := time.Now()
		f.fails = func(id registry.NICID, do string) error {
			switch {
			case id == 6 && do == ctl.ProgramCommit:
				return errDead
			// this is the bubble's time, which stands still while there is something to do
			case do == ctl.ProgramUndo && time.Since(begun) > 0:
				t.Errorf("NIC %d is asked when another has been given up", id)
			}
			return nil
		}
		_, err := f.load("pong", deploy.Options{ID: 5, Start: true})
		if !errors.Is(err, errDead) {
			t.Fatal(err)
		}
		f.wantStates("5 pong running", "", "5 pong running", "", "", "")
		for _, want := range []string{"NIC 0:0:0:0:0:0:0:6, which had prepared it: it does not answer;", "could not be taken back from NIC 0:0:0:0:0:0:0:1 (", "), NIC 0:0:0:0:0:0:0:3 (", "); the other NICs are as before"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %q; want it to say %q", err, want)
			}
		}
		if strings.Contains(err.Error(), "NIC 0:0:0:0:0:0:0:2") || strings.Contains(err.Error(), "was taken back") {
			t.Errorf("the error is %q", err)
		}
	})
}

// If nothing is left anywhere, the error says so.
func TestWhatWasTakenBackFromAllIsSaidToBe(t *testing.T) {
	f := newFabric(t, 3)
	f.fails = func(id registry.NICID, do string) error {
		if id == 3 && do == ctl.ProgramCommit {
			return errDead
		}
		return nil
	}
	if _, err := f.load("pong", deploy.Options{ID: 5}); !errors.Is(err, errDead) || !strings.Contains(err.Error(), "; the program was taken back from all NICs") {
		t.Error(err)
	}
	f.wantClean()
}

// A NIC that has prepared and cannot be told forgets the program by itself, and the error says
// when.
func TestWhatCannotBeTakenBackBeforeItIsInPlaceIsForgotten(t *testing.T) {
	f := newFabric(t, 3)
	f.fails = func(id registry.NICID, do string) error {
		if id == 3 && do == ctl.ProgramPrepare || id == 1 && do == ctl.ProgramUndo {
			return errDead
		}
		return nil
	}
	_, err := f.load("pong", deploy.Options{ID: 5})
	if !errors.Is(err, errDead) || !strings.Contains(err.Error(), "loaded nowhere; it could not be taken back from NIC 0:0:0:0:0:0:0:1 (it does not answer): what is prepared there is forgotten within 30s") {
		t.Error(err)
	}
}

// A client that belongs to one goroutine asks one NIC after the other, each with its full time.
func TestInTurnEachNICHasItsWholeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 4)
		f.client.InTurn = true
		f.silent = func(id registry.NICID, do string) bool { return do == ctl.ProgramUndo && id < 3 }
		f.fails = func(id registry.NICID, do string) error {
			if id == 4 && do == ctl.ProgramPrepare {
				return errDead
			}
			return nil
		}
		_, err := f.load("pong", deploy.Options{ID: 5})
		if !errors.Is(err, errDead) || strings.Contains(err.Error(), "NIC 0:0:0:0:0:0:0:3 (") || !strings.Contains(err.Error(), "NIC 0:0:0:0:0:0:0:2 ("+context.DeadlineExceeded.Error()) {
			t.Error(err)
		}
	})
}

// The context of a load may end in the middle. The NICs that have the program by then are asked
// to take it back nevertheless.
func TestALoadWhoseContextEndsIsTakenBackEverywhere(t *testing.T) { // PANIC-2
	for _, when := range []string{ctl.ProgramPrepare, ctl.ProgramCommit} {
		for at := range registry.NICID(3) {
			f := newFabric(t, 3)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.fails = func(id registry.NICID, do string) error {
				if id == at+1 && do == when {
					cancel()
					return ctx.Err()
				}
				return nil
			}
			_, err := f.client.Load(ctx, f.all(), named(t, "pong", 1), deploy.Options{ID: 5, Start: true})
			if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "could not be taken back") || strings.Contains(err.Error(), "forget") {
				t.Errorf("a load that ends at the %s of NIC %d: %v", when, at+1, err)
			}
			f.fails = func(registry.NICID, string) error { return nil }
			f.wantStates("", "", "")
			f.wantClean()
		}
	}
}
