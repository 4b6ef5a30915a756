package nbd

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// data returns the data of an option.
func data(parts ...any) []any { return parts }

// Each invalid option is refused, and the handshake continues. No invalid option gives the client
// the use of the device.
func TestAnOptionThatIsWrongIsRefused(t *testing.T) {
	s, err := New(Config{Device: newMemory(4096), Export: "pages", Description: "some"})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s)
	c.greet(flagFixedNewstyle | flagNoZeroes)
	for i, o := range []struct {
		o    option
		data []any
		want answer
		says string
	}{
		{optList, data("x"), repErrInvalid, "LIST has no data"},
		{optStartTLS, nil, repErrUnsupported, "no TLS"},
		{optStructuredReply, data("x"), repErrInvalid, "STRUCTURED_REPLY has no data"},
		{optSetMetaContext, data(uint32(5), "pages", uint32(0)), repErrInvalid, "STRUCTURED_REPLY before"},
		{optListMetaContext, data(uint32(5), "pages", uint32(0)), repErrInvalid, "STRUCTURED_REPLY before"},
		{optGo, data(uint32(5), "other", uint16(0)), repErrUnknown, `no export "other"; there is "pages"`},
		{optInfo, data(uint32(0), uint16(0)), repErrUnknown, `no export ""`},
		{optGo, data(uint32(5), "pages"), repErrInvalid, "a name and a list of numbers"},
		{optGo, data(uint32(5), "pages", uint16(1)), repErrInvalid, "a name and a list of numbers"},
		{optGo, data(uint32(5), "pages", uint16(1), "x"), repErrInvalid, "a name and a list of numbers"},
		{optGo, data(uint32(5), "pages", uint16(0), uint16(0)), repErrInvalid, "a name and a list of numbers"},
		{optGo, data(uint32(1<<31), "pages"), repErrInvalid, "a name and a list of numbers"},
		{optGo, data("xyz"), repErrInvalid, "a name and a list of numbers"},
		{optInfo, data(uint32(5), "pages", uint16(1<<15)), repErrInvalid, "a name and a list of numbers"},
		{optSetMetaContext, data(uint32(5), "pages", uint32(1)), repErrInvalid, "a name and a list of queries"},
		{optSetMetaContext, data(uint32(5), "pages", uint32(1<<31), uint32(0)), repErrInvalid, "a name and a list of queries"},
		{optSetMetaContext, data(uint32(5), "pages", uint32(0), "x"), repErrInvalid, "a name and a list of queries"},
		{optListMetaContext, data(uint32(9), "pages"), repErrInvalid, "a name and a list of queries"},
		{4, nil, repErrUnsupported, "no option 4"},
		{option(11), nil, repErrUnsupported, "no option 11"},
		{77, data(strings.Repeat("x", maxOption)), repErrUnsupported, "no option 77"},
		{77, data(strings.Repeat("x", maxOption+1)), repErrTooBig, "65537 bytes; at most 65536"},
		{optGo, data(strings.Repeat("x", maxSkipped)), repErrTooBig, "1048576 bytes; at most 65536"},
	} {
		c.option(o.o, o.data...)
		if got := c.answered(o.o, o.want); !strings.Contains(got, o.says) {
			t.Errorf("row %d: the client is told %q; expected %q", i, got, o.says)
		}
	}
	c.option(optStructuredReply)
	c.answered(optStructuredReply, repAck)
	c.option(optSetMetaContext, data(uint32(5), "other", uint32(0))...)
	c.answered(optSetMetaContext, repErrUnknown)
	s.mu.Lock()
	users := s.users
	s.mu.Unlock()
	if users != 0 {
		t.Errorf("%d users behind options that were refused", users)
	}
	c.option(optAbort)
	c.answered(optAbort, repAck)
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
	if got, want := s.Counts(), (Counts{Accepted: 1}); got != want || s.newcomers.Len() != 0 {
		t.Errorf("%+v, and %d newcomers; expected %+v and none", got, s.newcomers.Len(), want)
	}
}

// A client gets exactly the information about an export for which it has asked.
func TestAClientIsToldWhatItAskedOfAnExport(t *testing.T) {
	const head = "\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00"
	for name, c := range map[string]struct {
		cfg   Config
		asks  []any
		wants []string
	}{
		"nothing":                   {Config{Description: "some"}, data(uint16(0)), []string{head + "\x09\x6d"}},
		"its name":                  {Config{Description: "some"}, data(uint16(1), uint16(infoName)), []string{head + "\x09\x6d", "\x00\x01pages"}},
		"its description":           {Config{Description: "some"}, data(uint16(1), uint16(infoDescription)), []string{head + "\x09\x6d", "\x00\x02some"}},
		"one that it does not have": {Config{}, data(uint16(1), uint16(infoDescription)), []string{head + "\x09\x6d"}},
		"its sizes":                 {Config{Block: 8192}, data(uint16(1), uint16(infoBlockSize)), []string{head + "\x09\x6d", "\x00\x03\x00\x00\x00\x01\x00\x00\x20\x00\x02\x00\x00\x00"}},
		"what there is not":         {Config{}, data(uint16(1), uint16(99)), []string{head + "\x09\x6d"}},
		"one that is read-only":     {Config{ReadOnly: true}, data(uint16(0)), []string{head + "\x09\x6f"}},
	} {
		c.cfg.Device, c.cfg.Export = newMemory(4096), "pages"
		for _, o := range []option{optInfo, optGo} {
			cl := serveOne(t, c.cfg)
			cl.greet(flagFixedNewstyle | flagNoZeroes)
			cl.option(o, append(data(uint32(5), "pages"), c.asks...)...)
			for _, want := range c.wants {
				if got := cl.answered(o, repInfo); got != want {
					t.Errorf("a client that asks for %s by option %d is told %q; expected %q", name, o, got, want)
				}
			}
			cl.answered(o, repAck)
			if o == optInfo { // does not begin the transmission
				cl.option(optAbort)
				cl.answered(optAbort, repAck)
				<-cl.ended
				continue
			}
			cl.finish()
		}
	}
}

// The answer to EXPORT_NAME ends with zeros unless the client wants none.
func TestExportNameHasItsZerosUnlessTheClientWantsNone(t *testing.T) {
	for flags, zeros := range map[uint32]int{flagFixedNewstyle: 124, flagFixedNewstyle | flagNoZeroes: 0} {
		c := serveOne(t, Config{Device: newMemory(4096), Export: "pages"})
		c.greet(flags)
		c.option(optExportName, "pages")
		c.expect("answer", uint64(4096), uint16(0x96d), make([]byte, zeros))
		c.request(0, cmdFlush, 1, 0, 0)
		c.simple("flush", 0, 1)
		c.finish()
	}
}

// A client gets the contexts that it sets. A list may ask for all contexts of a namespace.
func TestAContextIsSetByItsWholeName(t *testing.T) {
	for name, c := range map[string]struct {
		o       option
		queries []string
		id      string // "": none
	}{
		"all, to list":            {optListMetaContext, nil, "\x00\x00\x00\x00"},
		"all, to set":             {optSetMetaContext, nil, ""},
		"a namespace, to list":    {optListMetaContext, []string{"base:"}, "\x00\x00\x00\x00"},
		"a namespace, to set":     {optSetMetaContext, []string{"base:"}, ""},
		"the context, to list":    {optListMetaContext, []string{allocation}, "\x00\x00\x00\x00"},
		"the context, to set":     {optSetMetaContext, []string{allocation}, "\x00\x00\x00\x01"},
		"it and another":          {optSetMetaContext, []string{allocation, "qemu:x"}, "\x00\x00\x00\x01"},
		"another, and it":         {optSetMetaContext, []string{"qemu:x", allocation}, "\x00\x00\x00\x01"},
		"another":                 {optListMetaContext, []string{"qemu:x"}, ""},
		"what begins with a part": {optListMetaContext, []string{"base"}, ""},
	} {
		cl := serveOne(t, Config{Device: newMemory(4096)})
		cl.greet(flagFixedNewstyle | flagNoZeroes)
		cl.option(optStructuredReply)
		cl.answered(optStructuredReply, repAck)
		asks := data(uint32(0), uint32(len(c.queries)))
		for _, q := range c.queries {
			asks = append(asks, uint32(len(q)), q)
		}
		cl.option(c.o, asks...)
		if c.id != "" {
			if got := cl.answered(c.o, repMetaContext); got != c.id+allocation {
				t.Errorf("%s: the context is %q; expected %q", name, got, c.id+allocation)
			}
		}
		cl.answered(c.o, repAck)
		cl.option(optGo, uint32(0), uint16(0))
		cl.answered(optGo, repInfo)
		cl.answered(optGo, repAck)
		cl.request(0, cmdBlockStatus, 1, 0, 4096)
		kind, body := uint16(chunkError), "\x00\x00\x00\x16\x00\x24BLOCK_STATUS without base:allocation"
		if c.o == optSetMetaContext && c.id != "" {
			kind, body = chunkBlockStatus, "\x00\x00\x00\x01\x00\x00\x10\x00\x00\x00\x00\x03"
		}
		cl.expect("status behind "+name, uint32(magicChunk), uint16(chunkDone), kind, uint64(1), uint32(len(body)), body)
		cl.finish()
	}
}

// An option that is too long ends the handshake. The server reads no further.
func TestAnOptionThatIsTooLongEndsTheHandshake(t *testing.T) {
	for name, c := range map[string]struct {
		o      option
		length uint32
		data   string
		want   error
	}{
		"one byte more than is passed over": {77, maxSkipped + 1, "", errProtocol},
		"a name that is not looked at":      {optExportName, maxOption + 1, "", errProtocol},
		"an end within its data":            {77, 5, "four", io.ErrUnexpectedEOF},
		"an end before its data":            {77, 5, "", io.EOF},
		"an end within what is passed over": {77, maxSkipped, "four", io.EOF},
		"an end before what is passed over": {77, maxOption + 1, "", io.EOF},
	} {
		s, err := New(Config{Device: newMemory(4096)})
		if err != nil {
			t.Fatal(err)
		}
		cl := connect(t, s)
		cl.greet(flagFixedNewstyle)
		cl.send(uint64(magicOption), uint32(c.o), c.length, c.data)
		if !errors.Is(c.want, errProtocol) {
			cl.c.Close()
		}
		if err := <-cl.ended; !errors.Is(err, c.want) {
			t.Errorf("%s: the handshake ends with %v; expected %v", name, err, c.want)
		}
		if got, want := s.Counts(), (Counts{Accepted: 1, Failed: 1}); got != want {
			t.Errorf("%s: %+v; expected %+v", name, got, want)
		}
		if _, err := cl.c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: the server says more", name)
		}
	}
}

// A server has places for a few users. If a client has no place, GO returns an error and
// EXPORT_NAME ends the connection. Each such client is counted.
func TestAClientWithoutAPlaceIsTurnedAway(t *testing.T) {
	var log []string
	s, err := New(Config{Device: newMemory(4096), Clients: 1, Log: func(text string) { log = append(log, text) }})
	if err != nil {
		t.Fatal(err)
	}
	user := connect(t, s)
	user.begin(false)
	user.request(0, cmdFlush, 1, 0, 0)
	user.simple("flush", 0, 1)
	for _, o := range []option{optGo, optExportName} {
		c := connect(t, s)
		c.greet(flagFixedNewstyle | flagNoZeroes)
		if o == optGo {
			c.option(o, uint32(0), uint16(0))
			if got := c.answered(o, repErrPolicy); got != errNoRoom.Error() {
				t.Errorf("a client without a place is told %q; expected %q", got, errNoRoom)
			}
		} else {
			c.option(o)
		}
		err := <-c.ended
		if !errors.Is(err, errNoRoom) {
			t.Errorf("by option %d a client without a place ends with %v", o, err)
		}
		s.logEnd(err)
	}
	if got, want := s.Counts(), (Counts{Accepted: 3, Full: 2}); got != want || s.newcomers.Len() != 0 || s.users != 1 {
		t.Errorf("%+v, %d newcomers and %d users; expected %+v, none and one", got, s.newcomers.Len(), s.users, want)
	}
	if len(log) != 2 || log[0] != "a client is turned away: 1 are connected" {
		t.Errorf("the log has %q", log)
	}
	user.finish()
}

// A client has limited time for the whole handshake, even if it continues to send.
func TestAHandshakeHasBoundedTimeHoweverMuchIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Device: newMemory(4096)})
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		ended := make(chan error, 1)
		begun := time.Now()
		go func() { ended <- s.ServeConn(t.Context(), there) }()
		go io.Copy(io.Discard, here)
		go func() {
			_, err := here.Write([]byte{0, 0, 0, flagFixedNewstyle})
			for ; err == nil; _, err = here.Write([]byte("IHAVEOPT\x00\x00\x00\x03\x00\x00\x00\x00")) {
				time.Sleep(limits.HandshakeWithin / 10)
			}
		}()
		if err := <-ended; err == nil || time.Since(begun) != limits.HandshakeWithin {
			t.Errorf("a handshake ends after %v, %v; expected %v", time.Since(begun), err, limits.HandshakeWithin)
		}
		if c := s.Counts(); c.Failed != 1 || s.newcomers.Len() != 0 {
			t.Errorf("%+v, and %d newcomers", c, s.newcomers.Len())
		}
		here.Close()
		time.Sleep(limits.HandshakeWithin) // the client sees the end
	})
}
