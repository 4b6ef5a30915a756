// Package xdp carries frames over AF_XDP: UDP datagrams that the kernel's network driver writes
// into our memory and reads from it, without the kernel's network stack. On the wire they are
// the same as those of the UDP link, so the two reach each other.
//
//	 network card / veth                 kernel                                  this process
//	──────────────────────┐  XDP program: our UDP?                      umem: chunks of 4 KiB
//	 frames ─────────────►│── yes ──► socket of the queue ──► rx ring ────► Poll ─► Receive
//	                      │── no ───► network stack ────┐     ▲ fill ring ◄─ chunk, empty
//	                      │                             ▼
//	                      │                  ordinary UDP socket ─────────► Poll, now and then
//	        ◄─────────────│◄─────────────────────────── tx ring ◄────────── Reserve, Commit, Flush
//	                      │                               completion ring ► chunk, free
//	──────────────────────┘
//
// The ordinary socket, an internal/link/udp driver on the same address, does what AF_XDP cannot
// do. It reserves the port. It makes the kernel find the link address of an unknown neighbour,
// since frames to such a one use this socket. It also reaches this host itself. Routes and
// neighbours come from the kernel's tables, by netlink, which also reports changes.
//
// If the network driver accepts zero-copy sockets, and sends the frame of a self-test, frames
// are not copied (selftest_linux.go). The program is attached in native mode by a BPF link that
// lives as long as this process, so nothing is left behind, however the process ends. In generic
// mode the kernel first builds its packet and then copies it. That is slower than UDP, and must
// be asked for. While a program is attached, many network drivers, among them veth, do no
// segmentation offload: bulk over TCP or UDP on that interface is several times slower. So
// AF_XDP must be chosen by name.
package xdp

import (
	"errors"
	"net/netip"
)

// Config holds the parameters of a driver.
type Config struct {
	Addr    netip.AddrPort // of this host, on the interface to use; port 0 means a free one
	MTU     int            // largest frame, in bytes; 0 means what interface and chunk hold
	Queues  int            // of the interface; 0 means all
	Generic bool           // use generic mode, for interfaces whose driver has no XDP
	Copy    bool           // do not use zero-copy

	// NoOffload turns segmentation offload off on the ordinary socket. AF_XDP has none.
	NoOffload bool

	// Log is the log function of the ordinary socket, as in udp.Config.
	Log func(text string)
}

// ErrUnavailable is wrapped by the errors that say why this host, interface or user cannot have
// AF_XDP.
var ErrUnavailable = errors.New("AF_XDP unavailable")
