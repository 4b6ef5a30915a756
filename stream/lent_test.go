package stream

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"
)

// Bytes that lie in the Inbox for one stream must be kept when a message for another stream
// arrives. Each reader gets all of its own bytes.
func TestBytesThatAreReadLateAreKeptWhenOthersComeForAnotherStream(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, client := onSwitch(t)
	l, err := Listen(server, "sink")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	d := &Dialer{Process: client}
	var from, to [2]*Conn
	var data [2][]byte
	for i := range from {
		if from[i], err = d.Dial(ctx, l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		to[i] = c.(*Conn)
		data[i] = bytes.Repeat([]byte{byte(i + 1), 7, byte(i + 3)}, 100_000)
		for _, c := range []*Conn{from[i], to[i]} {
			t.Cleanup(func() { c.Close() })
			_ = c.SetDeadline(time.Now().Add(time.Minute))
		}
		if _, err := from[i].Write(data[i]); err != nil {
			t.Fatal(err)
		}
	}
	var got [2][]byte
	piece := make([]byte, 1000)
	for len(got[0]) < len(data[0]) || len(got[1]) < len(data[1]) {
		for i, c := range to {
			if len(got[i]) == len(data[i]) {
				continue
			}
			n, err := c.Read(piece)
			if err != nil {
				t.Fatal(err)
			}
			got[i] = append(got[i], piece[:n]...)
		}
	}
	for i := range got {
		if !bytes.Equal(got[i], data[i]) {
			t.Errorf("the bytes of stream %d are damaged", i)
		}
	}
}

// A Write that is longer than one message has several messages in flight. WriteTo at the other
// end passes all of them on.
func TestALongWriteComesWholeThroughWriteTo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, client := onSwitch(t)
	l, err := Listen(server, "sink")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c, err := (&Dialer{Process: client}).Dial(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 5*dataBytes+7)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		if err == nil {
			err = c.CloseWrite()
		}
		wrote <- err
	}()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SetDeadline(time.Now().Add(time.Minute))
	var got bytes.Buffer
	if n, err := io.Copy(&got, s); err != nil || n != int64(len(data)) || !bytes.Equal(got.Bytes(), data) {
		t.Errorf("%d of %d bytes came, %v", n, len(data), err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	c.Close()
	s.Close()
}
