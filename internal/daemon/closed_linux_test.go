package daemon_test

import (
	"errors"
	"testing"

	weft "github.com/weftnet/weft"
)

// The segment of a closed process is unmapped, so that a look at it ends the program.
func TestAWatcherOfAClosedProcessOnlySaysSo(t *testing.T) {
	c := configs(t, 1)
	run(t, c...)
	p := mustAttach(t, c[0], "a/0")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	w := p.Watch(p.Address())
	defer w.Close()
	if _, err := w.Next(t.Context()); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("the next event of a closed process: %v; expected %v", err, weft.ErrClosed)
	}
}
