package daemon_test

import (
	"context"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/program"
)

// Two processes sleep until a program clears the lock of a segment that they share. The program
// sets no flag, so the cleared lock alone wakes both.
func TestAProgramThatClearsALockWakesEveryProcessThatWaitsForIt(t *testing.T) { // PANIC-24
	c := configs(t, 1)[0]
	run(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first, second := mustAttach(t, c, "first/0"), mustAttach(t, c, "second/0")
	m, err := pdl.Compile("unlock.pdl", []byte(`PROGRAM unlock: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN CLEAR LOCK 515 END; END;`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.On(first).Load(ctx, []weft.NICID{0}, m.Encode(), program.Options{ID: 9, Start: true}); err != nil {
		t.Fatal(err)
	}
	segments := []*weft.SharedSegment{segment(t, first, 8), segment(t, second, 8)}
	for round := range 20 {
		if !segments[0].Lock(3) {
			t.Fatal("the lock was set before")
		}
		woken := make(chan error, 2*len(segments))
		for _, s := range segments {
			for range 2 {
				go func() { woken <- s.WaitLock(ctx, 3) }()
			}
		}
		if round%4 == 0 {
			time.Sleep(5 * time.Millisecond) // they sleep
		}
		if err := program.On(first).Send(ctx, program.Address{ID: 9}, 1); err != nil {
			t.Fatal(err)
		}
		for range cap(woken) {
			if err := <-woken; err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	}
}
