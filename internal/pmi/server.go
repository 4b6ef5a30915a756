package pmi

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
)

// Job is a job's key-value space with its barrier and its end, which span all hosts.
type Job interface {
	Space

	// Barrier waits until every host of the job has called it. The server calls it once all its
	// ranks have entered the barrier.
	Barrier(ctx context.Context) error

	// Abort ends the job with a rank's status and message.
	Abort(rank, status int, message string)
}

// ServerConfig describes the ranks of a Server.
type ServerConfig struct {
	Name  string // of the job: 1 to 255 visible characters
	Size  int    // number of ranks in the job
	Ranks []int  // ranks on this host

	// Mapping is the result of Mapping for all ranks. If it is empty and all ranks are on this
	// host, the server computes it. Otherwise the mapping is unknown to the ranks.
	Mapping string

	// Refused is called with each breach of the protocol. The server then closes the rank's
	// connection. Refused may be nil.
	Refused func(rank int, why error)
}

// Server serves the ranks of one host. Its methods may be called concurrently.
type Server struct {
	cfg    ServerConfig
	job    Job
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	served sync.WaitGroup

	mu    sync.Mutex
	round *round
	conns map[io.Closer]bool
}

// round is one barrier.
type round struct {
	in   int           // ranks that have entered
	done chan struct{} // closed when all ranks of the job have entered
	err  error         // of the barrier; valid after done
}

// NewServer returns a server for the ranks of this host.
func NewServer(cfg ServerConfig, job Job) (*Server, error) {
	if cfg.Name == "" || len(cfg.Name) >= NameBytes || !visible(cfg.Name) {
		return nil, fmt.Errorf("pmi: the name of the job is %.40q; expected 1 to %d visible characters",
			cfg.Name, NameBytes-1)
	}
	if len(cfg.Ranks) == 0 || slices.Min(cfg.Ranks) < 0 || slices.Max(cfg.Ranks) >= cfg.Size {
		return nil, fmt.Errorf("pmi: ranks %v of %d; expected ranks from 0 to %d", cfg.Ranks, cfg.Size, cfg.Size-1)
	}
	if cfg.Mapping == "" && len(cfg.Ranks) == cfg.Size {
		cfg.Mapping = Mapping(make([]int, cfg.Size))
	}
	s := &Server{cfg: cfg, job: job, round: newRound(), conns: make(map[io.Closer]bool)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Environment returns the variables of a rank, without PMI_FD.
func (s *Server) Environment(rank int) []string {
	return []string{"PMI_RANK=" + strconv.Itoa(rank), "PMI_SIZE=" + strconv.Itoa(s.cfg.Size), "PMI_SPAWNED=0"}
}

func newRound() *round { return &round{done: make(chan struct{})} }

// Close closes all connections, and waits until no goroutine of the server is left.
func (s *Server) Close() {
	s.cancel()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close() // its error would be useless
	}
	s.mu.Unlock()
	s.served.Wait()
}

// errClosed is the error of Serve after Close.
var errClosed = errors.New("pmi: the server is closed")

// adopt records a connection, so that Close closes it. release undoes that.
func (s *Server) adopt(c io.Closer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return errClosed
	}
	s.conns[c] = true
	s.served.Add(1)
	return nil
}

func (s *Server) release(c io.Closer) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	_ = c.Close() // Close may have closed it already
	s.served.Done()
}

// Serve serves one rank until the rank finalizes or ends. It closes the connection. The error is a
// breach of the protocol, which the server has reported to Refused.
func (s *Server) Serve(rank int, conn io.ReadWriteCloser) error {
	if err := s.adopt(conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	return s.serve(rank, conn)
}

// serve is Serve for a connection that the server has adopted.
func (s *Server) serve(rank int, conn io.ReadWriteCloser) error {
	defer s.release(conn)
	err := s.converse(rank, conn)
	if err != nil && s.cfg.Refused != nil {
		s.cfg.Refused(rank, err)
	}
	return err
}

// converse answers the requests of a rank.
func (s *Server) converse(rank int, conn io.ReadWriter) error {
	talk := session{job: s.cfg.Name, size: s.cfg.Size, mapping: s.cfg.Mapping, space: s.job}
	lines := bufio.NewReaderSize(conn, LineBytes+1)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("rank %d: %w: more than %d bytes", rank, errLine, LineBytes)
		}
		if err != nil {
			return nil // the rank has ended, and its keeper sees that by itself
		}
		reply, what, m, err := talk.answer(line[:len(line)-1])
		if err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		switch what {
		case barrier:
			if err := s.barrier(); err != nil {
				reply = result("barrier_out", err)
			}
		case abort:
			// There is no answer. The rank waits until it is ended. If the connection closed, the
			// rank would go on.
			code := exitCode(m)
			s.job.Abort(rank, code, cmp.Or(m.fields["message"], fmt.Sprintf("exit code %d", code)))
		}
		if reply != "" {
			if _, err := io.WriteString(conn, reply+"\n"); err != nil {
				return nil // the rank has ended
			}
		}
		if what == finish {
			return nil
		}
	}
}

// exitCode returns the status of an abort: that of the request, or 1.
func exitCode(m message) int {
	if n, err := strconv.Atoi(m.fields["exitcode"]); err == nil && n != 0 {
		return n & 0xff
	}
	return 1
}

// barrier enters a rank into the barrier, and waits until all ranks of the job are in it.
func (s *Server) barrier() error {
	s.mu.Lock()
	r := s.round
	if r.in++; r.in < len(s.cfg.Ranks) {
		s.mu.Unlock()
		select {
		case <-r.done:
			return r.err
		case <-s.ctx.Done():
			return errClosed
		}
	}
	s.round = newRound()
	s.mu.Unlock()
	r.err = s.job.Barrier(s.ctx)
	close(r.done)
	return r.err
}
