package limit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/testbed"
)

// An AF_XDP socket with as little as possible around it: one queue, one peer, headers made once.

const (
	xskChunk = 4096 // bytes of a frame in the umem
	xskRing  = 2048 // entries of each ring; as many chunks for each direction
	xdpPort  = 9    // UDP, both ways
	xdpHead  = 42   // Ethernet, IPv4, UDP

	// xskFilled is how many chunks the kernel has to put frames into, in turn; Weft gives it as
	// many. The fewer they are, the warmer they are. With 2,048, a round trip of 64 bytes takes
	// 1.07 times as long, and one of 1,400 bytes 1.2 times, and a slow limit flatters.
	xskFilled = 512
)

// xdpWire sends and receives UDP datagrams by AF_XDP.
type xdpWire struct {
	socket       int
	umem         []byte
	fill, comp   xskIndex
	rx, tx       xskIndex
	fills, comps []uint64
	rxs, txs     []unix.XDPDesc
	header       [xdpHead]byte
	mss          int
	free         []uint64 // chunks for outgoing datagrams
	held         uint64   // chunk that the last receive returned
	holds        bool
	// where the next datagram most likely begins: chunks come back in the order in which they
	// were given
	soon           uint64
	seen           byte // has no meaning
	attached, prog interface{ Close() error }
}

// xskIndex holds the indices of a ring, ours and the kernel's.
type xskIndex struct {
	producer, consumer *uint32
	ours, theirs       uint32
}

func newXDP(c *child) (wire, error) {
	if c.Hosts[0].MAC == nil {
		return nil, fmt.Errorf("%w: AF_XDP needs an interface: there is none on loopback", ErrUnavailable)
	}
	here := c.here()
	w := &xdpWire{mss: min(c.MTU, xskChunk-256-14) - udpHeaders}
	if err := w.open(); err != nil {
		return nil, err
	}
	w.head(c.Hosts[here], c.Hosts[1-here])
	if here == 1 {
		return w, c.ready(0)
	}
	return w, nil
}

func (w *xdpWire) open() (err error) {
	l, err := net.InterfaceByName(testbed.Interface)
	if err != nil {
		return err
	}
	if w.socket, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("%w: AF_XDP socket: %w", ErrUnavailable, err)
	}
	if w.umem, err = unix.Mmap(-1, 0, 2*xskRing*xskChunk, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
		return err
	}
	reg := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&w.umem[0]))), Len: uint64(len(w.umem)), Size: xskChunk}
	if err := w.set(unix.XDP_UMEM_REG, unsafe.Pointer(&reg), unsafe.Sizeof(reg)); err != nil {
		return fmt.Errorf("umem: %w", err)
	}
	size := uint32(xskRing)
	for _, r := range []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_RX_RING,
		unix.XDP_TX_RING} {
		if err := w.set(r, unsafe.Pointer(&size), 4); err != nil {
			return fmt.Errorf("ring: %w", err)
		}
	}
	if err := w.mapRings(); err != nil {
		return err
	}
	for i := range uint64(xskRing) {
		if i < xskFilled {
			w.give(i * xskChunk)
		}
		w.free = append(w.free, (xskRing+i)*xskChunk)
	}
	if err := w.bind(l.Index); err != nil {
		return err
	}
	return w.attach(l.Index)
}

func (w *xdpWire) set(option int, v unsafe.Pointer, n uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(w.socket), unix.SOL_XDP, uintptr(option), uintptr(v),
		n, 0); errno != 0 {
		return errno
	}
	return nil
}

func (w *xdpWire) mapRings() error {
	var off unix.XDPMmapOffsets
	n := uint32(unsafe.Sizeof(off))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(w.socket), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&off)), uintptr(unsafe.Pointer(&n)), 0); errno != 0 {
		return fmt.Errorf("offsets of the rings: %w", errno)
	}
	var failed error
	ring := func(at int64, o unix.XDPRingOffset, entry int) (x xskIndex, entries unsafe.Pointer) {
		m, err := unix.Mmap(w.socket, at, int(o.Desc)+xskRing*entry, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED|unix.MAP_POPULATE)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("mapping a ring: %w", err))
			return x, nil
		}
		return xskIndex{producer: (*uint32)(unsafe.Pointer(&m[o.Producer])),
			consumer: (*uint32)(unsafe.Pointer(&m[o.Consumer]))}, unsafe.Pointer(&m[o.Desc])
	}
	var p unsafe.Pointer
	w.fill, p = ring(unix.XDP_UMEM_PGOFF_FILL_RING, off.Fr, 8)
	w.fills = unsafe.Slice((*uint64)(p), xskRing)
	w.comp, p = ring(unix.XDP_UMEM_PGOFF_COMPLETION_RING, off.Cr, 8)
	w.comps = unsafe.Slice((*uint64)(p), xskRing)
	w.rx, p = ring(unix.XDP_PGOFF_RX_RING, off.Rx, 16)
	w.rxs = unsafe.Slice((*unix.XDPDesc)(p), xskRing)
	w.tx, p = ring(unix.XDP_PGOFF_TX_RING, off.Tx, 16)
	w.txs = unsafe.Slice((*unix.XDPDesc)(p), xskRing)
	return failed
}

// bindTries is how often a socket tries to bind to its queue, 5 ms apart. On a busy machine the
// kernel takes seconds to free the queue of the previous socket.
const bindTries = 1000

// bind binds the socket to queue 0. A socket that was just closed may hold the queue for a
// moment.
func (w *xdpWire) bind(index int) (err error) {
	for range bindTries {
		err = unix.Bind(w.socket, &unix.SockaddrXDP{Ifindex: uint32(index), Flags: unix.XDP_COPY})
		if !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// Results of an XDP program.
const (
	xdpPass = 2
	xdpTX   = 3
)

// attach makes the interface pass our datagrams to the socket, and everything else to the
// kernel.
func (w *xdpWire) attach(index int) error {
	sockets, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return err
	}
	if err := sockets.Put(uint32(0), uint32(w.socket)); err != nil {
		return err
	}
	ins := append(ours(),
		asm.LoadMapPtr(asm.R1, sockets.FD()),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Imm(asm.R3, xdpPass),
		asm.FnRedirectMap.Call(),
		asm.Return(),
	)
	w.prog, w.attached, err = attach(index, append(ins, pass()...))
	return err
}

// ours passes everything but UDP for xdpPort, and leaves the address of the frame in R7.
func ours() asm.Instructions {
	port := int32(binary.NativeEndian.Uint16([]byte{0, xdpPort}))
	return asm.Instructions{
		asm.LoadMem(asm.R7, asm.R1, 0, asm.Word), // data
		asm.LoadMem(asm.R8, asm.R1, 4, asm.Word), // its end
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Add.Imm(asm.R2, xdpHead),
		asm.JGT.Reg(asm.R2, asm.R8, "pass"),
		asm.LoadMem(asm.R2, asm.R7, 14, asm.Byte),
		asm.JNE.Imm(asm.R2, 0x45, "pass"),
		asm.LoadMem(asm.R2, asm.R7, 23, asm.Byte),
		asm.JNE.Imm(asm.R2, unix.IPPROTO_UDP, "pass"),
		asm.LoadMem(asm.R2, asm.R7, 36, asm.Half),
		asm.JNE.Imm(asm.R2, port, "pass"),
	}
}

func pass() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass).WithSymbol("pass"), asm.Return()}
}

// attach attaches a program to an interface. The program takes frames in one piece, or in
// several if the cable carries longer frames.
func attach(index int, ins asm.Instructions) (*ebpf.Program, link.Link, error) {
	p, l, err := attachFor(index, ins, 0)
	if errors.Is(err, unix.ERANGE) {
		return attachFor(index, ins, unix.BPF_F_XDP_HAS_FRAGS)
	}
	return p, l, err
}

func attachFor(index int, ins asm.Instructions, flags uint32) (*ebpf.Program, link.Link, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "weft_limit", Type: ebpf.XDP, Instructions: ins,
		License: "Apache-2.0", Flags: flags})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: XDP program: %w", ErrUnavailable, err)
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: index, Flags: link.XDPDriverMode})
	if err != nil {
		p.Close()
		return nil, nil, fmt.Errorf("%w: attaching the XDP program: %w", ErrUnavailable, err)
	}
	return p, l, nil
}

// head makes the headers. UDP over IPv4 may go without a checksum.
func (w *xdpWire) head(from, to host) {
	h := &w.header
	copy(h[0:], to.MAC)
	copy(h[6:], from.MAC)
	binary.BigEndian.PutUint16(h[12:], 0x0800)
	h[14], h[22], h[23] = 0x45, 64, unix.IPPROTO_UDP
	copy(h[26:], from.Addr.AsSlice())
	copy(h[30:], to.Addr.AsSlice())
	binary.BigEndian.PutUint16(h[34:], xdpPort)
	binary.BigEndian.PutUint16(h[36:], xdpPort)
}

func (w *xdpWire) fd() int    { return w.socket }
func (w *xdpWire) piece() int { return w.mss }

// give gives the kernel a chunk to fill.
func (w *xdpWire) give(chunk uint64) {
	w.fills[w.fill.ours%xskRing] = chunk &^ (xskChunk - 1)
	w.fill.ours++
	atomic.StoreUint32(w.fill.producer, w.fill.ours)
}

// queue copies a datagram into the tx ring. It returns false if no chunk is free.
func (w *xdpWire) queue(b []byte) bool {
	to := w.reserve(len(b))
	copy(to, b)
	return to != nil
}

// reserve queues a datagram of n bytes and returns the room for its payload, which the caller
// must write before kick; nil if no chunk is free.
func (w *xdpWire) reserve(n int) []byte {
	if len(w.free) == 0 {
		return nil
	}
	chunk := w.free[len(w.free)-1]
	w.free = w.free[:len(w.free)-1]
	f := w.umem[chunk : chunk+xskChunk]
	copy(f, w.header[:])
	binary.BigEndian.PutUint16(f[16:], uint16(udpHeaders+n))
	binary.BigEndian.PutUint16(f[38:], uint16(8+n))
	var s uint32
	for i := 14; i < 34; i += 2 {
		if i != 24 {
			s += uint32(binary.BigEndian.Uint16(f[i:]))
		}
	}
	s = s&0xffff + s>>16
	binary.BigEndian.PutUint16(f[24:], ^uint16(s+s>>16))
	w.txs[w.tx.ours%xskRing] = unix.XDPDesc{Addr: chunk, Len: uint32(xdpHead + n)}
	w.tx.ours++
	return f[xdpHead : xdpHead+n]
}

// kick makes the kernel send the queued datagrams, some dozens of frames per call.
func (w *xdpWire) kick() error {
	atomic.StoreUint32(w.tx.producer, w.tx.ours)
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(w.socket), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0, unix.EAGAIN, unix.EBUSY, unix.ENOBUFS, unix.EINTR:
		default:
			return fmt.Errorf("sending: %w", errno)
		}
		w.reclaim()
		if atomic.LoadUint32(w.tx.consumer) == w.tx.ours {
			return nil
		}
	}
}

// reclaim takes back the chunks whose frames have left.
func (w *xdpWire) reclaim() {
	for end := atomic.LoadUint32(w.comp.producer); w.comp.ours != end; w.comp.ours++ {
		w.free = append(w.free, w.comps[w.comp.ours%xskRing])
	}
	atomic.StoreUint32(w.comp.consumer, w.comp.ours)
}

func (w *xdpWire) send(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), w.mss)
		if !w.queue(b[:n]) {
			if err := w.kick(); err != nil {
				return err
			}
			continue
		}
		b = b[n:]
	}
	return w.kick()
}

func (w *xdpWire) receive() ([]byte, error) {
	if w.holds {
		w.holds = false
		w.give(w.held)
	}
	if w.rx.ours == w.rx.theirs {
		if w.rx.theirs = atomic.LoadUint32(w.rx.producer); w.rx.ours == w.rx.theirs {
			w.ahead()
			return nil, nil
		}
	}
	d := w.rxs[w.rx.ours%xskRing]
	w.rx.ours++
	atomic.StoreUint32(w.rx.consumer, w.rx.ours)
	w.held, w.holds = d.Addr, true
	w.soon = (d.Addr + xskChunk) % (xskFilled * xskChunk)
	if d.Len < xdpHead {
		return nil, nil
	}
	return w.umem[d.Addr+xdpHead : d.Addr+uint64(d.Len)], nil
}

// ahead loads the cache lines of the next descriptor and datagram, so they arrive together with
// the index that announces them, and not after it.
func (w *xdpWire) ahead() {
	b := w.umem[w.soon:][:128]
	w.seen += byte(w.rxs[w.rx.ours%xskRing].Len) + b[0] + b[64]
}
