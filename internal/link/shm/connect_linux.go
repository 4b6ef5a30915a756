package shm

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/copier"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/refusal"
)

// outgoing is a ring to another driver. This driver has made it.
type outgoing struct {
	to        link.Addr
	write     *writer
	copier    copier.Copier
	mem       []byte
	socket    int
	unsent    bool // it is in Driver.unsent
	dead      bool
	deadSince clock.Time
}

// incoming is a ring from another driver.
type incoming struct {
	from   link.Addr
	read   *reader
	mem    []byte
	socket int
	ended  bool // its sender has closed or died
	broken bool // its sender wrote an invalid record
}

// The one message of a connection holds magic, version and the sender's number. The descriptor
// of the ring comes with it.
const (
	helloMagic   = 0x6c656853 // "Shel"
	helloVersion = 1
	helloLen     = 16
)

// bind makes the sockets of the driver, at the address of its name, or at a free one if name is
// "".
func (d *Driver) bind(name string) (err error) {
	if d.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("shm: epoll: %w", err)
	}
	if d.listen, err = unix.Socket(unix.AF_UNIX,
		unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return errors.Join(fmt.Errorf("shm: socket: %w", err), unix.Close(d.epoll))
	}
	d.addr = Address(name)
	if name == "" {
		d.addr = address(random())
	}
	err = unix.Bind(d.listen, socketName(d.addr))
	if err == nil {
		err = unix.Listen(d.listen, limits.ShmPeers)
	}
	if err == nil {
		err = d.watch(d.listen)
	}
	if err == unix.EADDRINUSE {
		err = fmt.Errorf("%w: another NIC is %s (%q)", ErrAddressInUse, String(d.addr), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("shm: listen: %w", err), unix.Close(d.listen), unix.Close(d.epoll))
	}
	return nil
}

// socketName returns the abstract name of the socket at an address.
func socketName(a link.Addr) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: fmt.Sprintf("@weft-shm-%016x", number(a))}
}

func random() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("shm: the system gives no random numbers: " + err.Error())
	}
	return binary.LittleEndian.Uint64(b[:])
}

func (d *Driver) watch(fd int) error {
	return unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// retryAfter is the time for which frames to an absent NIC are lost without another try to
// connect.
const retryAfter = 10 * time.Millisecond

// connection returns the ring to an address. It makes one if necessary, and returns nil if no
// driver is there.
func (d *Driver) connection(to link.Addr) *outgoing {
	o := d.out[to]
	if o != nil && o.dead && d.now >= o.retryAt() {
		o = nil
	}
	if o == nil {
		o = d.connect(to)
	}
	if o == nil || o.dead {
		return nil
	}
	return o
}

func (o *outgoing) retryAt() clock.Time { return o.deadSince.Add(retryAfter) }

// connect makes a ring for an address and sends it there. If that fails, it records the ring as
// dead for a while.
func (d *Driver) connect(to link.Addr) *outgoing {
	if d.out[to] == nil && (!Is(to) || len(d.out) >= limits.ShmPeers && !d.forgetDead()) {
		return nil
	}
	o := &outgoing{to: to, socket: -1, dead: true, deadSince: d.now}
	d.out[to] = o
	d.counters.SystemCalls++
	if err := o.dial(d.addr); err != nil {
		o.close()
		return o
	}
	if err := d.watch(o.socket); err != nil {
		o.close()
		return o
	}
	o.dead = false
	return o
}

// forgetDead removes dead rings to make room. It reports whether there were any.
func (d *Driver) forgetDead() (room bool) {
	for a, o := range d.out {
		if o.dead {
			delete(d.out, a)
			room = true
		}
	}
	return room
}

// dial connects to the driver at o.to, checks its user, and passes the ring to it.
func (o *outgoing) dial(from link.Addr) (err error) {
	if o.socket, err = unix.Socket(unix.AF_UNIX,
		unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	if err = unix.Connect(o.socket, socketName(o.to)); err != nil {
		return err
	}
	if err = sameUser(o.socket); err != nil {
		return err
	}
	file, err := unix.MemfdCreate("weft-shm-ring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	// The other end refuses a file without seals, since a mapping of it could become too short.
	if err != nil {
		return refusal.Of("memfd_create", 0, err)
	}
	defer func() { _ = unix.Close(file) }() // the mappings keep the file
	if err = unix.Ftruncate(file, dataAt+limits.ShmRing); err != nil {
		return refusal.Of("ftruncate", dataAt+limits.ShmRing, err)
	}
	if _, err = unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, seals); err != nil {
		return err
	}
	if o.mem, err = unix.Mmap(file, 0, dataAt+limits.ShmRing,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return refusal.Of("mmap", dataAt+limits.ShmRing, err)
	}
	o.write = newWriter(newRing(o.mem, random(), random()))
	var hello [helloLen]byte
	binary.LittleEndian.PutUint32(hello[:], helloMagic)
	binary.LittleEndian.PutUint32(hello[4:], helloVersion)
	binary.LittleEndian.PutUint64(hello[8:], number(from))
	return unix.Sendmsg(o.socket, hello[:], unix.UnixRights(file), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// seals fix the size of a ring: an access beyond the end of its file would fault.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// sameUser checks that the other end of a connection belongs to our user. There is no exception
// for root: the other end would read and write the memory of root's NIC in place, and could
// claim to be in root's own fabric.
func sameUser(socket int) error {
	c, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return err
	}
	if own := os.Geteuid(); int(c.Uid) != own {
		return fmt.Errorf("shm: the other end is of user %d; expected user %d: %w", c.Uid, own, unix.EPERM)
	}
	return nil
}

// look handles the events of the sockets: NICs that connect or have gone.
func (d *Driver) look() {
	d.polls = 0
	if d.deaf {
		d.counters.SystemCalls++
		d.accept()
	}
	var events [64]unix.EpollEvent
	d.counters.SystemCalls++
	n, err := unix.EpollWait(d.epoll, events[:], 0)
	if err != nil { // EINTR: handled at the next look
		return
	}
	for _, ev := range events[:n] {
		if int(ev.Fd) == d.listen {
			d.accept()
			continue
		}
		d.readSocket(int(ev.Fd))
	}
}

// accept accepts the connections of drivers that want to send.
func (d *Driver) accept() {
	for {
		fd, _, err := unix.Accept4(d.listen, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			d.deafen(err == unix.EMFILE || err == unix.ENFILE)
			return
		}
		if len(d.in)+len(d.hellos) >= limits.ShmPeers || sameUser(fd) != nil || d.watch(fd) != nil {
			d.counters.DroppedIn++
			_ = unix.Close(fd)
			continue
		}
		// The hello follows the connect directly, but it may arrive a moment later.
		d.hellos = append(d.hellos, fd)
		d.readSocket(fd)
	}
}

// deafen stops epoll from watching the listening socket while no descriptor is left for new
// connections: the socket would be readable all the time. Each look tries again.
func (d *Driver) deafen(deaf bool) {
	if deaf == d.deaf {
		return
	}
	if deaf {
		d.deaf = unix.EpollCtl(d.epoll, unix.EPOLL_CTL_DEL, d.listen, nil) == nil
	} else {
		d.deaf = d.watch(d.listen) != nil
	}
}

// readSocket reads the news of a connection: its hello, bytes that wake, or its end. While the
// user sleeps, the bytes stay, since the sleeper may not have seen them yet.
func (d *Driver) readSocket(fd int) {
	for i, h := range d.hellos {
		if h == fd {
			d.readHello(i)
			return
		}
	}
	if d.sleeping && hasBytes(fd) {
		return
	}
	var b [64]byte
	for {
		n, err := unix.Read(fd, b[:])
		if err == unix.EAGAIN {
			return
		}
		if err == unix.EINTR || err == nil && n > 0 {
			continue
		}
		break
	}
	for _, in := range d.in {
		if in.socket == fd {
			in.end()
			return
		}
	}
	for _, o := range d.out {
		if o.socket == fd {
			d.drop(o)
			return
		}
	}
}

// hasBytes reports whether bytes lie in a socket, and leaves them there. unix.Recvfrom would
// allocate memory for the address of the sender.
func hasBytes(socket int) bool {
	var b [1]byte
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(socket), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	return errno == 0 && n > 0
}

// readHello completes a connection.
func (d *Driver) readHello(i int) {
	fd := d.hellos[i]
	var b [helloLen + 1]byte
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, flags, _, err := unix.Recvmsg(fd, b[:], oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err == unix.EAGAIN || err == unix.EINTR {
		return
	}
	d.hellos = append(d.hellos[:i], d.hellos[i+1:]...)
	in, err := openIncoming(fd, b[:max(n, 0)], oob[:oobn], flags, d.mtu, err)
	if err != nil {
		d.counters.DroppedIn++
		_ = unix.Close(fd)
		return
	}
	d.in = append(d.in, in)
	if d.sleeping {
		in.read.sleep() // the poll that looked takes the frames that are there
	}
}

// openIncoming maps the ring of a hello. Frames of other drivers may have any length.
func openIncoming(fd int, b, oob []byte, flags, mtu int, err error) (*incoming, error) {
	var files []int
	if messages, e := unix.ParseSocketControlMessage(oob); e == nil {
		for i := range messages {
			if f, e := unix.ParseUnixRights(&messages[i]); e == nil {
				files = append(files, f...)
			}
		}
	}
	defer func() {
		for _, f := range files {
			_ = unix.Close(f)
		}
	}()
	switch {
	case err != nil:
		return nil, err
	case len(b) != helloLen || binary.LittleEndian.Uint32(b) != helloMagic ||
		binary.LittleEndian.Uint32(b[4:]) != helloVersion:
		return nil, fmt.Errorf("%w: a hello of %d bytes", errRing, len(b))
	case len(files) != 1 || flags&unix.MSG_CTRUNC != 0:
		return nil, fmt.Errorf("%w: a hello with %d descriptors; expected 1", errRing, len(files))
	}
	var st unix.Stat_t
	if err := unix.Fstat(files[0], &st); err != nil {
		return nil, err
	}
	if got, err := unix.FcntlInt(uintptr(files[0]), unix.F_GET_SEALS, 0); err != nil || got&seals != seals {
		return nil, fmt.Errorf("%w: its size is not sealed", errRing)
	}
	if st.Size != dataAt+limits.ShmRing {
		return nil, fmt.Errorf("%w: %d bytes; expected %d", errRing, st.Size, dataAt+limits.ShmRing)
	}
	mem, err := unix.Mmap(files[0], 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	r, err := openRing(mem)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(mem))
	}
	return &incoming{from: address(binary.LittleEndian.Uint64(b[8:])),
		read: newReader(r, limits.MaxFrame), mem: mem, socket: fd}, nil
}

// drop marks a ring as dead because its reader has gone.
func (d *Driver) drop(o *outgoing) {
	if d.open == o {
		d.open = nil
	}
	o.dead, o.deadSince = true, d.now
	o.close()
}

// end records that a sender has gone. Its ring is still read to the end.
func (in *incoming) end() {
	in.ended = true
	if in.socket >= 0 {
		_ = unix.Close(in.socket)
		in.socket = -1
	}
}

func (in *incoming) close() {
	in.end()
	if in.mem != nil {
		_ = unix.Munmap(in.mem)
		in.mem = nil
	}
}

func (o *outgoing) close() {
	o.dead = true
	if o.socket >= 0 {
		_ = unix.Close(o.socket)
		o.socket = -1
	}
	if o.mem != nil {
		_ = unix.Munmap(o.mem)
		o.mem, o.write = nil, nil
	}
}
