package nbd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/newcomers"
)

// Device is a device that a Server serves. Its methods may be called concurrently, for ranges
// within its size.
type Device interface {
	Size() int64

	// ReadAtContext is like ReadAt of an io.ReaderAt. It may return io.EOF together with the last
	// bytes of the device.
	ReadAtContext(ctx context.Context, b []byte, offset int64) (int, error)

	// WriteAtContext returns when the written data is as durable as the device can make it. So
	// FUA costs nothing.
	WriteAtContext(ctx context.Context, b []byte, offset int64) (int, error)

	// Flush returns when all writes that have returned are as durable.
	Flush(ctx context.Context) error

	// Discard makes a range read as zeros, and frees its room.
	Discard(ctx context.Context, offset, n int64) error

	// Written calls yield for each piece of a range, in order: for pieces that take room, and for
	// pieces that read as zeros and take none.
	Written(offset, n int64, yield func(offset, n int64, written bool) bool) error
}

// ManyReader is a Device for which one call that reads several ranges costs less than a call for
// each.
type ManyReader interface {
	Device

	// ReadEach reads the ranges that next returns until next returns none. When a range has
	// ended, ReadEach calls next again. It returns when next has none and all ranges have ended.
	// It calls ended for each range at its end, with the range's number in the order of next. If
	// some ranges have ended, it calls pause before it waits for others.
	ReadEach(ctx context.Context, next func() (b []byte, offset int64, ok bool), ended func(i int, err error),
		pause func())
}

// Config configures a Server.
type Config struct {
	Device      Device
	Export      string // its name; clients that name no export ask for ""
	Description string
	ReadOnly    bool
	Block       int // the size for which reads and writes cost least; zero: 4096

	// Timeout is the time after which a request fails if the device has not completed it. Zero
	// means 30 s.
	Timeout time.Duration

	// Full reports whether an error of the device means that it has no room.
	Full func(error) bool

	// TLS, if set, requires every client to use STARTTLS.
	TLS *tls.Config

	// Clients is the maximum number of clients that use the device concurrently. Zero means
	// limits.NBDClients.
	Clients int

	// Log, if set, receives the reason why a connection ended that the client did not end, and
	// the requests that failed because of the device.
	Log func(text string)
}

// Limits of a server.
const (
	// Bytes of a read or a write. Clients rely on this size.
	maxRequest = 32 << 20
	// Bytes of all reads and writes in flight, except for maxAlone.
	maxUnderWay = 256 << 20
	// Additional bytes for the only request of a connection, because other connections may be
	// slow to take their replies.
	maxAlone   = 2 << 20
	maxWorkers = 32   // requests in flight of a connection
	maxName    = 4096 // bytes of the name of an export, by the protocol
	// Time for a client to send the data of a write, or to take a reply.
	patience = 30 * time.Second
)

// Server serves one device.
type Server struct {
	cfg    Config
	many   ManyReader // the device, if it is a ManyReader
	budget budget

	newcomers *newcomers.Set // clients in the handshake
	lines     newcomers.Lines
	counts    counts

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	users  int            // users of the device
	silent *newcomers.Set // the users that have sent no request
	ended  bool
}

// New returns a server.
func New(cfg Config) (*Server, error) {
	if n := cfg.Device.Size(); n <= 0 {
		return nil, fmt.Errorf("nbd: a device of %d bytes; expected more than 0", n)
	}
	if len(cfg.Export) > maxName {
		return nil, fmt.Errorf("nbd: the name of an export has %d bytes; expected at most %d, "+
			"which clients can ask for",
			len(cfg.Export), maxName)
	}
	if cfg.Block == 0 {
		cfg.Block = 4096
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = patience
	}
	cfg.Clients = cmp.Or(cfg.Clients, limits.NBDClients)
	if cfg.Full == nil {
		cfg.Full = func(error) bool { return false }
	}
	if cfg.Log == nil {
		cfg.Log = func(string) {}
	}
	s := &Server{cfg: cfg, conns: map[net.Conn]struct{}{}, newcomers: newcomers.New(limits.NBDNewcomers),
		silent: newcomers.New(cfg.Clients)}
	s.many, _ = cfg.Device.(ManyReader)
	s.budget.init(maxUnderWay)
	return s, nil
}

// acceptPause is the time for which a server that cannot accept a connection waits. Meanwhile its
// own connections may end, and those of other processes.
const acceptPause = 100 * time.Millisecond

// passes reports whether an accept failed for lack of a resource that may become free later: file
// descriptors or memory.
func passes(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM},
		func(e error) bool { return errors.Is(err, e) })
}

// Serve accepts connections from a listener until ctx ends, and then returns nil. It returns when
// the last connection has ended, and closes the listener. While there are too few file
// descriptors or too little memory for another connection, it continues to serve the existing
// ones.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.Close(); s.end() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() == nil && passes(err) {
				s.logf("a client has to wait: %v", err)
				select {
				case <-ctx.Done():
				case <-time.After(acceptPause):
				}
				continue
			}
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("nbd: %w", err)
		}
		c = own(c)
		if !s.admit(c) {
			c.Close()
			continue
		}
		e := s.enter(c)
		wg.Go(func() {
			defer s.leave(c)
			if err := s.serve(ctx, c, e); err != nil && ctx.Err() == nil {
				s.logEnd(err)
			}
		})
	}
}

// logf writes a line to cfg.Log, within the limit for lines of its kind. kind is the format, so
// no client can choose it.
func (s *Server) logf(kind string, args ...any) {
	missed, ok := s.lines.Print(kind, time.Now())
	if !ok {
		return
	}
	text := fmt.Sprintf(kind, args...)
	text = text[:min(len(text), longestLine)] // a client's certificate may have long names
	if missed > 0 {
		text += fmt.Sprintf(" (and %d lines like this that were not printed)", missed)
	}
	s.cfg.Log(text)
}

// longestLine is the maximum length of a line in the log, in bytes.
const longestLine = 1024

// logEnd logs the error that ended a connection.
func (s *Server) logEnd(err error) {
	switch {
	case errors.Is(err, errNoRoom):
		s.logf("a client is turned away: %d are connected", s.cfg.Clients)
	case errors.Is(err, errGaveWay):
		s.logf("an idle client gave way to another")
	default:
		s.logf("connection ended: %v", err)
	}
}

// ServeConn serves one connection until it ends, and closes it. It returns nil if the client
// ended the connection in order.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) error {
	return s.serve(ctx, c, s.enter(c))
}

func (s *Server) serve(ctx context.Context, c net.Conn, e seat) error {
	s.counts.accepted.Add(1)
	n := newConn(s, c)
	n.seat = e
	defer n.seat.leave()
	defer func() { n.c.Close() }() // by then, n.c may be a *tls.Conn
	err := s.begin(n)
	switch {
	case n.seat.gaveWay():
		s.counts.gaveWay.Add(1)
		return errGaveWay
	case errors.Is(err, errNoRoom):
		s.counts.full.Add(1)
		return err
	case errors.Is(err, errAborted):
		return nil
	case err != nil:
		s.counts.failed.Add(1)
		return err
	}
	if err = n.transmit(ctx); n.seat.gaveWay() {
		s.counts.gaveWay.Add(1)
		return errGaveWay
	}
	return err
}

// begin runs the handshake within its deadline.
func (s *Server) begin(n *conn) error {
	if err := n.c.SetDeadline(time.Now().Add(limits.HandshakeWithin)); err != nil {
		return err
	}
	if err := n.negotiate(); err != nil {
		return err
	}
	if !n.seat.settle() {
		return errGaveWay
	}
	return n.c.SetDeadline(time.Time{})
}

func (s *Server) admit(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) leave(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// end closes all connections.
func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for c := range s.conns {
		c.Close()
	}
}

// budget limits the memory of requests in flight.
type budget struct {
	mu    sync.Mutex
	freed sync.Cond
	left  int // negative if connections use what they may have alone
}

func (b *budget) init(n int) { b.left, b.freed.L = n, &b.mu }

// take waits until there is room for n bytes of a connection. A request returns its memory within
// the patience of its connection, and the timeout of the device. If a connection has no memory
// yet, it gets a small amount at once, so that it makes progress even if other connections have
// all the memory: they may leave their replies unread for all that time.
func (b *budget) take(c *conn, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.left < n && (c.held > 0 || n > maxAlone) {
		b.freed.Wait()
	}
	b.left -= n
	c.held += n
}

// try is like take, but does not wait. It reports whether there was room.
func (b *budget) try(c *conn, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < n {
		return false
	}
	b.left -= n
	c.held += n
	return true
}

func (b *budget) give(c *conn, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	c.held -= n
	b.freed.Broadcast()
}
