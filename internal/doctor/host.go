package doctor

import (
	"net/netip"
	"time"
)

// Host answers the questions of the checks about a host. No method changes the host, except that
// XDP attaches a program for a moment.
type Host interface {
	Read(path string) ([]byte, error)   // at most mostRead bytes of a file
	List(dir string) ([]string, error)  // names in a directory
	Target(path string) (string, error) // of a symbolic link
	Root() bool                         // this process has all rights
	Has(tool string) bool               // PATH has a program of this name
	Now() time.Time                     // by the host's clock
	Output(command ...string) ([]byte, error)

	// Buffers returns the bytes of the socket buffers that the kernel grants to a process without
	// privilege that asks for want.
	Buffers(want int) (receive, send int, err error)
	// Bind binds a UDP socket to at, and closes it.
	Bind(at netip.AddrPort) error
	// Probe sends a datagram that every NIC drops. It returns the error that the network reports
	// within 200 ms, such as ECONNREFUSED, or nil.
	Probe(at netip.AddrPort) error
	// Route returns the interface and the source address of frames to an address.
	Route(to netip.Addr) (name string, from netip.Addr, err error)
	// Userfault returns an error if the kernel gives no userfaultfd to this process. whole is
	// false if the userfaultfd ignores the accesses of system calls.
	Userfault() (whole bool, err error)
	// XDP opens an AF_XDP link at an address, and closes it.
	XDP(at netip.Addr, generic bool) error
	// Offload reports whether a host receives single datagrams but none that leave by segmentation
	// offload. It returns false if the host does not answer.
	Offload(to netip.Addr) (lost bool, err error)
	// CPUGroups returns the directories of the control groups of a process that have the CPU
	// controller, the innermost first.
	CPUGroups(pid string) ([]string, error)
}

// mostRead bounds a file that is read.
const mostRead = 4 << 20
