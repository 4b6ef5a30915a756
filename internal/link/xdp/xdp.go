// Package xdp carries frames over AF_XDP: UDP datagrams that the NIC driver of the kernel puts into our memory, and takes from
// it, without the kernel's network stack in between. On the wire they are what the UDP link sends, so the two reach one another.
//
//	 network card / veth                 kernel                                    this process
//	──────────────────────┐  XDP program: our UDP?                        umem: chunks of 4 KiB
//	 frames ─────────────►│── yes ──► socket of the queue ──► rx ring ──────► Poll ─► Receive
//	                      │── no ───► network stack ────┐     ▲ fill ring ◄─── chunk, empty
//	                      │                             ▼
//	                      │                  ordinary UDP socket ───────────► Poll, now and then
//	        ◄─────────────│◄─────────────────────────── tx ring ◄──────────── Reserve, Commit, Flush
//	                      │                               completion ring ──► chunk, free
//	──────────────────────┘
//
// The ordinary socket, an internal/link/udp driver on the same address, does what AF_XDP cannot: it reserves the port, has the
// kernel find out the link address of a neighbour (frames to one that is not known yet go that way), and speaks to this host itself. Routes
// and neighbours come from the kernel's tables, by netlink, which also tells when they change.
//
// Where the kernel's driver takes zero-copy sockets, and moves the frame of a self-test, frames are not copied (selftest_linux.go).
// The program is attached in native mode by a BPF link that lives as long as this process, so nothing is left behind, however it
// ends. Generic mode, in which the kernel builds its packet first and then copies it, is slower than UDP, and only for users who ask for it. While a
// program is attached, many drivers, veth's among them, do no segmentation offload: bulk over TCP or UDP on that interface
// is several times slower. So AF_XDP is chosen by name.
package xdp

import (
	"errors"
	"net/netip"
)

// Config is how a driver is made.
type Config struct {
	Addr    netip.AddrPort // of this host, on the interface to use; port 0 takes a free one
	MTU     int            // largest frame, bytes; 0 = what the interface and a chunk hold
	Queues  int            // of the interface; 0 = all that it has
	Generic bool           // the kernel's emulation, for interfaces whose driver has no XDP
	Copy    bool           // never zero-copy

	// NoOffload is the kill switch of segmentation offload on the ordinary socket beside it. By AF_XDP there is none.
	NoOffload bool

	// Log is that of the ordinary socket beside it, as udp.Config has it.
	Log func(text string)
}

// ErrUnavailable is wrapped by errors that say why this host, this interface or this user cannot have AF_XDP.
var ErrUnavailable = errors.New("AF_XDP unavailable")
