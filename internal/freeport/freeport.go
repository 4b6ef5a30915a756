// Package freeport hands out ports for tests, and for programs that cannot choose one themselves.
//
//	10000                                                      32528
//	  ├────────┬────────┬────────┬────────┬────────┬── … ──┬────────┤
//	  │        │ G····  │        │ G··    │        │       │        │   G guard, · handed out
//	  └────────┴────────┴────────┴────────┴────────┴── … ──┴────────┘
//	            program A         program B
//
// A program takes a block of ports and keeps it until it ends: it listens at the first of them, the guard, so no other
// program that asks here gets a port of that block. The others it hands out in turn.
//
// # Why not port 0?
//
// A program may open port 0, read what the kernel chose and close it again. The kernel then gives that port to the next
// program that opens port 0, and `go test ./...` runs several such programs at once. So the blocks lie outside the range
// that the kernel chooses from. Where that range leaves no room they lie within it: still no other program that asks here
// gets the same port.
package freeport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
)

const (
	lowest     = 10_000 // below are the ports of well-known services
	blockPorts = 256
	blocks     = 88 // up to 32527: Linux chooses from 32768 on, others from 49152

	loopback = "127.0.0.1" // where ports are tried; no firewall asks about it

	// chosenFile says which ports this Linux chooses from. Others have no such file.
	chosenFile = "/proc/sys/net/ipv4/ip_local_port_range"
)

// own is the block of this program.
var own struct {
	sync.Mutex
	guard net.Listener // nil: none yet
	first int          // the guard's port
	last  int          // port that was handed out last, or first
}

// Loopback returns an address at 127.0.0.1 whose port is one that [Take] gives. It fails the test if there is none.
func Loopback(t interface {
	Helper()
	Fatal(args ...any)
}) string {
	t.Helper()
	port, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	return address(port)
}

// Take returns a port at which nothing listens, neither by TCP nor by UDP, and that no other program gets from here while
// this one lives. This one gets it again after all others of its block, 254, if it is free by then.
func Take() (int, error) {
	own.Lock()
	defer own.Unlock()
	if own.guard == nil {
		text, _ := os.ReadFile(chosenFile) // none where the kernel is another: its range lies above the blocks
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
	return 0, fmt.Errorf("no free port: each from %d to %d is in use; expected no other program there", own.first+1, own.first+blockPorts-1)
}

// guard takes the first block that it can have.
func guard(firsts []int) (err error) {
	for _, first := range firsts {
		if own.guard, err = net.Listen("tcp", address(first)); err == nil {
			own.first, own.last = first, first
			return nil
		}
	}
	return fmt.Errorf("no free block of ports among %d from port %d on: %w", len(firsts), lowest, err)
}

// candidates are the first ports of the blocks to try, in order. The beginning differs from program to program: what is
// still under way to a program that has ended shall not reach the next.
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

// free reports whether one could listen at a port just now.
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
