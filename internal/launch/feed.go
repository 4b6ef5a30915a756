package launch

import (
	"errors"
	"fmt"
	"io"
)

// feed passes the console's input to the ranks that read it. It asks the console only when each
// of them has read its input, so typed-ahead input stays in the terminal. A restart continues
// with the input that no rank has received.
func (l *launcher) feed() {
	for {
		if !l.awaitHunger() {
			return
		}
		piece, err := l.console.Input(l.ctx)
		for len(piece) > 0 && l.awaitHunger() {
			n := min(len(piece), maxPiece)
			l.attempt().pass(piece[:n])
			piece = piece[n:]
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) && l.ctx.Err() == nil {
			l.stop(&ending{status: StatusFailed, cause: fmt.Sprintf("the input cannot be read: %v", err)})
		}
		break
	}
	for l.awaitHunger() { // after a restart, the input ends again
		l.attempt().pass(nil)
	}
}

// awaitHunger waits until every reading rank wants more. It returns false at the end of Run.
func (l *launcher) awaitHunger() bool {
	for !l.attempt().isHungry() {
		if l.hungry.Wait(l.ctx) != nil {
			return false
		}
	}
	return l.ctx.Err() == nil
}

func (a *attempt) isHungry() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.readers {
		if !a.ranks[r].wants {
			return false
		}
	}
	return len(a.readers) > 0 && !a.ending
}

// pass queues a piece of input for each rank that reads. An empty piece is the end of the input.
func (a *attempt) pass(piece []byte) {
	a.lock()
	defer a.unlock()
	for _, r := range a.readers {
		a.ranks[r].wants = false
		a.ranks[r].host.post(stdinMsg{r, append([]byte(nil), piece...)})
	}
}
