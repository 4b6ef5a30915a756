package hostile

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/vni"
	"golang.org/x/sys/unix"
)

// foothold holds the raw resources that a process gets when it attaches.
type foothold struct {
	rng    *rand.Rand
	tally  *Tally
	others []vni.Name // the names of correct processes that it knows

	name       vni.Name
	conn       int
	fds        [4]int // rw, ro, kick, wake
	rw, ro     []byte
	seg        *vni.Segment
	half       *vni.Process
	regions    []mapped
	afterwards []func()
}

// mapped is a region that was allocated.
type mapped struct {
	id  uint32
	mem []byte
}

// The order of a foothold's file descriptors.
const (
	fdRW = iota
	fdRO
	fdKick
	fdWake
)

// patience is the time for which an act waits for an answer of the daemon before it continues
// without.
var patience = unix.Timeval{Sec: 2}

// dial connects without sending anything.
func dial(socket string) (int, error) {
	name, done, err := ctl.Reach(socket)
	if err != nil {
		return -1, err
	}
	defer done()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patience)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// request sends a JSON object.
func request(fd int, m any) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return unix.Sendmsg(fd, b, nil, nil, unix.MSG_NOSIGNAL)
}

// reply is the part of an answer that is needed here.
type reply struct {
	Error *struct {
		Code string `json:"code"`
		Text string `json:"text"`
	} `json:"error"`
	Region *struct {
		ID uint32 `json:"id"`
	} `json:"region"`
}

// answer reads one answer.
func answer(fd int) (r reply, fds []int, err error) {
	buf, oob := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(4*8))
	n, oobn, _, _, err := unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return r, nil, err
	}
	if n == 0 {
		return r, nil, errors.New("hostile: hung up")
	}
	if messages, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil {
		for i := range messages {
			if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
				fds = append(fds, got...)
			}
		}
	}
	if err = json.Unmarshal(buf[:n], &r); err == nil && r.Error != nil {
		err = fmt.Errorf("hostile: refused: %s", r.Error.Text)
	}
	return r, fds, err
}

// attachRequest returns a request for a VNI.
func attachRequest(name vni.Name) map[string]any {
	return map[string]any{"version": 1, "op": "attach", "attach": map[string]any{"name": name.String()}}
}

// attach acquires a foothold.
func (f *foothold) attach(socket string) (err error) {
	f.fds, f.conn = [4]int{-1, -1, -1, -1}, -1
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if f.conn, err = dial(socket); err != nil {
		return err
	}
	if err = request(f.conn, attachRequest(f.name)); err != nil {
		return err
	}
	_, fds, err := answer(f.conn)
	copy(f.fds[:], fds)
	if err != nil {
		return err
	}
	if len(fds) != 4 {
		return fmt.Errorf("hostile: %d file descriptors came with the attach", len(fds))
	}
	if f.rw, err = mapAll(f.fds[fdRW], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	if f.ro, err = mapAll(f.fds[fdRO], unix.PROT_READ); err != nil {
		return err
	}
	if f.seg, err = vni.OpenSegment(f.rw, f.ro); err != nil {
		return err
	}
	f.half = f.seg.Process()
	return nil
}

func mapAll(fd, prot int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	return unix.Mmap(fd, 0, int(st.Size), prot, unix.MAP_SHARED)
}

// alloc allocates a region.
func (f *foothold) alloc(n int) error {
	if err := request(f.conn,
		map[string]any{"version": 1, "op": "alloc", "alloc": map[string]any{"bytes": n}}); err != nil {
		return err
	}
	r, fds, err := answer(f.conn)
	if err != nil {
		closeAll(fds)
		return err
	}
	defer closeAll(fds)
	if r.Region == nil || len(fds) != 1 {
		return errors.New("hostile: no region in the answer")
	}
	mem, err := mapAll(fds[0], unix.PROT_READ|unix.PROT_WRITE)
	if err == nil {
		f.regions = append(f.regions, mapped{r.Region.ID, mem})
	}
	return err
}

// free frees the latest region.
func (f *foothold) free() error {
	last := f.regions[len(f.regions)-1]
	f.regions = f.regions[:len(f.regions)-1]
	_ = unix.Munmap(last.mem)
	if err := request(f.conn,
		map[string]any{"version": 1, "op": "free", "free": map[string]any{"region": last.id}}); err != nil {
		return err
	}
	_, fds, err := answer(f.conn)
	closeAll(fds)
	return err
}

// close releases everything, without a leave.
func (f *foothold) close() {
	for _, g := range f.afterwards {
		g()
	}
	for _, m := range f.regions {
		_ = unix.Munmap(m.mem)
	}
	for _, m := range [][]byte{f.rw, f.ro} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	f.regions, f.rw, f.ro, f.afterwards = nil, nil, nil, nil
	closeAll(append(f.fds[:], f.conn))
}

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// gone reports whether the NIC has expelled this process: it says so in memory that only the NIC
// writes, or has closed the connection.
func (f *foothold) gone() bool {
	if f.half.Gone() != 0 {
		return true
	}
	p := []unix.PollFd{{Fd: int32(f.conn)}}
	n, _ := unix.Poll(p, 0)
	return n > 0 && p[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}

// ring kicks the NIC, needed or not, without blocking.
func (f *foothold) ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	p := []unix.PollFd{{Fd: int32(f.fds[fdKick]), Events: unix.POLLOUT}}
	if n, _ := unix.Poll(p, 0); n > 0 && p[0].Revents == unix.POLLOUT {
		_, _ = unix.Write(f.fds[fdKick], one[:])
	}
}

// word returns the eight bytes of shared memory at the multiple of eight below at.
func word(b []byte, at int) *uint64 { return (*uint64)(unsafe.Pointer(&b[at&^7])) }

// scribble writes one random word to a part of the writable memory.
func (f *foothold) scribble(from, to int) {
	at := from + f.rng.IntN((to-from)/8)*8
	atomic.StoreUint64(word(f.rw, at), f.rng.Uint64()>>f.rng.IntN(64))
	f.tally.Acts++
}

// someone returns the name of a correct process, of this process, or of no process.
func (f *foothold) someone() vni.Name {
	switch n := f.rng.IntN(len(f.others) + 2); {
	case n < len(f.others):
		return f.others[n]
	case n == len(f.others):
		return f.name
	}
	name, _ := vni.MakeName("nobody", f.rng.Uint32())
	return name
}

var serial atomic.Uint32

// nextName returns a name that no process had. The name contains the kind.
func nextName(kind string) (vni.Name, error) {
	return vni.MakeName("evil-"+kind, uint32(os.Getpid())<<10+serial.Add(1))
}
