//go:build !linux

package ctl

import (
	"errors"
	"net"
	"runtime"
)

const network = "unixpacket"

// errNoPackets says why nothing here works: only Linux has packet sockets, memfd and eventfd.
var errNoPackets = errors.New("a NIC daemon needs Linux, this is " + runtime.GOOS +
	"; open the NIC inside the process instead (weft.Open)")

type packets struct{}

func newPackets(*net.UnixConn, int, int) *packets { return &packets{} }
func (*packets) send(any, ...int) error           { return errNoPackets }
func (*packets) expect(int)                       {}
func (*packets) shorten(int)                      {}
func (*packets) receive() ([]byte, []int, error)  { return nil, nil, errNoPackets }

// Peer is the process at the other end of a connection, as the kernel knows it.
type Peer struct {
	PID, UID int
	GIDs     []int
}

func peer(*net.UnixConn) (Peer, error) { return Peer{}, errNoPackets }

func closeAll([]int) {}

// Reach always fails: only Linux has sockets of daemons.
func Reach(string) (string, func() error, error) { return "", nil, errNoPackets }

func checkPrivate(string) error                   { return errNoPackets }
func makeDirectory(string) error                  { return errNoPackets }
func vouched(*net.UnixConn, string) (Peer, error) { return Peer{}, errNoPackets }

// CheckState checks nothing: a daemon does not start here.
func CheckState(string) error { return nil }
