package gopeer

import (
	"net/netip"

	"github.com/weftnet/weft"
)

// Code that is written for package net runs over TCP and, unchanged, over streams of Weft:
//
//	            a stream of bytes    gRPC          HTTP
//	TCP         Go net TCP           grpc-go       net/http
//	Weft        Weft, stream, LINK   Weft, grpc-…  Weft, net/http, LINK
func init() {
	all = append(all, &Peer{Name: "net/http", Kind: "http", Most: maxSize, Measures: everything, Clean: true,
		serve: serveHTTP(overTCP("")), dial: dialHTTP(overTCP("")), Notes: httpNotes})
	for _, link := range []struct {
		name string
		at   func(addr string) weft.Link
	}{{"udp", weft.UDP}, {"xdp", xdpBetweenHosts}} {
		c := overWeft(link.at)
		all = append(all,
			&Peer{Name: "Weft, stream, " + link.name, Kind: "weft-stream-" + link.name, Most: maxSize,
				Measures: everything, Hosts: true, serve: serveStreams(c), dial: dialStream(c)},
			&Peer{Name: "Weft, grpc-go, " + link.name, Kind: "weft-grpc-" + link.name, Most: maxSize,
				Measures: everything, Hosts: true, serve: serveGRPC(c), dial: dialGRPC(c), Notes: grpcNotes},
			&Peer{Name: "Weft, net/http, " + link.name, Kind: "weft-http-" + link.name, Most: maxSize,
				Measures: everything, Hosts: true, serve: serveHTTP(c), dial: dialHTTP(c), Notes: httpNotes})
	}
}

// xdpBetweenHosts returns AF_XDP. On loopback, which has no queues for AF_XDP, it returns UDP.
func xdpBetweenHosts(addr string) weft.Link {
	if at, err := netip.ParseAddrPort(addr); err == nil && at.Addr().IsLoopback() {
		return weft.UDP(addr)
	}
	return weft.XDP(addr)
}
