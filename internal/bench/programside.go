package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
	"github.com/weftnet/weft/program"
)

// programSide is a side of the exchanges: a process and its NIC.
type programSide struct {
	p       *weft.Process
	loaded  program.ID          // 0: none
	segment *weft.SharedSegment // nil: none
	stop    func()              // ends the server's goroutine; nil: it has none
}

// programPlan is one side of exchanges, as a child: the server, or the client of the server at
// an address. It answers requests until its input ends.
type programPlan struct {
	ProgramOptions
	Listen string
	Server string // address of the server; empty: this is the server
}

func (o *programPlan) run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	defer cancel()
	at := place{self: o.Self, deployment: o.Deployment, link: o.Link, name: ServerName, listen: o.Listen,
		sealing: o.Sealing}
	if o.Server != "" {
		at.name, at.nodes = ClientName, []weft.Node{{Addr: o.Server}}
	}
	p, addr, err := down.open(ctx, at)
	if err != nil {
		return err
	}
	if o.Server != "" {
		if err := (&Options{Kind: KindProgram}).meet(ctx, p, o.Server); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(out).Encode(programTold{NIC: uint64(p.Address().NIC), Addr: addr}); err != nil {
		return err
	}
	s := programSide{p: p}
	defer func() { err = errors.Join(err, s.clear(context.WithoutCancel(ctx))) }()
	return answerAll(in, out, func(q programAsk) (any, error) {
		t, err := s.answer(ctx, &q)
		if err != nil {
			t = programTold{Error: err.Error()}
		}
		return t, nil
	})
}

// answer answers a request.
func (s *programSide) answer(ctx context.Context, q *programAsk) (t programTold, err error) {
	if err := s.clear(ctx); err != nil {
		return t, err
	}
	id, source := pongProgram, pongSource(q.Series, q.Size)
	if q.Peer != 0 {
		id, source = pingProgram, pingSource(q.Series, q.Size)
	}
	if err := s.prepare(ctx, q, id, source); err != nil {
		return t, err
	}
	if q.Peer == 0 {
		return t, s.serve(ctx, q)
	}
	t.Times, t.Lost, err = s.measure(ctx, q)
	return t, err
}

// prepare loads the program, and shares the segment, that a series needs. In SeriesAPI a program
// is loaded, too, but not used.
func (s *programSide) prepare(ctx context.Context, q *programAsk, id program.ID, source string) (err error) {
	if q.Series == SeriesGetDeliver || q.Series == SeriesApp2App {
		if s.segment, err = s.p.SharedSegment(programSegment, 2*segmentHalf(q.Size)); err != nil {
			return err
		}
		copy(s.segment.Bytes(), load.Written(q.Size))
	}
	module, err := compiled(source)
	if err != nil {
		return err
	}
	o := program.Options{ID: id, Start: true, Resident: q.Resident}
	switch {
	case q.Resident == ResidentVM:
		o.Resident = "" // messages go reliably
	case q.Resident == ResidentXDP && id == pingProgram:
		o.Resident = ResidentVM // its answers come as datagrams
	}
	if _, err = program.On(s.p).Load(ctx, []weft.NICID{0}, module, o); err != nil {
		return err
	}
	s.loaded = id
	return nil
}

// clear removes the program and the segment of the last series.
func (s *programSide) clear(ctx context.Context) (err error) {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	if s.loaded != 0 {
		err = program.On(s.p).Unload(ctx, program.Address{ID: s.loaded})
		s.loaded = 0
	}
	if s.segment != nil {
		err = errors.Join(err, s.segment.Close())
		s.segment = nil
	}
	return err
}

// serve starts the part of the server's process, if it takes part.
func (s *programSide) serve(ctx context.Context, q *programAsk) error {
	var each func(ctx context.Context) error
	switch q.Series {
	case SeriesAPI:
		buf := make([]byte, max(q.Size, 1))
		each = func(ctx context.Context) error {
			m, err := s.p.Recv(ctx, ClientName, tagData, buf)
			if err != nil {
				return err
			}
			return s.p.Send(ctx, ClientName, tagData, buf[:m.Len])
		}
	case SeriesApp2App:
		segment := s.segment
		each = func(ctx context.Context) error {
			if err := segment.WaitFlag(ctx, 0); err != nil {
				return err
			}
			return program.On(s.p).Send(ctx, program.Address{ID: pongProgram}, triggerGo)
		}
	default:
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for each(ctx) == nil {
		}
	}()
	s.stop = func() {
		cancel()
		<-done
	}
	return nil
}

// lostAfter is how long the client waits for an exchange before it counts a message as lost.
const lostAfter = 2 * time.Second

// measure makes exchanges for the time of the request, after a warm-up that does not count.
func (s *programSide) measure(ctx context.Context, q *programAsk) (h *times, lost int64, err error) {
	one, many := s.exchange(q), 1
	if q.Wait == WaitSpin && q.Series != SeriesAPI && q.Series != SeriesApp2App {
		many = mostExchanges
	}
	h = newHistogram()
	begin := time.Now()
	for warm := warmUp(q.Time); h.TotalCount() == 0 || time.Since(begin) < q.Time+warm; {
		if q.Wait == WaitSleep {
			if err := sleep(ctx, pause); err != nil {
				return nil, 0, err
			}
		}
		took, err := func() ([]int64, error) {
			ctx, cancel := context.WithTimeout(ctx, lostAfter)
			defer cancel()
			return one(ctx, many)
		}()
		switch {
		case ctx.Err() != nil:
			return nil, 0, context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded) && lost < mostLost:
			lost++
		case err != nil:
			return nil, 0, err
		case time.Since(begin) >= warm:
			for _, ns := range took {
				h.note(time.Duration(ns))
			}
		}
	}
	if s.segment != nil {
		if half := segmentHalf(q.Size); !bytes.Equal(s.segment.Bytes()[half:half+q.Size], load.Written(q.Size)) {
			return nil, 0, errors.New("what has come into the segment is not what has left it")
		}
	}
	return h, lost, nil
}

// mostLost is how many exchanges may be lost before a measurement fails.
const mostLost = 3

// exchange returns a function that makes n exchanges of a series, and returns how long each
// took, in ns.
func (s *programSide) exchange(q *programAsk) func(ctx context.Context, n int) ([]int64, error) {
	data, buf := load.Written(q.Size), make([]byte, max(q.Size, 8*mostExchanges))
	ping := program.Address{ID: pingProgram}
	timedHere := func(f func(ctx context.Context) error) func(ctx context.Context, n int) ([]int64, error) {
		return func(ctx context.Context, _ int) ([]int64, error) {
			begin := time.Now()
			err := f(ctx)
			return []int64{time.Since(begin).Nanoseconds()}, err
		}
	}
	switch q.Series {
	case SeriesAPI:
		return timedHere(func(ctx context.Context) error {
			if err := s.p.Send(ctx, ServerName, tagData, data); err != nil {
				return err
			}
			m, err := s.p.Recv(ctx, ServerName, tagData, buf)
			if err == nil && m.Full != q.Size {
				err = wrongSize(m, q.Size)
			}
			return err
		})
	case SeriesApp2App:
		start := words(q.Peer)
		return timedHere(func(ctx context.Context) error {
			if err := program.On(s.p).Send(ctx, ping, triggerGo, start); err != nil {
				return err
			}
			return s.segment.WaitFlag(ctx, 0)
		})
	}
	return func(ctx context.Context, n int) (took []int64, err error) {
		if err := program.On(s.p).Send(ctx, ping, triggerGo,
			words(q.Peer, uint64(program.On(s.p).Number()), uint64(n))); err != nil {
			return nil, err
		}
		m, err := s.p.Recv(ctx, program.NameOf(pingProgram), triggerTook, buf)
		if err != nil {
			return nil, err
		}
		if m.Full != 8*n {
			return nil, fmt.Errorf("ping tells %d bytes of %d exchanges", m.Full, n)
		}
		for b := range slices.Chunk(buf[:m.Full], 8) {
			took = append(took, int64(binary.LittleEndian.Uint64(b)))
		}
		return took, nil
	}
}

// words encodes the words of a message to a program.
func words(all ...uint64) (b []byte) {
	for _, w := range all {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}
