package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"time"
)

// shapeSeen is what a program on host 0 observes of datagrams that host 1 sends back.
type shapeSeen struct {
	sent, came, copies, overtaken int
	shortest                      time.Duration // round trip
}

func TestExecFlagsShapeTheFramesOfTheTestbed(t *testing.T) {
	for _, c := range []struct {
		flag   string
		effect func(s shapeSeen) bool
	}{
		{"--delay=30ms", func(s shapeSeen) bool { return s.shortest >= 60*time.Millisecond && s.copies == 0 && s.overtaken == 0 }},
		{"--jitter=30ms", func(s shapeSeen) bool { return s.overtaken > 0 && s.copies == 0 }},
		{"--duplicate=20%", func(s shapeSeen) bool { return s.copies > 0 && s.overtaken == 0 }},
		{"--reorder=20%", func(s shapeSeen) bool { return s.overtaken > 0 && s.copies == 0 }},
	} {
		r := testbedExec(t, "--hosts", "2", c.flag, "--seed", "7", "--", "env", "-u", asWeft, os.Args[0], "-test.run=^TestHelperSendsDatagrams$", "-test.v")
		r.Env = append(r.Env, "WEFT_TEST_SENDS_DATAGRAMS=1")
		status := r.status(t)
		var s shapeSeen
		var shortest int64
		for _, line := range sorted(&r.stdout) {
			fmt.Sscanf(line, "[0] sent %d came %d copies %d overtaken %d shortest %d", &s.sent, &s.came, &s.copies, &s.overtaken, &shortest)
		}
		s.shortest = time.Duration(shortest)
		if status != 0 || s.sent == 0 || s.came != s.sent || !c.effect(s) {
			t.Errorf("%s: status %d, a reader of datagrams sees %+v; %s%s", c.flag, status, s, &r.stdout, &r.stderr)
		}
	}
}

// TestHelperSendsDatagrams is a program on each host: host 1 sends datagrams back, host 0 sends
// them and prints what it observed.
func TestHelperSendsDatagrams(t *testing.T) {
	if os.Getenv("WEFT_TEST_SENDS_DATAGRAMS") == "" {
		t.Skip("for TestExecFlagsShapeTheFramesOfTheTestbed")
	}
	here := net.UDPAddr{IP: net.ParseIP(os.Getenv("WEFT_ADDR")), Port: 7000}
	c, err := net.ListenUDP("udp", &here)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if os.Getenv("WEFT_HOST") == "1" {
		sendBack(t, c)
		return
	}
	there := net.UDPAddr{IP: net.IPv4(10, 87, 0, 2), Port: 7000}
	const hello, bye = 1 << 30, 1<<30 + 1
	for { // until host 1 listens
		sendNumber(t, c, &there, hello)
		c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := c.Read(make([]byte, 4)); err == nil {
			break
		}
	}
	c.SetReadDeadline(time.Now().Add(patience))
	s := count(t, c, &there)
	for range 20 { // any of them may be lost in a queue
		sendNumber(t, c, &there, bye)
	}
	fmt.Printf("sent %d came %d copies %d overtaken %d shortest %d\n", s.sent, s.came, s.copies, s.overtaken, s.shortest)
}

func sendNumber(t *testing.T, c *net.UDPConn, to *net.UDPAddr, number uint32) {
	t.Helper()
	if _, err := c.WriteToUDP(binary.BigEndian.AppendUint32(nil, number), to); err != nil {
		t.Fatal(err)
	}
}

// sendBack sends datagrams back, and returns at the number bye.
func sendBack(t *testing.T, c *net.UDPConn) {
	t.Helper()
	buf := make([]byte, 4)
	for {
		n, from, err := c.ReadFromUDP(buf)
		if err != nil {
			t.Fatal(err)
		}
		if binary.BigEndian.Uint32(buf) == 1<<30+1 {
			return
		}
		if _, err := c.WriteToUDP(buf[:n], from); err != nil {
			t.Fatal(err)
		}
	}
}

// count sends datagrams and reads until each has come back, and for a while more.
func count(t *testing.T, c *net.UDPConn, to *net.UDPAddr) shapeSeen {
	t.Helper()
	s := shapeSeen{sent: 100, shortest: time.Hour}
	at := make([]time.Time, s.sent)
	for i := range at {
		at[i] = time.Now()
		sendNumber(t, c, to, uint32(i))
	}
	var order []int
	seen := map[int]bool{}
	for buf := make([]byte, 4); ; {
		if len(seen) == s.sent {
			c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		}
		if _, err := c.Read(buf); err != nil {
			break
		}
		number := int(binary.BigEndian.Uint32(buf))
		if number >= s.sent {
			continue // an answer to a greeting
		}
		s.shortest = min(s.shortest, time.Since(at[number]))
		if !seen[number] && len(order) > 0 && number < slices.Max(order) {
			s.overtaken++
		}
		seen[number] = true
		order = append(order, number)
	}
	s.came, s.copies = len(seen), len(order)-len(seen)
	return s
}
