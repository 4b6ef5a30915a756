package limit

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// job tells a role its task when it starts.
type job struct {
	Limit string        `json:"limit"`
	Role  int           `json:"role"`
	Size  int           `json:"size"` // of a message, in bytes
	Time  time.Duration `json:"time"` // to measure; role 0 only
	MTU   int           `json:"mtu"`
	Hosts [2]host       `json:"hosts"`
	Port  int           `json:"port"` // of the role that started before, if it has one
}

// host is the address of a role on a network.
type host struct {
	Addr netip.Addr `json:"addr"`          // IPv4
	MAC  []byte     `json:"mac,omitempty"` // of the interface; none on loopback
}

// File descriptors that the roles inherit.
const (
	memoryFd = 3 // the memory file
	eventFd  = 4 // two eventfds
)

// child is a running role.
type child struct {
	job
	mem    []byte
	events [2]int
	out    io.Writer
}

// RunChild runs a role. told is its job in JSON. It ends with in at the latest.
func RunChild(told string, in io.Reader, out io.Writer) error {
	c := &child{out: out, events: [2]int{eventFd, eventFd + 1}}
	if err := json.Unmarshal([]byte(told), &c.job); err != nil {
		return fmt.Errorf("limit: what a role is told: %w", err)
	}
	p := find(c.Limit)
	if p == nil || c.Role < 0 || c.Role >= len(p.roles) {
		return fmt.Errorf("limit: no role %d of %q", c.Role, c.Limit)
	}
	// The role's own thread needs one processor. The goroutine that waits for the end of in
	// needs another.
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(-1)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(0) // nothing else can interrupt the waits of the roles
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := pin(p, c.Role); err != nil {
		return err
	}
	mem, err := unix.Mmap(memoryFd, 0, memoryBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("limit: mapping the shared memory: %w", err)
	}
	c.mem = mem
	if err := p.roles[c.Role](c); err != nil {
		return fmt.Errorf("role %d: %w", c.Role, err)
	}
	return nil
}

// pin keeps a role on its processor.
func pin(p *program, role int) error {
	at := role
	if p.cpus != nil {
		at = p.cpus[role]
	}
	var may, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	at %= may.Count()
	for cpu := 0; ; cpu++ {
		if may.IsSet(cpu) {
			if at == 0 {
				set.Set(cpu)
				return unix.SchedSetaffinity(0, &set)
			}
			at--
		}
	}
}

// here returns the host of the role: the first half of the roles are on host 0.
func (c *child) here() int { return c.Role * 2 / len(find(c.Limit).roles) }

// at returns the address of a host, with a port.
func (c *child) at(host, port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Addr: c.Hosts[host].Addr.As4(), Port: port}
}

// accept makes a socket that listens at an address, passes that address to tell, and returns its
// first connection.
func accept(domain, kind int, at unix.Sockaddr, tell func(at unix.Sockaddr) error) (conn int, err error) {
	s, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(s, at)
	}
	if err == nil {
		err = unix.Listen(s, 1)
	}
	if err == nil {
		at, err = unix.Getsockname(s)
	}
	if err == nil {
		err = tell(at)
	}
	if err != nil {
		return -1, err
	}
	conn, _, err = unix.Accept(s)
	return conn, err
}

// connect returns a socket that is connected to an address.
func connect(domain, kind int, to unix.Sockaddr) (s int, err error) {
	if s, err = unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0); err == nil {
		err = unix.Connect(s, to)
	}
	return s, err
}

// ready tells the roles that start next that this one serves, at a port if it has one.
func (c *child) ready(port int) error {
	_, err := fmt.Fprintln(c.out, port)
	return err
}

// result prints what was measured.
func (c *child) result(r Result) error { return json.NewEncoder(c.out).Encode(r) }

// warmUp returns how long a measurement of length d runs before it counts.
func warmUp(d time.Duration) time.Duration { return min(d/10, 100*time.Millisecond) }

// slowest is the longest time that the histogram can hold.
const slowest = 10 * time.Second

// time measures how long once takes, over and over for the time of the job, in batches of batch
// calls.
func (c *child) time(batch int, once func() error) error {
	h := hdrhistogram.New(1, int64(slowest), 3)
	warm := warmUp(c.Time)
	begin := time.Now()
	for last := time.Duration(0); ; {
		for range batch {
			if err := once(); err != nil {
				return err
			}
		}
		now := time.Since(begin)
		if now > warm {
			// in range by the bound
			_ = h.RecordValue(int64(min((now-last)/time.Duration(batch), slowest)))
		}
		if last = now; now >= warm+c.Time {
			return c.result(Result{P50: h.ValueAtQuantile(50)})
		}
	}
}

// count measures how many bytes arrive in the time of the job. If none arrive in that time, it
// goes on until some do. take polls, and returns how many bytes arrived.
func (c *child) count(take func() (bytes int, err error)) error {
	var bytes int64
	warm := warmUp(c.Time)
	began := false
	for begin := time.Now(); ; {
		for range 16 {
			n, err := take()
			if err != nil {
				return err
			}
			bytes += int64(n)
		}
		took := time.Since(begin)
		switch {
		case !began && took >= warm:
			began, bytes, begin = true, 0, time.Now()
		case began && took >= c.Time && bytes > 0:
			perSec := float64(bytes) / took.Seconds()
			return c.result(Result{MessagesPerSec: perSec / float64(c.Size), BytesPerSec: perSec})
		}
	}
}
