//go:build unix

package pmi

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Connect makes the connection of a rank, and serves one end in a goroutine. The caller gives the
// other end to the rank as PMI_FD, and closes its own copy of it.
func (s *Server) Connect(rank int) (child *os.File, err error) {
	syscall.ForkLock.RLock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(pair[0])
		syscall.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("pmi: socketpair: %w", err)
	}
	ours, child := os.NewFile(uintptr(pair[0]), "pmi"), os.NewFile(uintptr(pair[1]), "pmi-"+strconv.Itoa(rank))
	conn, err := net.FileConn(ours) // so that Close ends a read
	_ = ours.Close()                // conn has a copy
	if err == nil {
		if err = s.adopt(conn); err != nil {
			_ = conn.Close()
		}
	}
	if err != nil {
		_ = child.Close()
		return nil, err
	}
	go func() { _ = s.serve(rank, conn) }() // serve reports its error to Refused
	return child, nil
}

// takeOver returns a connection for a descriptor that the launcher has opened, and closes the
// descriptor. If the descriptor is no socket, another part of this program may use it, so it
// stays open.
func takeOver(fd int) (net.Conn, error) {
	syscall.ForkLock.RLock()
	copied, err := syscall.Dup(fd)
	if err == nil {
		syscall.CloseOnExec(copied)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(copied), "pmi")
	conn, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return conn, syscall.Close(fd) // otherwise child processes of this program would inherit it
}
