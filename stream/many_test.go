package stream_test

import (
	"flag"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

var long = flag.Bool("long", false, "run the long forms of the tests: 110,000 streams, of which 10,000 at once")

// heap returns the number of bytes of the heap that are in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// bytesPerStream is the most memory that one end of an idle stream may use after its first
// messages. docs/stream.md states this figure.
const bytesPerStream = 4 << 10

// A process can have thousands of streams. Each uses little memory, and leaves none behind.
func TestThousandsOfStreamsCostLittleAndLeaveNothing(t *testing.T) {
	// left is the number of bytes that may remain for each stream that was open at once.
	many, rounds, left := 10_000, 2, 100
	switch {
	case testing.Short():
		many = 1000
	case *long:
		rounds = 9 // together with the first round, 100,000 streams after the measurement
		left *= 2  // maps whose keys change all the time grow once more, and then stop growing
	}
	a, b := pair(t, weft.Config{})
	l, err := (&stream.ListenConfig{Process: a, Backlog: 16}).Listen("many")
	if err != nil {
		t.Fatal(err)
	}
	d := &stream.Dialer{Process: b}
	open := func() (ends []net.Conn) {
		for range many {
			c, s, err := joined(l, d)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, c, s)
		}
		buf := make([]byte, 5)
		for i := 0; i < len(ends); i += 2 {
			if _, err := ends[i].Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(ends[i+1], buf); err != nil || string(buf) != "hello" {
				t.Fatalf("stream %d: %q, %v", i/2, buf, err)
			}
		}
		return ends
	}
	end := func(ends []net.Conn) {
		for i := 0; i < len(ends); i += 2 {
			ends[i].Close()
			if _, err := ends[i+1].Read(make([]byte, 1)); err != io.EOF {
				t.Fatalf("stream %d: %v; want the end", i/2, err)
			}
			ends[i+1].Close()
		}
	}
	end(open())
	before := heap()
	ends := open()
	each := (heap() - before) / (2 * many)
	t.Logf("%d bytes for each end of %d streams", each, many)
	if each > bytesPerStream {
		t.Errorf("an end of a stream costs %d bytes; want %d at most", each, bytesPerStream)
	}
	end(ends)
	ends = nil
	for range rounds {
		end(open())
	}
	if n := heap() - before; n > left*many {
		t.Errorf("%d streams have left %d bytes behind; want %d at most", (rounds+1)*many, n, left*many)
	} else {
		t.Logf("%d streams have left %d bytes behind", (rounds+1)*many, n)
	}
}
