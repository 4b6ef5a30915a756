package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/testbed"
)

// doorName is the socket in the directory of a testbed by which commands join it.
const doorName = "join"

// doorAddress names the socket by the file descriptor of its directory. The path of the
// directory may be too long for an address.
func doorAddress(dir *os.File) *net.UnixAddr {
	return &net.UnixAddr{Name: filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), doorName), Net: "unixpacket"}
}

// invitation is the message of a testbed to a command that joins it. Files come with it: the
// namespaces of processes and of mounts, then the network namespace of each host.
type invitation struct {
	Addrs      []string `json:"addrs"`       // of the hosts
	FabricFile string   `json:"fabric_file"` // that the hosts share
}

// door lets commands join a testbed.
type door struct {
	listener *net.UnixListener

	mu     sync.Mutex
	inside map[*net.UnixConn]bool // each command that has joined and not ended
	shut   bool
}

// openDoor opens the door of a testbed. Only the user of the testbed can enter.
func openDoor(o *execOptions, tb *testbed.Testbed) (*door, error) {
	dir, err := os.Open(o.dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	l, err := net.ListenUnix("unixpacket", doorAddress(dir))
	if err != nil {
		return nil, fmt.Errorf("opening testbed %s for commands that join it: %w", o.name, err)
	}
	// the directory is removed as a whole, and the name of the socket says nothing later
	l.SetUnlinkOnClose(false)
	d := &door{listener: l, inside: map[*net.UnixConn]bool{}}
	go d.accept(tb)
	return d, nil
}

func (d *door) accept(tb *testbed.Testbed) {
	for {
		conn, err := d.listener.AcceptUnix()
		if err != nil {
			return // it is closed
		}
		if sameUser(conn) != nil || !d.enter(conn) {
			conn.Close()
			continue
		}
		go d.serve(conn, tb)
	}
}

// sameUser returns an error unless the other end of a connection is a process of this user.
func sameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if e := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil {
		return e
	}
	if err == nil && int(peer.Uid) != os.Geteuid() {
		err = fmt.Errorf("it belongs to %s", userText(peer.Uid))
	}
	return err
}

func (d *door) enter(conn *net.UnixConn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.shut {
		d.inside[conn] = true
	}
	return !d.shut
}

// serve invites one command and waits until it has ended.
func (d *door) serve(conn *net.UnixConn, tb *testbed.Testbed) {
	if invite(conn, tb) == nil {
		_, _ = conn.Read(make([]byte, 1)) // it never writes
	}
	d.mu.Lock()
	delete(d.inside, conn)
	d.mu.Unlock()
	conn.Close()
}

func invite(conn *net.UnixConn, tb *testbed.Testbed) error {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, path := range []string{"/proc/self/ns/pid", "/proc/self/ns/mnt"} {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	in := invitation{FabricFile: os.Getenv(fabric.FileVariable)}
	for i := range tb.Hosts() {
		f, err := tb.Host(i).Namespace()
		if err != nil {
			return err
		}
		files = append(files, f)
		in.Addrs = append(in.Addrs, tb.Host(i).Addr().String())
	}
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	_, _, err = conn.WriteMsgUnix(text, unix.UnixRights(fds...), nil)
	return err
}

// close lets no more commands in, and tells those inside that the testbed ends.
func (d *door) close() {
	d.listener.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = true
	for conn := range d.inside {
		conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write([]byte{1}) // it may have ended
	}
}

// empty reports whether no joined command is left.
func (d *door) empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.inside) == 0
}
