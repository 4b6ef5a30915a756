package doctor

import (
	"net/netip"
	"time"
)

// Host is what the checks may ask of a host. No method changes the host, except that XDP attaches
// a program for a moment.
type Host interface {
	Read(path string) ([]byte, error)   // at most mostRead bytes of a file
	List(dir string) ([]string, error)  // names in a directory
	Target(path string) (string, error) // of a symbolic link
	Root() bool                         // this process may do all
	Has(tool string) bool               // PATH has a program of this name
	Now() time.Time                     // by the host's clock
	Output(command ...string) ([]byte, error)

	// Buffers returns the bytes of the socket buffers that the kernel grants to a process without
	// privilege that asks for want.
	Buffers(want int) (receive, send int, err error)
	// Bind binds a UDP socket to at, and closes it.
	Bind(at netip.AddrPort) error
	// Probe sends a datagram that no NIC takes. It returns the error that the network reports
	// soon, such as ECONNREFUSED, or nil.
	Probe(at netip.AddrPort) error
	// Route returns the interface by which frames to an address leave, and the address of this
	// host from which they leave.
	Route(to netip.Addr) (name string, from netip.Addr, err error)
	// Userfault returns an error if the kernel gives no userfaultfd to this process. whole is
	// false if it gives one that ignores the accesses of system calls.
	Userfault() (whole bool, err error)
	// XDP opens an AF_XDP link at an address, and closes it.
	XDP(at netip.Addr, generic bool) error
	// Offload reports whether datagrams that leave by segmentation offload do not arrive at a host,
	// while single ones do. It is false if the host does not answer.
	Offload(to netip.Addr) (lost bool, err error)
	// CPUGroups returns the directories of the control groups of a process that have the CPU
	// controller, the innermost first.
	CPUGroups(pid string) ([]string, error)
}

// mostRead bounds a file that is read.
const mostRead = 4 << 20
