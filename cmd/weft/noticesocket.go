package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/launch"
)

// noticeSocket is a UDP socket for notices between weft run and its keepers. Notices bypass the
// NICs.
type noticeSocket struct{ c *net.UDPConn }

// listenForNotices opens the socket of weft run, with its own key, on the address of this host's
// NIC. It returns nil for a NIC without an IP address. Without a socket, the other hosts notice
// a killed daemon by the silence of its NIC.
func listenForNotices(ctx context.Context, conn *ctl.Conn) *launch.Notices {
	info, _, unmap, err := conn.Stat(ctx)
	if err != nil {
		return nil
	}
	_ = unmap()
	at, err := netip.ParseAddrPort(info.Address)
	if err != nil {
		return nil
	}
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at.Addr(), 0)))
	if err != nil {
		return nil
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	port := c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	return &launch.Notices{Datagrams: noticeSocket{c}, NoticePort: launch.NoticePort{Port: port, Key: key}}
}

// dialNotices opens the socket of a keeper to a port of the launcher's host. It returns nil if
// the launcher's NIC has no IP address, or is this host's.
func dialNotices(host string) func(port uint16) (launch.Datagrams, error) {
	at, err := netip.ParseAddr(host)
	if err != nil {
		return nil
	}
	return func(port uint16) (launch.Datagrams, error) {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, port)))
		if err != nil {
			return nil, err
		}
		return noticeSocket{c}, nil
	}
}

func (s noticeSocket) Send(to netip.AddrPort, b []byte) error {
	if s.c.RemoteAddr() != nil {
		_, err := s.c.Write(b)
		return err
	}
	_, err := s.c.WriteToUDPAddrPort(b, to)
	return err
}

// Receive retries after errors that others cause, such as a refusal by a host whose socket is
// closed.
func (s noticeSocket) Receive(ctx context.Context, b []byte) (int, netip.AddrPort, error) {
	stop := context.AfterFunc(ctx, func() { _ = s.c.SetReadDeadline(time.Now()) })
	defer stop()
	for {
		n, from, err := s.c.ReadFromUDPAddrPort(b)
		switch {
		case err == nil:
			return n, from, nil
		case ctx.Err() != nil:
			return 0, from, ctx.Err()
		case errors.Is(err, net.ErrClosed):
			return 0, from, err
		}
		time.Sleep(time.Millisecond)
	}
}

func (s noticeSocket) Close() error { return s.c.Close() }
