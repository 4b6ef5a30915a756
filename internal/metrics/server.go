package metrics

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/newcomers"
	"github.com/weftnet/weft/internal/vni"
)

// Config holds the address, the token and the log of a Server.
type Config struct {
	Address Address
	Token   Token
	Log     *slog.Logger
}

// Check returns an error if other hosts could read the metrics without a token.
func (c Config) Check() error {
	switch {
	case c.Address.OffLoopback() && !c.Token.set:
		return fmt.Errorf("other hosts can reach %v; expected a file with a token in metrics_token_file "+
			"(--metrics-token-file), or an address of loopback", c.Address)
	case !c.Address.TCP.IsValid() && c.Token.set:
		return fmt.Errorf("metrics_token_file is for visitors by TCP, and metrics is %v; expected metrics = "+
			"\"HOST:PORT\" beside it", c.Address)
	}
	return nil
}

// Server serves the metrics of a daemon at one address.
type Server struct {
	cfg      Config
	guard    guard
	listener net.Listener
	http     *http.Server
	registry *prometheus.Registry
	visits   visits

	mu      sync.Mutex
	closed  bool
	answers sync.WaitGroup // in progress
	serving sync.WaitGroup
	conns   map[net.Conn]*newcomers.Newcomer
	places  *newcomers.Set
}

// Listen opens the address. Visitors wait until Serve is called.
func Listen(c Config) (*Server, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	l, err := listen(c.Address)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: c, guard: guard{unix: c.Address.Path != "", token: c.Token}, listener: l,
		registry: prometheus.NewRegistry(), visits: newVisits(), conns: make(map[net.Conn]*newcomers.Newcomer),
		places: newcomers.New(limits.MetricsConnections)}
	s.http = &http.Server{
		// No ReadTimeout: it would also end the context of a profile that takes longer.
		ReadHeaderTimeout: limits.MetricsRead, WriteTimeout: limits.MetricsWrite,
		IdleTimeout: limits.MetricsIdle, MaxHeaderBytes: limits.MetricsHeader, ConnState: s.follow,
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Addr returns the address at which the Server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve answers visitors from now on, until Close. It does not block.
func (s *Server) Serve(d *Daemon) error {
	h := newHealth(d)
	err := errors.Join(
		s.registry.Register(newCollector(d, h, vni.Descriptions())),
		s.registry.Register(collectors.NewGoCollector()),
		s.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		s.visits.register(s.registry),
	)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	s.http.Handler = s.watched(s.pages(h))
	s.serving.Go(func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.cfg.Log.Error("the server of the metrics has failed", "error", err)
		}
	})
	return nil
}

// Close ends all connections, and returns when all answers have ended: answers read memory that the
// daemon then unmaps. Close also works without an earlier Serve.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	err := s.http.Close()
	if closed := s.listener.Close(); !errors.Is(closed, net.ErrClosed) {
		err = errors.Join(err, closed)
	}
	s.serving.Wait()
	s.answers.Wait()
	return err
}

// begin counts an answer that begins. It returns false if the Server is closed.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.answers.Add(1)
	}
	return !s.closed
}

// follow bounds the connections: if there are too many, it closes the oldest connection of the
// source that has the most.
func (s *Server) follow(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		n := s.places.Enter(newcomers.SourceOf(c.RemoteAddr()), func() {
			s.visits.ousted.Inc()
			_ = c.Close()
		})
		s.mu.Lock()
		s.conns[c] = n
		s.mu.Unlock()
	case http.StateClosed, http.StateHijacked:
		s.mu.Lock()
		n := s.conns[c]
		delete(s.conns, c)
		s.mu.Unlock()
		if n != nil {
			n.Leave()
		}
	}
}
