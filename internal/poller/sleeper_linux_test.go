package poller

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// states returns how the goroutines wait that have a function on their stacks, in the runtime's
// words.
func states(function string) (l []string) {
	all := make([]byte, 1<<20)
	for _, g := range strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n") {
		if head, stack, _ := strings.Cut(g, "\n"); strings.Contains(stack, function) {
			l = append(l, head[strings.Index(head, "[")+1:strings.IndexAny(head, ",]")])
		}
	}
	return l
}

func TestTheRuntimeKnowsThatASleeperSleeps(t *testing.T) {
	s, err := newSleeper(-1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ended := make(chan bool)
	go func() {
		s.sleep(-1)
		ended <- true
	}()
	eventually(t, "a goroutine that waits by the runtime, and keeps no processor", func() bool {
		l := states("(*sleeper).sleep")
		return len(l) == 1 && l[0] == "IO wait"
	})
	s.wake()
	<-ended
}

// linkedSleeper returns a sleeper with a link, a function that makes a frame arrive there, and
// one that takes the frames.
func linkedSleeper(t *testing.T) (s *sleeper, frame, drained func()) {
	t.Helper()
	var link [2]int
	if err := unix.Pipe2(link[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(link[1]); unix.Close(link[0]) })
	s, err := newSleeper(link[0])
	if err != nil {
		t.Fatal(err)
	}
	return s, func() { _, _ = unix.Write(link[1], []byte{1}) }, func() { _, _ = unix.Read(link[0], make([]byte, 8)) }
}

// Frames that arrive while another goroutine polls must wake no thread of the runtime.
func TestNoFrameIsToldOfWhileNoneSleeps(t *testing.T) {
	s, frame, drained := linkedSleeper(t)
	defer s.close()
	told := func() int {
		var events [3]unix.EpollEvent
		n, _ := unix.EpollWait(s.epoll, events[:], 0)
		return n
	}
	frame()
	before := told()
	s.sleep(-1) // the frame ends it
	frame()
	if behind := told(); before != 0 || behind != 0 {
		t.Errorf("told of %d frames before a sleep, and %d behind one that a frame has ended", before, behind)
	}
	drained()
	s.wake()
	s.sleep(-1)
	frame()
	if n := told(); n != 0 {
		t.Errorf("told of %d frames behind a sleep that a wake has ended", n)
	}
}

func TestASleepEndsByAWakeAFrameATimeAndClose(t *testing.T) {
	s, frame, drained := linkedSleeper(t)
	for _, c := range []struct {
		what string
		d    time.Duration
		end  func()
	}{
		{"a wake", -1, s.wake}, {"a frame", -1, frame}, {"another frame", time.Hour, frame}, {"another wake", time.Hour, s.wake},
		{"a time", time.Millisecond, func() {}}, {"no time", 0, func() {}}, {"a wake behind a time", -1, s.wake}, {"close", -1, func() { _ = s.close() }},
	} {
		for i := range 4 {
			before, sleep := i%2 == 0, s.sleep
			if i/2 == 1 {
				sleep = s.sleepAlone
			}
			if i/2 == 1 && c.what == "close" {
				continue // of a poller, which wakes its sleepers first
			}
			ended := make(chan bool, 1)
			if before {
				c.end()
			}
			go func() {
				sleep(c.d)
				ended <- true
			}()
			if !before {
				c.end()
			}
			select {
			case <-ended:
			case <-time.After(patience):
				t.Fatalf("%s, before %v, does not end a sleep, alone %v", c.what, before, i/2 == 1)
			}
			drained()
		}
	}
	s.wake() // does nothing to a closed sleeper
}
