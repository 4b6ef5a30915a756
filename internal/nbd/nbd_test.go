package nbd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// client is the other end of a connection. A test reads and writes it byte by byte.
type client struct {
	t     *testing.T
	c     net.Conn
	ended chan error
}

func serveOne(t *testing.T, cfg Config) *client {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, s)
}

func connect(t *testing.T, s *Server) *client {
	t.Helper()
	here, there := net.Pipe()
	c := &client{t, here, make(chan error, 1)}
	go func() { c.ended <- s.ServeConn(context.Background(), there) }()
	t.Cleanup(func() { here.Close() })
	if err := here.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *client) send(parts ...any) {
	c.t.Helper()
	var b []byte
	for _, p := range parts {
		var err error
		switch p := p.(type) {
		case string:
			b = append(b, p...)
		default:
			b, err = binary.Append(b, binary.BigEndian, p)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	if _, err := c.c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// expect reads the given parts, byte for byte.
func (c *client) expect(what string, parts ...any) {
	c.t.Helper()
	var want []byte
	for _, p := range parts {
		if s, ok := p.(string); ok {
			want = append(want, s...)
			continue
		}
		want, _ = binary.Append(want, binary.BigEndian, p)
	}
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.c, got); err != nil || !bytes.Equal(got, want) {
		c.t.Fatalf("%s: %x (%v), want %x", what, got[:n], err, want)
	}
}

func (c *client) option(o option, data ...any) {
	c.t.Helper()
	var b []byte
	for _, d := range data {
		if s, ok := d.(string); ok {
			b = append(b, s...)
			continue
		}
		b, _ = binary.Append(b, binary.BigEndian, d)
	}
	c.send(uint64(magicOption), uint32(o), uint32(len(b)), string(b))
}

// answered reads the reply to an option, and returns its data.
func (c *client) answered(o option, a answer) string {
	c.t.Helper()
	c.expect(fmt.Sprintf("reply to option %d", o), uint64(magicReply), uint32(o), uint32(a))
	var n uint32
	if err := binary.Read(c.c, binary.BigEndian, &n); err != nil {
		c.t.Fatal(err)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.c, b); err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

func (c *client) greet(flags uint32) {
	c.t.Helper()
	c.expect("greeting", uint64(magicServer), uint64(magicOption), uint16(flagFixedNewstyle|flagNoZeroes))
	c.send(flags)
}

// begin runs the handshake up to the transmission.
func (c *client) begin(structured bool) {
	c.t.Helper()
	c.greet(flagFixedNewstyle | flagNoZeroes)
	if structured {
		c.option(optStructuredReply)
		c.answered(optStructuredReply, repAck)
		c.option(optSetMetaContext, uint32(0), uint32(1), uint32(len(allocation)), allocation)
		if got := c.answered(optSetMetaContext, repMetaContext); got != "\x00\x00\x00\x01"+allocation {
			c.t.Fatalf("context %q", got)
		}
		c.answered(optSetMetaContext, repAck)
	}
	c.option(optGo, uint32(0), uint16(0))
	c.answered(optGo, repInfo)
	c.answered(optGo, repAck)
}

func (c *client) request(flags uint16, cmd command, cookie, offset uint64, length uint32, data ...any) {
	c.t.Helper()
	c.send(append([]any{uint32(magicRequest), flags, uint16(cmd), cookie, offset, length}, data...)...)
}

func (c *client) simple(what string, e errno, cookie uint64, data ...any) {
	c.t.Helper()
	c.expect(what, append([]any{uint32(magicSimple), uint32(e), cookie}, data...)...)
}

func (c *client) finish() {
	c.t.Helper()
	c.request(0, cmdDisconnect, 0, 0, 0)
	if err := <-c.ended; err != nil {
		c.t.Errorf("a connection that its client ends in order: %v", err)
	}
}

func TestOptionsAreAnswered(t *testing.T) {
	c := serveOne(t, Config{Device: newMemory(1 << 20), Export: "pages", Description: "some pages"})
	c.greet(flagFixedNewstyle)
	c.option(optList)
	if got := c.answered(optList, repServer); got != "\x00\x00\x00\x05pagessome pages" {
		t.Errorf("the list of exports has %q", got)
	}
	c.answered(optList, repAck)
	c.option(optList, "x")
	c.answered(optList, repErrInvalid)
	c.option(5)
	c.answered(5, repErrUnsupported) // STARTTLS
	c.option(77, strings.Repeat("x", maxOption+1))
	c.answered(77, repErrTooBig)
	c.option(optInfo, uint32(5), "other", uint16(0))
	if got := c.answered(optInfo, repErrUnknown); got != `there is no export "other"; there is "pages"` {
		t.Errorf("of a wrong name the client is told %q", got)
	}
	c.option(optInfo, uint32(9), "pages", uint16(0))
	c.answered(optInfo, repErrInvalid)
	c.option(optListMetaContext, uint32(5), "pages", uint32(0))
	c.answered(optListMetaContext, repErrInvalid) // before STRUCTURED_REPLY
	c.option(optStructuredReply)
	c.answered(optStructuredReply, repAck)
	c.option(optListMetaContext, uint32(5), "pages", uint32(1), uint32(5), "base:")
	c.answered(optListMetaContext, repMetaContext)
	c.answered(optListMetaContext, repAck)
	c.option(optSetMetaContext, uint32(5), "pages", uint32(1), uint32(6), "qemu:x")
	c.answered(optSetMetaContext, repAck) // selects none
	c.option(optInfo, uint32(5), "pages", uint16(3), uint16(infoName), uint16(infoDescription), uint16(infoBlockSize))
	for _, want := range []string{"\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x09\xed", "\x00\x01pages", "\x00\x02some pages", "\x00\x03\x00\x00\x00\x01\x00\x00\x10\x00\x02\x00\x00\x00"} {
		if got := c.answered(optInfo, repInfo); got != want {
			t.Errorf("information %q, want %q", got, want)
		}
	}
	c.answered(optInfo, repAck)
	c.option(optExportName, "pages")
	c.expect("answer to EXPORT_NAME", uint64(1<<20), uint16(0x9ed), make([]byte, 124))
	c.finish()
}

// If a client asks for other contexts, the earlier ones no longer apply, whether the request
// succeeds or not.
func TestARequestForContextsTakesThePlaceOfTheOneBefore(t *testing.T) {
	for what, others := range map[string][]any{"an unknown context": {uint32(0), uint32(1), uint32(6), "qemu:x"}, "an unknown export": {uint32(1), "x", uint32(0)}, "too few bytes": {uint32(9)}} {
		c := serveOne(t, Config{Device: newMemory(4096)})
		c.greet(flagFixedNewstyle | flagNoZeroes)
		c.option(optStructuredReply)
		c.answered(optStructuredReply, repAck)
		c.option(optSetMetaContext, uint32(0), uint32(1), uint32(len(allocation)), allocation)
		c.answered(optSetMetaContext, repMetaContext)
		c.answered(optSetMetaContext, repAck)
		c.option(optSetMetaContext, others...)
		c.answered(optSetMetaContext, map[string]answer{"an unknown context": repAck, "an unknown export": repErrUnknown, "too few bytes": repErrInvalid}[what])
		c.option(optGo, uint32(0), uint16(0))
		c.answered(optGo, repInfo)
		c.answered(optGo, repAck)
		c.request(0, cmdBlockStatus, 1, 0, 4096)
		why := "BLOCK_STATUS without " + allocation
		c.expect("status behind a request for "+what, uint32(magicChunk), uint16(chunkDone), uint16(chunkError), uint64(1), uint32(6+len(why)), uint32(errInvalid), uint16(len(why)), why)
		c.finish()
	}
}

func TestANameThatNoClientCanAskForIsRefused(t *testing.T) {
	const want = "nbd: the name of an export has 4097 bytes; expected at most 4096, which clients can ask for"
	if _, err := New(Config{Device: newMemory(4096), Export: strings.Repeat("x", 4097)}); err == nil || err.Error() != want {
		t.Errorf("%v; want %q", err, want)
	}
	if _, err := New(Config{Device: newMemory(4096), Export: strings.Repeat("x", 4096)}); err != nil {
		t.Error(err)
	}
}

func TestTheHandshakeEndsWithWhatBreaksIt(t *testing.T) {
	for name, talk := range map[string]func(*client){
		"its flags are 0x5":           func(c *client) { c.greet(5) },
		"its flags are 0x0":           func(c *client) { c.greet(0) },
		"an option begins with 0x7":   func(c *client) { c.greet(1); c.send(uint64(7), uint64(0)) },
		`no export "x"; there is ""`:  func(c *client) { c.greet(1); c.option(optExportName, "x") },
		"option 9 has 16777216 bytes": func(c *client) { c.greet(1); c.send(uint64(magicOption), uint32(9), uint32(1<<24)) },
		"EOF":                         func(c *client) { c.greet(1); c.c.Close() },
	} {
		c := serveOne(t, Config{Device: newMemory(4096)})
		talk(c)
		if err := <-c.ended; err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the connection ends with %v, want %q", err, name)
		}
	}
	c := serveOne(t, Config{Device: newMemory(4096)})
	c.greet(3)
	c.option(optAbort)
	c.answered(optAbort, repAck)
	if err := <-c.ended; err != nil {
		t.Errorf("a client that aborts: %v", err)
	}
}

func TestCommandsAreDone(t *testing.T) {
	dev := newMemory(64 << 10)
	c := serveOne(t, Config{Device: dev, Full: func(err error) bool { return errors.Is(err, errFull) }})
	c.begin(false)
	c.request(0, cmdWrite, 1, 4096, 5, "hello")
	c.simple("write", 0, 1)
	c.request(0, cmdRead, 2, 4095, 7)
	c.simple("read", 0, 2, "\x00hello\x00")
	c.request(0, cmdFlush, 3, 0, 0)
	c.simple("flush", 0, 3)
	c.request(cmdFUA, cmdTrim, 4, 4096, 2)
	c.simple("trim", 0, 4)
	c.request(cmdNoHole, cmdWriteZeroes, 5, 4098, 2)
	c.simple("write zeroes", 0, 5)
	c.request(0, cmdRead, 6, 4096, 5)
	c.simple("read", 0, 6, "\x00\x00\x00\x00o")
	for i, r := range []struct {
		flags  uint16
		cmd    command
		offset uint64
		length uint32
		want   errno
	}{
		{0, cmdRead, 64 << 10, 1, errInvalid}, {0, cmdRead, 1<<64 - 1, 2, errInvalid}, {0, cmdRead, 0, maxRequest + 1, errInvalid},
		{0, cmdTrim, 64<<10 - 1, 2, errInvalid}, {0, cmdWriteZeroes, 64<<10 - 1, 2, errNoSpace}, {0, cmdFlush, 1, 0, errInvalid},
		{0, 5, 0, 1, errInvalid}, {0, 99, 0, 1, errInvalid}, {1 << 9, cmdRead, 0, 1, errInvalid}, {cmdDF, cmdRead, 0, 1, errInvalid},
		{0, cmdBlockStatus, 0, 1, errInvalid}, {cmdNoHole, cmdTrim, 0, 1, errInvalid},
		{cmdFastZero, cmdWriteZeroes, 0, 4096, 0}, {cmdFastZero | cmdNoHole, cmdWriteZeroes, 0, 4096, errUnsupported},
	} {
		c.request(r.flags, r.cmd, uint64(100+i), r.offset, r.length)
		c.simple(fmt.Sprintf("%+v", r), r.want, uint64(100+i))
	}
	c.request(0, cmdWrite, 7, 64<<10-1, 2, "xy")
	c.simple("write beyond the end", errNoSpace, 7)
	dev.full = true
	c.request(0, cmdWrite, 8, 0, 2, "xy")
	c.simple("write without room", errNoSpace, 8)
	c.finish()
}

// ending is a device whose last read also returns io.EOF, as an io.ReaderAt may, and as a volume
// does.
type ending struct{ *memory }

func (e *ending) ReadAtContext(ctx context.Context, b []byte, offset int64) (int, error) {
	n, err := e.memory.ReadAtContext(ctx, b, offset)
	if offset+int64(n) == e.Size() {
		err = io.EOF
	}
	return n, err
}

func TestADeviceMaySayWhereItEnds(t *testing.T) {
	c := serveOne(t, Config{Device: &ending{newMemory(4096)}})
	c.begin(false)
	c.request(0, cmdRead, 1, 4094, 2)
	c.simple("read to the end", 0, 1, "\x00\x00")
	c.request(0, cmdRead, 2, 4096, 0)
	c.simple("read of nothing at the end", 0, 2)
	c.finish()
}

// timed is a device that records each range that it discards or writes, and the context of the
// call.
type timed struct {
	*memory
	offsets, lengths []int64
	contexts         []context.Context
}

func (d *timed) note(ctx context.Context, offset, n int64) {
	d.offsets, d.lengths, d.contexts = append(d.offsets, offset), append(d.lengths, n), append(d.contexts, ctx)
}

func (d *timed) Discard(ctx context.Context, offset, n int64) error {
	d.note(ctx, offset, n)
	return d.memory.Discard(ctx, offset, n)
}

func (d *timed) WriteAtContext(ctx context.Context, b []byte, offset int64) (int, error) {
	d.note(ctx, offset, int64(len(b)))
	return d.memory.WriteAtContext(ctx, b, offset)
}

// To discard gigabytes takes longer than the timeout of a request. As long as the device makes
// progress, the request does not fail.
func TestTheTimeOfALongRequestIsThatOfItsParts(t *testing.T) {
	const size = 8 << 20
	for _, flags := range []uint16{0, cmdNoHole} {
		for _, cmd := range []command{cmdTrim, cmdWriteZeroes} {
			if cmd == cmdTrim && flags != 0 {
				continue
			}
			d := &timed{memory: newMemory(size)}
			c := serveOne(t, Config{Device: d})
			c.begin(false)
			c.request(flags, cmd, 1, 4096, size-8192)
			c.simple("a long request", 0, 1)
			for i, ctx := range d.contexts[:len(d.contexts)-1] {
				if ctx.Err() == nil {
					t.Errorf("command %d: the time of part %d goes on behind it", cmd, i)
				}
			}
			c.finish()
			at := int64(4096)
			for i, offset := range d.offsets {
				if offset != at || d.lengths[i] > 1<<20 || i > 0 && d.contexts[i] == d.contexts[i-1] {
					t.Fatalf("command %d, part %d: %d bytes at %d; expected 1 MiB at most at %d, and time of its own", cmd, i, d.lengths[i], offset, at)
				}
				at += d.lengths[i]
			}
			if at != size-4096 {
				t.Errorf("command %d: its parts end at %d; expected %d", cmd, at, size-4096)
			}
		}
	}
}

func TestStructuredRepliesSayMore(t *testing.T) {
	dev := newMemory(64 << 10)
	c := serveOne(t, Config{Device: dev, ReadOnly: true, Timeout: 10 * time.Millisecond})
	copy(dev.b[8192:], "abc")
	dev.written[2] = true
	c.begin(true)
	c.request(cmdDF, cmdRead, 1, 8192, 3)
	c.expect("data", uint32(magicChunk), uint16(chunkDone), uint16(chunkData), uint64(1), uint32(11), uint64(8192), "abc")
	c.request(0, cmdRead, 2, 8192, 0)
	c.expect("no data", uint32(magicChunk), uint16(chunkDone), uint16(0), uint64(2), uint32(0))
	c.request(0, cmdBlockStatus, 3, 100, 20000)
	c.expect("status", uint32(magicChunk), uint16(chunkDone), uint16(chunkBlockStatus), uint64(3), uint32(28), uint32(1),
		uint32(8092), uint32(3), uint32(4096), uint32(0), uint32(7812), uint32(3))
	c.request(cmdReqOne, cmdBlockStatus, 4, 100, 20000)
	c.expect("one status", uint32(magicChunk), uint16(chunkDone), uint16(chunkBlockStatus), uint64(4), uint32(12), uint32(1), uint32(8092), uint32(3))
	why := "the export is read-only"
	c.request(0, cmdTrim, 5, 0, 1)
	c.expect("refusal", uint32(magicChunk), uint16(chunkDone), uint16(chunkError), uint64(5), uint32(6+len(why)), uint32(errPermission), uint16(len(why)), why)
	dev.stuck = true
	why = "not done within 10ms: context deadline exceeded"
	c.request(0, cmdRead, 6, 0, 1)
	c.expect("time-out", uint32(magicChunk), uint16(chunkDone), uint16(chunkError), uint64(6), uint32(6+len(why)), uint32(errIO), uint16(len(why)), why)
	c.finish()
}

// Requests in flight do not delay later ones, and a connection that breaks ends its requests.
func TestRequestsOverlap(t *testing.T) {
	dev := newMemory(4096)
	c := serveOne(t, Config{Device: &slow{dev}})
	c.begin(false)
	for i := range uint64(5) {
		c.request(0, cmdRead, i, 0, 1) // each waits for ever
	}
	c.request(0, cmdFlush, 9, 0, 0)
	c.simple("flush behind reads that wait", 0, 9)
	c.c.Close()
	select {
	case err := <-c.ended:
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the connection ends with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the connection goes on without its client")
	}
}

// slow is a device whose reads never end.
type slow struct{ *memory }

func (s *slow) ReadAtContext(ctx context.Context, _ []byte, _ int64) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// Short reads that arrived together are carried out together. A failure affects only the reply of
// its own read.
func TestShortReadsAreDoneTogether(t *testing.T) {
	dev := &together{memory: newMemory(4 * memoryBlock)}
	for i := range dev.b {
		dev.b[i] = byte(i / 7)
	}
	for _, structured := range []bool{false, true} {
		c := serveOne(t, Config{Device: dev})
		c.begin(structured)
		var all []byte
		for i := range uint64(5) {
			all = append(all, wire(0, cmdRead, i, 1000*i, 3)...)
		}
		c.send(string(all), string(wire(0, cmdFlush, 9, 0, 0)))
		for i := 4; i >= 0; i-- { // in the order in which the device ends them
			data := string(dev.b[1000*i:][:3])
			if structured {
				c.expect("read", uint32(magicChunk), uint16(chunkDone), uint16(chunkData), uint64(i), uint32(8+3), uint64(1000*i), data)
			} else {
				c.simple("read", 0, uint64(i), data)
			}
		}
		c.simple("flush", 0, 9)
		c.finish()
	}
	if dev.most != 5 {
		t.Errorf("at most %d reads are done together, want 5", dev.most)
	}
	dev.stuck = true
	c := serveOne(t, Config{Device: dev, Timeout: time.Millisecond})
	c.begin(false)
	c.send(string(wire(0, cmdRead, 1, 0, 1)), string(wire(0, cmdRead, 2, 0, 1)))
	c.simple("time-out", errIO, 2)
	c.simple("time-out", errIO, 1)
	c.finish()
}

// A short read that takes long does not delay the requests after it.
func TestAnotherWorkerReadsWhileAShortReadTakesLong(t *testing.T) {
	dev := &together{memory: newMemory(4 * memoryBlock), hold: make(chan struct{})}
	c := serveOne(t, Config{Device: dev})
	c.begin(false)
	c.request(0, cmdRead, 1, memoryBlock, 1)
	c.request(0, cmdRead, 2, 0, 1)
	c.simple("read behind one that waits", 0, 2, "\x00")
	c.request(0, cmdFlush, 3, 0, 0)
	c.simple("flush behind it", 0, 3)
	close(dev.hold)
	c.simple("the read that waited", 0, 1, "\x00")
	c.finish()
}

// Clients that leave their replies unread, and so use all the memory for requests, do not block
// other clients.
func TestAClientGoesOnBesideOthersThatHaveAllMemory(t *testing.T) {
	dev := newMemory(maxAlone)
	data := strings.Repeat("weft", maxAlone/4)
	for _, d := range []Device{dev, &together{memory: dev}} {
		s, err := New(Config{Device: d})
		if err != nil {
			t.Fatal(err)
		}
		slow := new(conn)
		s.budget.take(slow, maxUnderWay)
		c := connect(t, s)
		c.begin(false)
		for i := range uint64(3) {
			c.request(0, cmdWrite, i, 0, maxAlone, data)
			c.simple("write", 0, i)
			c.request(0, cmdRead, i, 0, maxAlone)
			c.simple("read", 0, i, data)
			c.send(string(wire(0, cmdRead, i, 0, 4)), string(wire(0, cmdRead, i, 4, 4)))
			c.simple("the first of two", 0, i, "weft")
			c.simple("the second", 0, i, "weft")
		}
		c.finish()
		s.budget.give(slow, maxUnderWay)
		if s.budget.left != maxUnderWay {
			t.Errorf("%d bytes of the budget are left, of %d", s.budget.left, maxUnderWay)
		}
	}
}

// wire returns a request in the form in which it is sent.
func wire(flags uint16, cmd command, cookie, offset uint64, length uint32) []byte {
	be := binary.BigEndian
	b := be.AppendUint16(be.AppendUint16(be.AppendUint32(nil, magicRequest), flags), uint16(cmd))
	return be.AppendUint32(be.AppendUint64(be.AppendUint64(b, cookie), offset), length)
}

func TestABrokenRequestEndsTheConnection(t *testing.T) {
	for want, talk := range map[string]func(*client){
		"a request begins with 0x1": func(c *client) { c.send(uint32(1), make([]byte, 24)) },
		"a write of 33554433 bytes": func(c *client) { c.request(0, cmdWrite, 1, 0, maxRequest+1) },
		"unexpected EOF":            func(c *client) { c.request(0, cmdWrite, 1, 0, 10, "short"); c.c.Close() },
		"unexpected":                func(c *client) { c.request(0, cmdWrite, 1, 0, 10); c.c.Close() },
	} {
		// The server may read the next bytes before the client closes, or after.
		for range 20 {
			c := serveOne(t, Config{Device: newMemory(4096)})
			c.begin(false)
			talk(c)
			if err := <-c.ended; err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("the connection ends with %v, want %q", err, want)
			}
		}
	}
}

// Whatever bytes a client sends, the server ends with the client, and the budget gets all its
// memory back.
func FuzzConnection(f *testing.F) {
	be := binary.BigEndian
	opt := func(o option, data string) string {
		return string(be.AppendUint32(be.AppendUint32(be.AppendUint64(nil, magicOption), uint32(o)), uint32(len(data)))) + data
	}
	req := func(flags uint16, cmd command, offset uint64, length uint32) string {
		return string(wire(flags, cmd, 7, offset, length))
	}
	set := opt(optSetMetaContext, "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x0fbase:allocation")
	start := "\x00\x00\x00\x03" + opt(optStructuredReply, "") + set + opt(optGo, "\x00\x00\x00\x00\x00\x01\x00\x03")
	f.Add([]byte(start + req(0, cmdRead, 0, 4096) + req(0, cmdWrite, 1, 3) + "abc" + req(0, cmdBlockStatus, 0, 8192)))
	f.Add([]byte(start + req(cmdNoHole, cmdWriteZeroes, 5, 9) + req(0, cmdTrim, 0, 1<<31) + req(0, cmdDisconnect, 0, 0)))
	f.Add([]byte("\x00\x00\x00\x01" + opt(optList, "") + opt(optInfo, "\x00\x00\x00\x01x\xff\xff") + opt(optExportName, "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		dev := newMemory(3*4096 + 5)
		for _, d := range []Device{dev, &together{memory: dev}} {
			converse(t, d, b)
		}
	})
}

// converse makes a client send bytes to a server of a device.
func converse(t *testing.T, d Device, b []byte) {
	s, err := New(Config{Device: d})
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	go func() { // reads everything that arrives, and ends with the server
		go io.Copy(io.Discard, here)
		here.Write(b)
		here.Close()
	}()
	_ = s.ServeConn(context.Background(), there)
	if s.budget.left != maxUnderWay {
		t.Fatalf("%d bytes of the budget are gone", maxUnderWay-s.budget.left)
	}
}

// lacking is a listener that has no file descriptor for its first connections.
type lacking struct {
	net.Listener
	fails int
}

func (l *lacking) Accept() (net.Conn, error) {
	if l.fails--; l.fails >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// While there are no file descriptors for connections, the server accepts none. When there are,
// it accepts the next one.
func TestAServerOutlivesWantOfFiles(t *testing.T) {
	var said []string
	s, err := New(Config{Device: newMemory(4096), Log: func(text string) { said = append(said, text) }})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, &lacking{Listener: l, fails: 2}) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var hello [8]byte
	if _, err := io.ReadFull(c, hello[:]); err != nil || string(hello[:]) != "NBDMAGIC" {
		t.Errorf("a server that had no files says %q (%v)", hello, err)
	}
	cancel()
	if err := <-done; err != nil || len(said) < 2 || said[0] != "a client has to wait: accept: accept4: too many open files" {
		t.Errorf("%v; it said %q", err, said)
	}
}
