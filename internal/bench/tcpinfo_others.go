//go:build !linux

package bench

import "net"

// tcpAgain is Linux's: hosts whose cable loses frames are as well.
func tcpAgain(net.Conn) Again { return Again{} }
