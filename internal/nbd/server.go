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

// Device is what is served. Its methods may be called from several goroutines at once, with parts that lie within its size.
type Device interface {
	Size() int64

	// ReadAtContext is as ReadAt of an io.ReaderAt: it may return io.EOF with what ends where the device does.
	ReadAtContext(ctx context.Context, b []byte, offset int64) (int, error)

	// WriteAtContext returns when what it wrote would outlive what the device can outlive: so FUA costs nothing.
	WriteAtContext(ctx context.Context, b []byte, offset int64) (int, error)

	// Flush returns when that is true of all writes that have returned.
	Flush(ctx context.Context) error

	// Discard makes a part read as zeros, and frees what room it took.
	Discard(ctx context.Context, offset, n int64) error

	// Written calls yield for the pieces of a part that take room, and for those that read as zeros and take none, in order.
	Written(offset, n int64, yield func(offset, n int64, written bool) bool) error
}

// ManyReader is a Device that reads several parts at once for less than one by one.
type ManyReader interface {
	Device

	// ReadEach reads the parts that next says, as long as there are any, and asks it again when one has ended. It returns when next has none and all
	// have ended. It calls ended for each as it ends, by its number in the order of next, and pause before it waits for others when some have.
	ReadEach(ctx context.Context, next func() (b []byte, offset int64, ok bool), ended func(i int, err error), pause func())
}

// Config configures a Server.
type Config struct {
	Device      Device
	Export      string // its name; the empty one is what clients ask for that name none
	Description string
	ReadOnly    bool
	Block       int // the size in which reads and writes cost least; zero: 4096

	// Timeout is after what time a request that the device does not come to an end with fails; zero: 30 s.
	Timeout time.Duration

	// Full reports whether an error of the device says that it has no room.
	Full func(error) bool

	// TLS, if set, obliges every client to use STARTTLS.
	TLS *tls.Config

	// Clients is how many clients may use the device at once; zero: limits.NBDClients.
	Clients int

	// Log, if set, is told why a connection ended that its client did not end, and which requests failed for want of the device.
	Log func(text string)
}

// Bounds of a server.
const (
	maxRequest  = 32 << 20         // bytes of a read or a write, which clients take for granted
	maxUnderWay = 256 << 20        // bytes of all reads and writes that are under way, but for the next
	maxAlone    = 2 << 20          // bytes that the only request of a connection may have beside those: others may be slow to take theirs
	maxWorkers  = 32               // requests of a connection that are under way
	maxName     = 4096             // bytes of the name of an export, by the protocol
	patience    = 30 * time.Second // how long a client may take for the data of a write, or to take a reply
)

// Server serves one device.
type Server struct {
	cfg    Config
	many   ManyReader // the device, if it is one
	budget budget

	newcomers *newcomers.Set // clients in the handshake
	lines     newcomers.Lines
	counts    counts

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	users  int            // of the device
	silent *newcomers.Set // the users that have sent no request
	ended  bool
}

// New makes a server.
func New(cfg Config) (*Server, error) {
	if n := cfg.Device.Size(); n <= 0 {
		return nil, fmt.Errorf("nbd: a device of %d bytes; expected more than 0", n)
	}
	if len(cfg.Export) > maxName {
		return nil, fmt.Errorf("nbd: the name of an export has %d bytes; expected at most %d, which clients can ask for", len(cfg.Export), maxName)
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
	s := &Server{cfg: cfg, conns: map[net.Conn]struct{}{}, newcomers: newcomers.New(limits.NBDNewcomers), silent: newcomers.New(cfg.Clients)}
	s.many, _ = cfg.Device.(ManyReader)
	s.budget.init(maxUnderWay)
	return s, nil
}

// acceptPause is how long a server that can take no connection waits for what it lacks: its own connections end, and those of others.
const acceptPause = 100 * time.Millisecond

// passes reports whether it is for want of something that may be there later that no connection can be taken: files or memory.
func passes(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}, func(e error) bool { return errors.Is(err, e) })
}

// Serve takes connections from a listener until ctx ends, which is no error. It returns when the last connection has ended, and closes
// the listener. While there are too few files or memory for another connection it goes on with those that it has.
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

// logf writes a line to cfg.Log, within the bound for lines of its kind. kind is the format, which
// no client chooses.
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

// longestLine is the longest line of a log, in bytes.
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

// ServeConn serves one connection until it ends, and closes it. nil means that the client ended it in order.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) error {
	return s.serve(ctx, c, s.enter(c))
}

func (s *Server) serve(ctx context.Context, c net.Conn, e seat) error {
	s.counts.accepted.Add(1)
	n := newConn(s, c)
	n.seat = e
	defer n.seat.leave()
	defer func() { n.c.Close() }() // n.c may be a *tls.Conn by then
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

// budget bounds how much memory requests have that are under way.
type budget struct {
	mu    sync.Mutex
	freed sync.Cond
	left  int // less than none, if connections have what they may have alone
}

func (b *budget) init(n int) { b.left, b.freed.L = n, &b.mu }

// take waits until there is room for what a connection wants. What a request has it gives back within the patience of its connection, and the device's. A
// connection that has nothing has room for a little, so that it goes on, though others have all: they may leave their replies unread for all that time.
func (b *budget) take(c *conn, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.left < n && (c.held > 0 || n > maxAlone) {
		b.freed.Wait()
	}
	b.left -= n
	c.held += n
}

// try is take that does not wait. It reports whether there was room.
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
