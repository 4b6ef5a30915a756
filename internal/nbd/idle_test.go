package nbd

import (
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A client may take the time patience to send the data of a write. Between requests, it may be
// silent for any time.
func TestAConnectionThatIsSilentBehindAWriteGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Device: newMemory(4096)})
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		c := &client{t, here, make(chan error, 1)}
		go func() { c.ended <- s.ServeConn(t.Context(), there) }()
		defer here.Close()
		c.begin(false)
		for i := range uint64(3) {
			c.request(0, cmdWrite, i, 0, 4)
			time.Sleep(patience / 2)
			c.send("data")
			c.simple("a write whose data come late", 0, i)
			time.Sleep(10 * patience)
		}
		c.request(0, cmdRead, 9, 0, 4)
		c.simple("a read behind an hour of silence", 0, 9, "data")
		c.request(0, cmdWrite, 10, 0, 4)
		time.Sleep(2 * patience)
		if err := <-c.ended; err == nil || !strings.Contains(err.Error(), os.ErrDeadlineExceeded.Error()) {
			t.Errorf("a client that does not send the data of its write: %v", err)
		}
	})
}

// At the limit of the budget, a request waits until others have returned their memory. That holds
// for a large request that is alone, and for a small request of a connection that has others.
func TestRequestsBeyondTheBudgetWait(t *testing.T) {
	for _, r := range []struct {
		what       string
		held, want int
		waits      bool
	}{
		{"the last byte of the budget", 0, 100, false},
		{"a small request of a connection that has nothing", 0, maxAlone, false},
		{"a large request of a connection that has nothing", 0, maxAlone + 1, true},
		{"a small request of a connection that has others", 1, 100, true},
		{"a small request of a connection that has others, and there is room", 1, 99, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var b budget
			b.init(maxUnderWay)
			other, c := new(conn), new(conn)
			b.take(other, maxUnderWay-100)
			if r.held > 0 {
				b.take(c, r.held)
			}
			var took sync.WaitGroup
			done := make(chan struct{})
			took.Go(func() { b.take(c, r.want); close(done) })
			synctest.Wait()
			waited := false
			select {
			case <-done:
			default:
				waited = true
			}
			if waited != r.waits {
				t.Errorf("%s waits: %v, expected %v", r.what, waited, r.waits)
			}
			b.give(other, maxUnderWay-100)
			took.Wait()
			if c.held != r.held+r.want || b.left != maxUnderWay-c.held {
				t.Errorf("%s: the connection has %d bytes and %d are left", r.what, c.held, b.left)
			}
		})
	}
}
