package nbd

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A client has limited time to read a reply. Then its connection ends, and its requests return
// their memory.
func TestAClientThatReadsNoReplyEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, structured := range []bool{false, true} {
			dev := newMemory(4096)
			for _, d := range []Device{dev, &together{memory: dev}} {
				s, err := New(Config{Device: d})
				if err != nil {
					t.Fatal(err)
				}
				here, there := net.Pipe()
				c := &client{t, here, make(chan error, 1)}
				go func() { c.ended <- s.ServeConn(t.Context(), there) }()
				c.begin(structured)
				c.request(0, cmdRead, 1, 0, 4)
				begun := time.Now()
				if err, took := <-c.ended, time.Since(begun); err == nil || took != patience {
					t.Errorf("the connection ends with %v after %v; expected an error after %v", err, took, patience)
				}
				if s.budget.left != maxUnderWay {
					t.Errorf("%d bytes of the budget are left, of %d", s.budget.left, maxUnderWay)
				}
				here.Close()
			}
		}
	})
}

// Freed memory may be enough for several requests. All of them continue.
func TestMemoryThatIsFreedIsForAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b budget
		b.init(100)
		other := new(conn)
		b.take(other, 90)
		var waiting sync.WaitGroup
		for range 5 {
			c := new(conn)
			b.take(c, 2) // a connection that has memory waits for more
			waiting.Go(func() { b.take(c, 10) })
		}
		synctest.Wait()
		b.give(other, 90)
		waiting.Wait()
		if b.left != 100-5*12 {
			t.Errorf("%d bytes are left; expected %d", b.left, 100-5*12)
		}
	})
}

// Only a request that joins others in flight takes memory when it joins. A request that waits for
// its own turn does not take memory twice.
func TestARequestThatJoinsNoOtherTakesNoMemory(t *testing.T) {
	s, err := New(Config{Device: &together{memory: newMemory(4 << 20)}})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]struct {
		sent []byte
		want int // bytes of memory
	}{
		"a short read":           {wire(0, cmdRead, 1, 0, 1000), 1000},
		"the longest short read": {wire(0, cmdRead, 1, 0, shortRead), shortRead},
		"a longer read":          {wire(0, cmdRead, 1, 0, shortRead+1), 0},
		"a read beyond the end":  {wire(0, cmdRead, 1, 4<<20, 1000), 0},
		"a trim":                 {wire(0, cmdTrim, 1, 0, 1000), 0},
		"no request":             {make([]byte, requestLen), 0},
	} {
		here, there := net.Pipe()
		n := newConn(s, there)
		go func() { _, _ = here.Write(r.sent) }()
		if _, err := n.r.Peek(requestLen); err != nil {
			t.Fatal(err)
		}
		w := &worker{n: n, reads: true}
		if joins := w.addShort(); joins != (r.want > 0) || n.held != r.want || s.budget.left != maxUnderWay-r.want {
			t.Errorf("%s joins: %v, and takes %d bytes; expected %d", name, joins, n.held, r.want)
		}
		s.budget.give(n, r.want)
		here.Close()
		there.Close()
	}
}
