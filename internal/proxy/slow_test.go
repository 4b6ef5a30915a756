package proxy_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// Clients that read nothing, and clients that send nothing, delay no other client. Bytes that
// wait for a slow client arrive when it reads.
func TestSlowAndSilentClientsHoldUpNoOther(t *testing.T) {
	const slow, silent, quick, length = 3, 200, 8, 8 << 20
	server := listen(t)
	serveEach(server, func(c net.Conn) {
		kind := make([]byte, 1)
		if _, err := io.ReadFull(c, kind); err != nil {
			return
		}
		if kind[0] == 's' {
			c.Write(make([]byte, length))
			return
		}
		io.Copy(c, c)
	})
	address, in, _, _ := tunnel(t, server, patience)
	begin := func(kind string) *net.TCPConn {
		c := dial(t, address)
		if _, err := io.WriteString(c, kind); err != nil {
			t.Fatal(err)
		}
		return c
	}
	var slows, silents []*net.TCPConn
	for range slow {
		slows = append(slows, begin("s"))
	}
	for range silent {
		silents = append(silents, begin("q"))
	}
	var wg sync.WaitGroup
	for range quick {
		wg.Go(func() {
			c, b := begin("q"), make([]byte, 1<<20)
			for i := range b {
				b[i] = byte(i >> 3)
			}
			go func() { c.Write(b); c.CloseWrite() }()
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, b) {
				t.Errorf("%d bytes came back of %d, %v", len(got), len(b), err)
			}
		})
	}
	wg.Wait()
	for _, c := range silents {
		if _, err := c.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range slows {
		if n, err := io.Copy(io.Discard, c); n != length || err != nil {
			t.Errorf("a slow client reads %d bytes, %v; expected %d", n, err, length)
		}
	}
	if got := in.Counts(); got.Accepted != slow+silent+quick || got.Reset != 0 {
		t.Errorf("%+v; expected %d accepted, and none reset", got, slow+silent+quick)
	}
}
