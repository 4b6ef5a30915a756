package stream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/iotest"
	"time"
)

// Each long message needs a permission, so a Write uses as few messages as possible: two for a
// Write that fills the peer's buffer. The same holds for io.Copy from a reader that has no other
// method than Read.
func TestAWriteThatFillsTheWindowIsTwoMessages(t *testing.T) {
	data := make([]byte, readBuffer)
	for name, write := range map[string]func(c *Conn) error{
		"Write":    func(c *Conn) error { _, err := c.Write(data); return err },
		"ReadFrom": func(c *Conn) error { _, err := io.Copy(c, struct{ io.Reader }{bytes.NewReader(data)}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			server, client := onSwitch(t)
			c, s := dialled(t, server, client, "two")
			sent := func() uint64 { return client.NIC().Counters()["nic_messages_sent"] }
			before := sent()
			wrote := make(chan error, 1)
			go func() { wrote <- write(c) }()
			if _, err := io.ReadFull(s, make([]byte, readBuffer)); err != nil {
				t.Fatal(err)
			}
			if err := <-wrote; err != nil {
				t.Fatal(err)
			}
			for f := c.oldest(); f != nil; f = c.oldest() {
				if _, err := f.op.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n := sent() - before; n != 2 {
				t.Errorf("%d bytes left as %d messages; expected 2", readBuffer, n)
			}
		})
	}
}

// ReadFrom does not copy the bytes of a full message. They are sent from the memory into which
// they were read, and the next bytes are read into other memory.
func TestReadFromReadsToWhatLeaves(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "handed")
	data := make([]byte, 4*dataBytes+dataBytes/2+7)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	from := &placed{r: bytes.NewReader(data)}
	took := make(chan error, 1)
	go func() {
		_, err := c.ReadFrom(from)
		took <- err
	}()
	got := make([]byte, len(data))
	if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, data) {
		t.Errorf("other bytes came, or not all: %v", err)
	}
	if err := <-took; err != nil {
		t.Fatal(err)
	}
	if from.again > 0 {
		t.Errorf("of %d parts %d were read to where the one before it was: they were copied", from.parts, from.again)
	}
}

// placed is a reader. It counts how often it reads into the same memory as the time before, after
// that memory was filled.
type placed struct {
	r            io.Reader
	last         *byte
	parts, again int
}

func (p *placed) Read(b []byte) (n int, err error) {
	if p.last == &b[0] {
		p.again++
	}
	p.parts++
	p.last = nil
	if n, err = p.r.Read(b); n == dataBytes {
		p.last = &b[0]
	}
	return n, err
}

// The bytes that a reader returned before it failed, or before a deadline ended the Write, must
// arrive. ReadFrom returns their number and the error.
func TestReadFromTellsWhatItHasTakenAndWhyItEnded(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "partly")
	given := []byte("all that there is")
	broken := errors.New("the reader is broken")
	if n, err := c.ReadFrom(io.MultiReader(bytes.NewReader(given), iotest.ErrReader(broken))); n != int64(len(given)) || err != broken {
		t.Errorf("%d bytes taken, %v; expected %d and %v", n, err, len(given), broken)
	}
	endless := &counted{again: func() { _ = c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)) }}
	sum, err := c.ReadFrom(endless)
	if !errors.Is(err, os.ErrDeadlineExceeded) || sum == 0 || sum > endless.given {
		t.Errorf("%d bytes taken of %d, %v; expected some, and %v", sum, endless.given, err, os.ErrDeadlineExceeded)
	}
	_ = c.SetWriteDeadline(time.Now().Add(time.Minute))
	if n, err := c.ReadFrom(bytes.NewReader(nil)); n != 0 || err != nil {
		t.Errorf("%d bytes taken of a reader that has none, %v", n, err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(s)
	if err != nil || len(got) != len(given)+int(sum) || !bytes.HasPrefix(got, given) {
		t.Fatalf("%d bytes came, %v; expected %d", len(got), err, len(given)+int(sum))
	}
	for i, b := range got[len(given):] {
		if b != byte(i*251>>3) {
			t.Fatalf("byte %d is damaged", i)
		}
	}
}

// counted is an endless reader. When it is called a second time, it calls a function: the bytes
// of the first call have been written by then.
type counted struct {
	given int64
	again func()
}

func (r *counted) Read(b []byte) (int, error) {
	if r.given > 0 && r.again != nil {
		r.again()
		r.again = nil
	}
	for i := range b {
		b[i] = byte(r.given * 251 >> 3)
		r.given++
	}
	return len(b), nil
}

// A part of a message waits until there is room for the whole message. It must not wait if no
// message is in flight, because then no answer could bring more room.
func TestAPartOfAMessageWaitsWhileOthersAreUnderWay(t *testing.T) {
	for _, x := range []struct {
		n, left, under int
		worth          bool
	}{
		{0, 1, 0, false},
		{0, 1, 1, false},
		{1, 2, 0, true},
		{1, 2, 1, false},
		{dataBytes - 1, dataBytes, 1, false},
		{dataBytes - 1, dataBytes - 1, 1, true},
		{dataBytes, dataBytes, 1, true},
		{dataBytes, 2 * dataBytes, 1, true},
	} {
		c := &Conn{ops: &flights{begun: x.under}, bound: flyingBytes}
		if got := c.worth(x.n, x.left); got != x.worth {
			t.Errorf("%d of %d bytes with %d messages under way are worth one: %v; expected %v", x.n, x.left, x.under, got, x.worth)
		}
	}
}

// Thousands of connections may be copied to streams, and most of them are silent. A silent
// connection has a short buffer, and an active one has a long buffer.
func TestAReadFromThatWaitsForAConnectionKeepsLittle(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "idle")
	from, source := net.Pipe()
	defer source.Close()
	asked := make(chan int, 10)
	go func() { _, _ = io.Copy(c, asking{from, asked}) }()
	const little = 100
	go func() {
		for _, n := range []int{little, waitingBytes + little} {
			_, _ = source.Write(make([]byte, n))
		}
	}()
	if _, err := io.ReadFull(s, make([]byte, waitingBytes+2*little)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{waitingBytes, waitingBytes, dataBytes, waitingBytes} {
		if n := <-asked; n != want {
			t.Errorf("read %d has a buffer of %d bytes; expected %d", i, n, want)
		}
	}
}

// asking is a connection that records the length of the buffer of each Read.
type asking struct {
	net.Conn
	asked chan<- int
}

func (c asking) Read(b []byte) (int, error) {
	c.asked <- len(b)
	return c.Conn.Read(b)
}
