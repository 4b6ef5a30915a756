package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// carried is a connection that is carried.
type carried struct {
	from, to    string
	since       time.Time
	there, back atomic.Int64
}

// Connection describes a connection that is carried now.
type Connection struct {
	From  string    `json:"from"`
	To    string    `json:"to"`
	Since time.Time `json:"since"`
	There int64     `json:"there"` // bytes from the accepted side
	Back  int64     `json:"back"`  // bytes to the accepted side
}

// Status is a proxy's description of itself.
type Status struct {
	PID         int          `json:"pid"`
	Listener    string       `json:"listener"` // several addresses have ", " between them
	Counts      Counts       `json:"counts"`
	Connections []Connection `json:"connections"` // the oldest first
}

func (p *Proxy) begin(from, to net.Conn) *carried {
	c := &carried{from: name(from.RemoteAddr(), from.LocalAddr()), to: name(to.RemoteAddr(), to.LocalAddr()),
		since: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live == nil {
		p.live = make(map[*carried]bool)
	}
	p.live[c] = true
	return c
}

func (p *Proxy) end(c *carried) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, c)
}

// name returns the address of the other end. Clients of a unix socket have no address, so name
// returns the address of this end.
func name(remote, own net.Addr) string {
	if s := remote.String(); s != "" && s != "@" {
		return s
	}
	return own.String()
}

// listeners returns the addresses of the listeners.
func (p *Proxy) listeners() string {
	var all []string
	for _, w := range p.ways() {
		all = append(all, w.Listener.Addr().String())
	}
	return strings.Join(all, ", ")
}

// Status returns the current status.
func (p *Proxy) Status() Status {
	s := Status{PID: os.Getpid(), Listener: p.listeners(), Counts: p.Counts(), Connections: []Connection{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.live {
		s.Connections = append(s.Connections, Connection{c.from, c.to, c.since, c.there.Load(), c.back.Load()})
	}
	slices.SortFunc(s.Connections, func(a, b Connection) int { return a.Since.Compare(b.Since) })
	return s
}

// tellWithin limits the time in which a client must read the status.
const tellWithin = 5 * time.Second

// Tell sends the Status to each connection to a unix socket, until the caller calls stop. stop
// removes the socket. Only the user of the process can connect. Tell replaces a socket that an
// earlier proxy has left behind, but not a socket that answers.
func (p *Proxy) Tell(path string) (stop func(), err error) {
	l, err := listenStatus(path)
	if err != nil {
		return nil, fmt.Errorf("proxy: status socket: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go p.tellAll(ctx, l)
	return sync.OnceFunc(func() {
		cancel()
		os.Remove(path)
		l.Close()
	}), nil
}

// tellAll sends the Status to each connection to a listener, until the listener is closed. A lack
// of file descriptors does not end it.
func (p *Proxy) tellAll(ctx context.Context, l net.Listener) {
	for {
		c, err := acceptFrom(ctx, l, func(error, time.Duration) {})
		if err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(tellWithin))
		_ = json.NewEncoder(c).Encode(p.Status())
		c.Close()
	}
}

// listenStatus creates the socket under another name, and renames it when it answers. Otherwise a
// concurrent search for dead sockets could mistake it for one.
func listenStatus(path string) (net.Listener, error) {
	making := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := CheckPath(making); err != nil {
		return nil, err
	}
	if err := giveWay("unix", path); err != nil {
		return nil, err
	}
	if err := giveWay("unix", making); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: making, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(making, 0o600); err == nil {
		err = os.Rename(making, path)
	}
	if err != nil {
		os.Remove(making)
		l.Close()
		return nil, err
	}
	return l, nil
}

// giveWay removes a socket that no process has open. It fails if the path holds anything else.
func giveWay(network, path string) error {
	err := probe(network, path)
	switch {
	case err == nil:
		return fmt.Errorf("%s: %w", path, syscall.EADDRINUSE)
	case errors.Is(err, os.ErrNotExist):
		return nil
	}
	if info, err := os.Lstat(path); err != nil {
		return err
	} else if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s is there and is not a socket", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// probe returns nil if a process has the socket at a path open, and ECONNREFUSED if no process
// has. It connects with a socket of another type, which the kernel refuses with EPROTOTYPE. So
// the server does not accept, dial or log a connection.
func probe(network, path string) error {
	other := "unixgram"
	if network == other {
		other = "unix"
	}
	c, err := net.Dial(other, path)
	if err == nil { // the socket has that type
		c.Close()
	}
	if errors.Is(err, syscall.EPROTOTYPE) {
		return nil
	}
	return err
}

// Ask reads the Status of the proxy that serves it at a socket.
func Ask(ctx context.Context, path string) (s Status, err error) {
	if err := CheckPath(path); err != nil {
		return s, fmt.Errorf("proxy: status socket: %w", err)
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return s, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := json.NewDecoder(c).Decode(&s); err != nil {
		if ctx.Err() != nil { // the end of ctx has closed the connection
			err = fmt.Errorf("%w; expected the socket of a proxy's --status", ctx.Err())
		}
		return s, fmt.Errorf("proxy: the status at %s: %w", path, err)
	}
	return s, nil
}
