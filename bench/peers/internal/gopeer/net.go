package gopeer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

func init() {
	all = append(all,
		&Peer{Name: "Go net UDP", Kind: "udp", Most: 16 << 10, Measures: []string{contest.Latency, contest.Rate},
			Clean: true, serve: serveUDP, dial: dialUDP,
			Notes: map[string]string{contest.Rate: "what has arrived; the rest is lost"}},
		&Peer{Name: "Go net TCP", Kind: "tcp", Most: maxSize, Measures: everything, Clean: true, Lossy: true,
			needs: haveTCP(cubic), serve: serveStreams(overTCP(cubic)), dial: dialStream(overTCP(cubic)),
			Notes: map[string]string{contest.Latency: "congestion control cubic",
				contest.Bandwidth: "congestion control cubic"}},
		&Peer{Name: "Go net TCP, BBR", Kind: "bbr", Most: maxSize, Measures: everything, Lossy: true,
			needs: haveTCP(bbr), serve: serveStreams(overTCP(bbr)), dial: dialStream(overTCP(bbr))})
}

var everything = []string{contest.Latency, contest.Rate, contest.Bandwidth}

// dialStream opens one connection.
func dialStream(c *carrier) func(context.Context, string) (conn, error) {
	return func(ctx context.Context, at string) (conn, error) {
		dial, end, err := c.open(ctx, at)
		if err != nil {
			return nil, err
		}
		rw, err := dial(ctx)
		if err != nil {
			return nil, errors.Join(err, end())
		}
		return &byteStream{rw: rw, end: end}, nil
	}
}

// serveStreams serves each connection in its own goroutine.
func serveStreams(c *carrier) func(context.Context, string, func(string) error) error {
	return c.serving(func(l net.Listener) error {
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			go func() {
				defer c.Close()
				_ = serveStream(c) // the client reports the error
			}()
		}
	})
}

// dgrams is a conn over UDP. Lost datagrams stay lost, so every wait has a timeout.
type dgrams struct {
	*net.UDPConn
	asked byte  // number of requests for the count
	known int64 // the count in the last answer
}

// udpPatience is how long an answer may take before it counts as lost.
const udpPatience = 200 * time.Millisecond

func dialUDP(ctx context.Context, addr string) (conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", addr)
	if err != nil {
		return nil, err
	}
	return &dgrams{UDPConn: c.(*net.UDPConn)}, nil
}

func (d *dgrams) echo(message []byte) error {
	if _, err := d.Write(message); err != nil {
		return err
	}
	_, err := d.Read(message)
	return err
}

func (d *dgrams) pour(message []byte, more func() bool) (int64, error) {
	message[0] = byteData
	for more() {
		if _, err := d.Write(message); err != nil {
			return 0, err
		}
	}
	message[0] = byteLast
	for range 10 { // the request or the answer may be lost
		d.asked++
		message[1] = d.asked
		if _, err := d.Write(message); err != nil {
			return 0, err
		}
		n, err := d.answer()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		arrived := n - d.known
		d.known = n
		return arrived, errors.Join(err, d.SetReadDeadline(time.Time{}))
	}
	return 0, fmt.Errorf("no count after %v", 10*udpPatience)
}

// answer waits for the answer to the last request, and returns it: the number of data messages
// that have ever arrived. It skips late answers to earlier requests.
func (d *dgrams) answer() (int64, error) {
	if err := d.SetReadDeadline(time.Now().Add(udpPatience)); err != nil {
		return 0, err
	}
	var b [9]byte
	for {
		n, err := d.Read(b[:])
		switch {
		case err != nil:
			return 0, err
		case n != len(b):
			return 0, fmt.Errorf("a count of %d bytes, expected %d", n, len(b))
		case b[0] == d.asked:
			return int64(binary.BigEndian.Uint64(b[1:])), nil
		}
	}
}

func (d *dgrams) close() error { return d.Close() }

func serveUDP(_ context.Context, addr string, ready func(string) error) error {
	at, err := net.ResolveUDPAddr("udp", net.JoinHostPort(addr, "0"))
	if err != nil {
		return err
	}
	c, err := net.ListenUDP("udp", at)
	if err != nil {
		return err
	}
	if err := ready(c.LocalAddr().String()); err != nil {
		return err
	}
	buf, count := make([]byte, maxSize), uint64(0)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			return err
		}
		answer := buf[:n]
		switch buf[0] {
		case byteData:
			count++
			continue
		case byteLast:
			answer = binary.BigEndian.AppendUint64([]byte{buf[1]}, count)
		}
		if _, err := c.WriteToUDPAddrPort(answer, from); err != nil {
			return err
		}
	}
}
