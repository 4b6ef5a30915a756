package nbd

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each invalid request is refused before the device sees any of it, with its error and its
// reason. A similar valid request is accepted.
func TestARequestIsCheckedBeforeItIsDone(t *testing.T) {
	const size = 1 << 20
	all := uint16(cmdFUA | cmdNoHole | cmdDF | cmdReqOne | cmdFastZero)
	for name, c := range map[string]struct {
		r request
		// Without structured replies; a read-only export; with base:allocation.
		bare, readOnly, asks bool
		want                 errno
		why                  string
	}{
		"a read":                            {r: request{command: cmdRead, length: size}},
		"a read of nothing at the end":      {r: request{command: cmdRead, offset: size}},
		"a read behind the end":             {r: request{command: cmdRead, offset: size + 1}, want: errInvalid, why: "0 bytes at 1048577"},
		"a read over the end":               {r: request{command: cmdRead, offset: 1, length: size}, want: errInvalid, why: "the device has 1048576"},
		"a read whose end wraps":            {r: request{command: cmdRead, offset: 1<<64 - 1, length: 2}, want: errInvalid, why: "the device has"},
		"the longest read":                  {r: request{command: cmdRead, length: maxRequest}, want: errInvalid, why: "the device has"},
		"a longer read":                     {r: request{command: cmdRead, length: maxRequest + 1}, want: errInvalid, why: "at most 33554432"},
		"a read with DF":                    {r: request{command: cmdRead, flags: cmdDF}},
		"a read with FUA":                   {r: request{command: cmdRead, flags: cmdFUA}},
		"a read with DF, simple replies":    {r: request{command: cmdRead, flags: cmdDF}, bare: true, want: errInvalid, why: "DF without"},
		"a read with another flag":          {r: request{command: cmdRead, flags: all &^ (cmdDF | cmdFUA)}, want: errInvalid, why: "with flags 0x1a"},
		"a read of a read-only export":      {r: request{command: cmdRead, length: 1}, readOnly: true},
		"a write":                           {r: request{command: cmdWrite, length: size, flags: cmdFUA}},
		"a write over the end":              {r: request{command: cmdWrite, length: size + 1}, want: errNoSpace, why: "1048577 bytes at 0"},
		"a write to a read-only export":     {r: request{command: cmdWrite, length: 1}, readOnly: true, want: errPermission, why: "read-only"},
		"a write with another flag":         {r: request{command: cmdWrite, flags: cmdNoHole}, want: errInvalid, why: "with flags"},
		"a flush":                           {r: request{command: cmdFlush}},
		"a flush of a read-only export":     {r: request{command: cmdFlush}, readOnly: true},
		"a flush of bytes":                  {r: request{command: cmdFlush, length: 1}, want: errInvalid, why: "FLUSH of 1 bytes at 0"},
		"a flush of a place":                {r: request{command: cmdFlush, offset: 1}, want: errInvalid, why: "FLUSH of 0 bytes at 1"},
		"a flush with another flag":         {r: request{command: cmdFlush, flags: cmdReqOne}, want: errInvalid, why: "with flags"},
		"a trim":                            {r: request{command: cmdTrim, length: size, flags: cmdFUA}},
		"a trim over the end":               {r: request{command: cmdTrim, length: size + 1}, want: errInvalid, why: "the device has"},
		"a trim of a read-only export":      {r: request{command: cmdTrim, length: 1}, readOnly: true, want: errPermission, why: "read-only"},
		"zeros":                             {r: request{command: cmdWriteZeroes, length: size, flags: cmdFUA | cmdNoHole}},
		"fast zeros":                        {r: request{command: cmdWriteZeroes, length: size, flags: cmdFastZero}},
		"fast zeros that take room":         {r: request{command: cmdWriteZeroes, flags: cmdFastZero | cmdNoHole}, want: errUnsupported, why: "a hole is what is fast"},
		"zeros over the end":                {r: request{command: cmdWriteZeroes, offset: size, length: 1}, want: errNoSpace, why: "the device has"},
		"zeros in a read-only export":       {r: request{command: cmdWriteZeroes, length: 1}, readOnly: true, want: errPermission, why: "read-only"},
		"zeros with another flag":           {r: request{command: cmdWriteZeroes, flags: cmdDF}, want: errInvalid, why: "with flags"},
		"a status":                          {r: request{command: cmdBlockStatus, length: 1, flags: cmdReqOne | cmdFUA}, asks: true},
		"a status of a read-only export":    {r: request{command: cmdBlockStatus, length: 1}, asks: true, readOnly: true},
		"a status of nothing":               {r: request{command: cmdBlockStatus}, asks: true, want: errInvalid, why: "of 0 bytes"},
		"a status that was not agreed upon": {r: request{command: cmdBlockStatus, length: 1}, want: errInvalid, why: "without base:allocation"},
		"a status over the end":             {r: request{command: cmdBlockStatus, length: size + 1}, asks: true, want: errInvalid, why: "the device has"},
		"a status with another flag":        {r: request{command: cmdBlockStatus, length: 1, flags: cmdNoHole}, asks: true, want: errInvalid, why: "with flags"},
		"a cache, which there is not":       {r: request{command: 5, length: 1}, want: errInvalid, why: "no command 5"},
		"an unknown command":                {r: request{command: 8, length: 1}, want: errInvalid, why: "no command 8"},
		"an end as if it were for a device": {r: request{command: cmdDisconnect}, want: errInvalid, why: "no command 2"},
	} {
		s := &Server{cfg: Config{Device: newMemory(size), ReadOnly: c.readOnly}}
		j := &job{n: &conn{s: s, structured: !c.bare, status: c.asks}, request: c.r}
		f := j.check()
		if f == nil {
			f = new(fault)
		}
		if f.errno != c.want || !strings.Contains(f.text, c.why) || (f.text == "") != (c.why == "") {
			t.Errorf("%s: %d, %q; expected %d, %q", name, f.errno, f.text, c.want, c.why)
		}
	}
}

// faulty is a device whose operations fail with the error of a device or of a context.
type faulty struct {
	*memory
	err  error
	ends bool // wait for the end of the context first
	n    int  // number of bytes that a read returns with its error
}

func (d *faulty) fail(ctx context.Context) error {
	if d.ends {
		<-ctx.Done()
	}
	return d.err
}
func (d *faulty) ReadAtContext(ctx context.Context, _ []byte, _ int64) (int, error) {
	return d.n, d.fail(ctx)
}
func (d *faulty) WriteAtContext(ctx context.Context, _ []byte, _ int64) (int, error) {
	return 0, d.fail(ctx)
}
func (d *faulty) Flush(ctx context.Context) error               { return d.fail(ctx) }
func (d *faulty) Discard(ctx context.Context, _, _ int64) error { return d.fail(ctx) }
func (d *faulty) Written(_, _ int64, _ func(int64, int64, bool) bool) error {
	return d.fail(context.Background())
}

// Whatever operation of a device fails, the client gets the error, the log contains it unless the
// client can avoid it, and the next request is carried out.
func TestAFailureOfTheDeviceIsToldToItsClient(t *testing.T) {
	lost := errors.New("all is lost")
	for name, c := range map[string]struct {
		err    error
		n      int
		want   errno
		text   string
		logged bool
	}{
		"a failure":            {lost, 0, errIO, "all is lost", true},
		"a failure with bytes": {lost, 4, errIO, "all is lost", true},
		"no room":              {errFull, 0, errNoSpace, "no room", false},
		"an end too early":     {io.EOF, 3, errIO, "EOF", true},
	} {
		for what, r := range map[string]request{
			"read": {command: cmdRead, length: 4}, "write": {command: cmdWrite, length: 4}, "flush": {command: cmdFlush}, "trim": {command: cmdTrim, length: 4},
			"a hole": {command: cmdWriteZeroes, length: 4}, "zeros": {command: cmdWriteZeroes, flags: cmdNoHole, length: 4}, "status": {command: cmdBlockStatus, length: 4},
		} {
			var log []string
			c2 := serveOne(t, Config{Device: &faulty{memory: newMemory(4096), err: c.err, n: c.n}, Full: func(err error) bool { return errors.Is(err, errFull) },
				Log: func(text string) { log = append(log, text) }})
			c2.begin(true)
			data := ""
			if r.command == cmdWrite {
				data = "data"
			}
			for cookie := range uint64(2) {
				c2.request(r.flags, r.command, cookie, 0, r.length, data)
				c2.expect(name+" of "+what, uint32(magicChunk), uint16(chunkDone), uint16(chunkError), cookie, uint32(6+len(c.text)), uint32(c.want), uint16(len(c.text)), c.text)
			}
			c2.finish()
			if (len(log) == 2) != c.logged || c.logged && !strings.HasSuffix(log[0], " fails: "+c.text) {
				t.Errorf("%s of %s: the log has %q", name, what, log)
			}
		}
	}
}

// If the server ends while a request is in flight, the client is told that the server ends, not
// that the device has failed.
func TestARequestEndsWithItsServerOrItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		ends bool // the server ends before the timeout
		want errno
		log  int
	}{"the server ends": {true, errShutdown, 0}, "the time is over": {false, errIO, 1}} {
		synctest.Test(t, func(t *testing.T) {
			log := 0
			s, err := New(Config{Device: &faulty{memory: newMemory(4096), err: context.DeadlineExceeded, ends: true}, Log: func(string) { log++ }})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			here, there := net.Pipe()
			cl := &client{t, here, make(chan error, 1)}
			go func() { cl.ended <- s.ServeConn(ctx, there) }()
			defer here.Close()
			cl.begin(false)
			begun := time.Now()
			cl.request(0, cmdFlush, 1, 0, 0)
			if c.ends {
				time.Sleep(s.cfg.Timeout / 2)
				cancel()
			}
			cl.simple(name, c.want, 1)
			want := patience // the default timeout
			if c.ends {
				want /= 2
			}
			if took := time.Since(begun); took != want || log != c.log {
				t.Errorf("%s: the answer comes after %v, and the log has %d lines; expected %v and %d", name, took, log, want, c.log)
			}
			cl.request(0, cmdDisconnect, 0, 0, 0)
			<-cl.ended
		})
	}
}

// A connection has a limited number of requests in flight. The next requests wait, and none is
// lost.
func TestAConnectionHasBoundedRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more = 5
		dev := &gated{memory: newMemory(memoryBlock), gate: make(chan struct{})}
		s, err := New(Config{Device: dev, Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		c := &client{t, here, make(chan error, 1)}
		go func() { c.ended <- s.ServeConn(t.Context(), there) }()
		defer here.Close()
		c.begin(false)
		go func() {
			for i := range uint64(maxWorkers + more) {
				_, _ = here.Write(append(wire(0, cmdWrite, i, 0, 4), "data"...))
			}
		}()
		synctest.Wait()
		if n := dev.waiting.Load(); n != maxWorkers {
			t.Errorf("%d requests are in flight; expected %d", n, maxWorkers)
		}
		close(dev.gate)
		replies := make([]byte, (maxWorkers+more)*simpleLen)
		if _, err := io.ReadFull(here, replies); err != nil {
			t.Fatal(err)
		}
		seen := map[uint64]bool{}
		for ; len(replies) > 0; replies = replies[simpleLen:] {
			seen[binary.BigEndian.Uint64(replies[8:])] = true
		}
		if len(seen) != maxWorkers+more {
			t.Errorf("%d requests have replies; expected %d", len(seen), maxWorkers+more)
		}
		c.finish()
		if s.budget.left != maxUnderWay {
			t.Errorf("%d bytes of the budget are left, of %d", s.budget.left, maxUnderWay)
		}
	})
}

// striped is a device in which every second block takes room.
type striped struct {
	*memory
	told int64 // number of bytes that it has described
}

func (d *striped) Written(offset, n int64, yield func(offset, n int64, written bool) bool) error {
	for at := offset; at < offset+n; at++ {
		if d.told = at + 1 - offset; !yield(at, 1, at%2 == 0) {
			return nil
		}
	}
	return nil
}

// A reply has a limited number of pieces, and the server asks the device for no more.
func TestAStatusHasBoundedPieces(t *testing.T) {
	for n, pieces := range map[uint32]int{1: 1, maxPieces - 1: maxPieces - 1, maxPieces: maxPieces, maxPieces + 1: maxPieces, 8 * maxPieces: maxPieces} {
		d := &striped{memory: newMemory(8 * maxPieces)}
		j := &job{n: &conn{s: &Server{cfg: Config{Device: d}}}}
		b, err := j.blockStatus(0, int64(n))
		if err != nil || len(b) != 4+8*pieces || d.told > int64(pieces)+1 {
			t.Fatalf("a status of %d pieces has %d bytes, %v, and the device told of %d; expected %d pieces", n, len(b), err, d.told, pieces)
		}
		for i := range pieces {
			length, state := binary.BigEndian.Uint32(b[4+8*i:]), binary.BigEndian.Uint32(b[8+8*i:])
			if length != 1 || state != uint32(i%2*(stateHole|stateZero)) {
				t.Fatalf("piece %d of %d: %d bytes, state %d", i, n, length, state)
			}
		}
	}
}
