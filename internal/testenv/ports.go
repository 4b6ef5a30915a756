// Package testenv has what tests need of the machine on which they run: ports that no other
// program has, and the time for which the machine did not run the test.
//
// # Ports
//
// [TakePort] is also for programs that cannot choose a port themselves.
//
//	10000                                                      32528
//	  ├────────┬────────┬────────┬────────┬────────┬── … ──┬────────┤
//	  │        │ G····  │        │ G··    │        │       │        │   G guard, · handed out
//	  └────────┴────────┴────────┴────────┴────────┴── … ──┴────────┘
//	            program A         program B
//
// A program takes a block of ports and keeps it until it ends. It listens at the first port of
// the block, the guard, so no other program that uses this package gets a port of that block. It
// hands out the other ports in turn.
//
// # Why not port 0?
//
// A program could open port 0, read the port that the kernel chose, and close it again. The
// kernel then gives that port to the next program that opens port 0, and `go test ./...` runs
// several such programs concurrently. Therefore the blocks lie outside of the range from which
// the kernel chooses. If that range leaves no room, they lie within it. Even then, no other
// program that uses this package gets the same port.
package testenv

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
)

const (
	lowest     = 10_000 // the ports below are those of well-known services
	blockPorts = 256
	blocks     = 88 // up to 32527: Linux chooses from 32768 on, others from 49152

	loopback = "127.0.0.1" // ports are tried here, because no firewall asks about it

	// chosenFile holds the range from which this Linux chooses. Other systems have no such file.
	chosenFile = "/proc/sys/net/ipv4/ip_local_port_range"
)

// own is the block of this program.
var own struct {
	sync.Mutex
	guard net.Listener // nil before the first TakePort
	first int          // the guard's port
	last  int          // last port that was handed out, initially first
}

// Loopback returns an address at 127.0.0.1 with a port from [TakePort]. If there is no port, it
// fails the test.
func Loopback(t interface {
	Helper()
	Fatal(args ...any)
}) string {
	t.Helper()
	port, err := TakePort()
	if err != nil {
		t.Fatal(err)
	}
	return address(port)
}

// TakePort returns a port at which no program listens, neither by TCP nor by UDP. No other program
// gets this port from this package while this program runs. This program may get the port again,
// if it is free, after the other ports of its block, which are 254 in all.
func TakePort() (int, error) {
	own.Lock()
	defer own.Unlock()
	if own.guard == nil {
		// Other kernels have no such file. Their range lies above the blocks.
		text, _ := os.ReadFile(chosenFile)
		if err := guard(candidates(string(text), os.Getpid())); err != nil {
			return 0, err
		}
	}
	for range blockPorts - 1 {
		if own.last++; own.last == own.first+blockPorts {
			own.last = own.first + 1
		}
		if free(own.last) {
			return own.last, nil
		}
	}
	return 0, fmt.Errorf("no free port: each from %d to %d is in use; expected no other program there", own.first+1,
		own.first+blockPorts-1)
}

// guard takes the first block that is available.
func guard(firsts []int) (err error) {
	for _, first := range firsts {
		if own.guard, err = net.Listen("tcp", address(first)); err == nil {
			own.first, own.last = first, first
			return nil
		}
	}
	return fmt.Errorf("no free block of ports among %d from port %d on: %w", len(firsts), lowest, err)
}

// candidates returns the first ports of the blocks to try, in order. Each program starts at a
// different block, so that frames for a program that has ended do not reach the next one.
func candidates(chosen string, pid int) (firsts []int) {
	var from, to int
	if _, err := fmt.Sscan(chosen, &from, &to); err != nil {
		from, to = 0, -1
	}
	outside := func(first int) bool { return first+blockPorts <= from || first > to }
	none := true
	for i := range blocks {
		none = none && !outside(lowest+i*blockPorts)
	}
	for i := range blocks {
		if first := lowest + (pid+i)%blocks*blockPorts; none || outside(first) {
			firsts = append(firsts, first)
		}
	}
	return firsts
}

// free reports whether a program could listen at a port at this moment.
func free(port int) bool {
	l, tcp := net.Listen("tcp", address(port))
	if tcp == nil {
		l.Close()
	}
	c, udp := net.ListenPacket("udp", address(port))
	if udp == nil {
		c.Close()
	}
	return errors.Join(tcp, udp) == nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
