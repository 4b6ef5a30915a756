package daemon_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/testenv"
)

// resolves makes host resolve to some addresses until the test ends. No query leaves this
// program.
func resolves(t *testing.T, host string, addrs ...netip.Addr) {
	t.Helper()
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		resolver, server := net.Pipe()
		go answerNames(server, host, addrs)
		return resolver, nil
	}}
}

// answerNames answers the queries of a resolver over TCP, where each message follows its length.
func answerNames(c net.Conn, host string, addrs []netip.Addr) {
	defer c.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(c, q); err != nil {
			return
		}
		end, name := 12, ""
		for q[end] != 0 {
			name += string(q[end+1:end+1+int(q[end])]) + "."
			end += 1 + int(q[end])
		}
		kind := binary.BigEndian.Uint16(q[end+1:])
		answer, n := q[12:end+5:end+5], 0
		for _, a := range addrs {
			if name == host+"." && (kind == 1 && a.Is4() || kind == 28 && a.Is6()) {
				n++
				answer = append(answer, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 60, 0, byte(a.BitLen()/8))
				answer = append(answer, a.AsSlice()...)
			}
		}
		head := append([]byte{0, 0, q[0], q[1], 0x81, 0x80, 0, 1, 0, byte(n), 0, 0, 0, 0}, answer...)
		binary.BigEndian.PutUint16(head, uint16(len(head)-2))
		if _, err := c.Write(head); err != nil {
			return
		}
	}
}

// A name has addresses of both families, and the NIC there listens at one of them. Only IPv4 used
// to be tried.
func TestANodeIsFoundAtTheAddressOfItsNameThatAnswers(t *testing.T) {
	if c, err := net.ListenPacket("udp6", "[::1]:0"); err != nil {
		t.Skip("this host has no IPv6:", err)
	} else {
		c.Close()
	}
	four, six := netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()
	for _, at := range []netip.Addr{four, six} {
		t.Run(at.String(), func(t *testing.T) {
			resolves(t, "node-2.weft.test", six, four)
			c := configs(t, 2)
			port := netip.MustParseAddrPort(testenv.Loopback(t)).Port()
			c[0].Listen = fmt.Sprintf(":%d", netip.MustParseAddrPort(c[0].Listen).Port())
			c[0].Nodes, c[1].Nodes = []file.Entry{{Address: fmt.Sprintf("node-2.weft.test:%d", port)}}, nil
			c[1].Listen = netip.AddrPortFrom(at, port).String()
			log := run(t, c[0])
			run(t, c[1])
			logs(t, log, "level=INFO", "peer is up", "address="+c[1].Listen)
			a, b := mustAttach(t, c[0], "a/0"), mustAttach(t, c[1], "b/0")
			wait(t, a, "b/0")
			wait(t, b, "a/0")
			exchange(t, a, b, 1)
			if at == six {
				logs(t, log, "level=WARN", "a node answers at one address of its host and not at others", "address="+c[1].Listen,
					fmt.Sprintf("no_answer_at=%v", netip.AddrPortFrom(four, port)))
			}
		})
	}
}
