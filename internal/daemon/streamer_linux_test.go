package daemon_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	weft "github.com/weftnet/weft"
)

// A streamer sends numbered messages to all others until its daemon has gone or its input ends.
// It sends some at intervals. When it gets a byte, it sends for a while as fast as the messages
// are taken. Its diary holds the result of each send, and what the streamer has received.

func init() { roles["streamer"] = streamer }

type streamerConfig struct {
	Socket, Diary string
	Index         int
	Life          uint32 // number among all lives of the test
}

const (
	streamHeader = 16 // life, seq, process, length
	mostStreamed = 40_000
	mostBurst    = 40               // messages
	sendPatience = 30 * time.Second // a Send that takes longer hangs
	floodTime    = time.Second      // how long it sends without a pause
	quietTime    = 2 * time.Second  // after this silence, no more messages come
)

type streaming struct {
	streamerConfig
	p        *weft.Process
	events   *weft.Watcher // of p, from its start
	mu       sync.Mutex
	diary    *os.File
	stopping atomic.Bool
	flood    atomic.Int64 // until then
	cameAt   atomic.Int64
}

func streamerName(i int) weft.Name { return weft.Name{App: "streamer", Index: uint32(i)} }

func streamer(arg string) (err error) {
	var s streaming
	if err := json.Unmarshal([]byte(arg), &s.streamerConfig); err != nil {
		return err
	}
	if s.diary, err = os.OpenFile(s.Diary, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	// another process has its name until the daemon and the name's home know that the other has
	// gone
	for {
		if s.p, err = weft.Attach(ctx, weft.AttachConfig{Socket: s.Socket, Name: streamerName(s.Index)}); err == nil {
			break
		}
		if ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	s.events = s.p.Watch()
	fmt.Println("ready")
	go func() {
		for b := make([]byte, 1); ; {
			if _, err := os.Stdin.Read(b); err != nil {
				break
			}
			s.flood.Store(time.Now().Add(floodTime).UnixNano())
		}
		s.stopping.Store(true)
	}()
	ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	received := start(func() error { return s.receive(ctx) })
	var senders sync.WaitGroup
	errs := make(chan error, streamers)
	for to := range streamers {
		if to != s.Index {
			senders.Go(func() { errs <- s.send(ctx, to) })
		}
	}
	senders.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	for s.cameAt.Store(time.Now().UnixNano()); time.Since(time.Unix(0, s.cameAt.Load())) < quietTime && !gone(err); {
		time.Sleep(quietTime / 10)
	}
	cancel()
	if err = errors.Join(err, <-received); gone(err) {
		return nil
	}
	return err
}

func gone(err error) bool { return errors.Is(err, weft.ErrNICGone) }

func (s *streaming) note(e diaryEntry) {
	var b [diaryBytes]byte
	b[0], b[1] = e.kind, e.process
	binary.LittleEndian.PutUint32(b[4:], e.life)
	binary.LittleEndian.PutUint32(b[8:], e.seq)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.diary.Write(b[:]); err != nil {
		panic(err)
	}
}

func parseDiary(b []byte) diaryEntry {
	return diaryEntry{b[0], b[1], binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])}
}

// streamed fills b with the bytes of a message.
func streamed(b []byte, life, seq uint32, process byte) {
	binary.LittleEndian.PutUint32(b, life)
	binary.LittleEndian.PutUint32(b[4:], seq)
	binary.LittleEndian.PutUint32(b[8:], uint32(process))
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)))
	x := uint64(life)<<32 | uint64(seq)
	for i := streamHeader; i < len(b); i++ {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
}

// send streams to one other process, in bursts.
func (s *streaming) send(ctx context.Context, to int) error {
	rng := rand.New(rand.NewPCG(uint64(s.Life), uint64(to)))
	memory := make([]byte, mostBurst*mostStreamed)
	for seq := uint32(1); !s.stopping.Load(); {
		n := 1 + rng.IntN(mostBurst)
		failed, err := s.burst(ctx, rng, to, seq, n, memory)
		if err != nil {
			return err
		}
		seq += uint32(n)
		switch {
		case failed:
			time.Sleep(20 * time.Millisecond)
		case time.Now().UnixNano() > s.flood.Load():
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(100*time.Millisecond)))
		}
	}
	return nil
}

// burst sends n messages, from number first on, with as many in flight as there are contexts.
func (s *streaming) burst(ctx context.Context, rng *rand.Rand, to int, first uint32, n int, memory []byte) (failed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendPatience)
	defer cancel()
	var flight []*weft.Op
	oldest := first
	finish := func() error {
		_, err := flight[0].Wait(ctx)
		e := diaryEntry{kind: diarySent, process: byte(to), seq: oldest}
		switch {
		case gone(err):
			return err
		case errors.Is(err, context.DeadlineExceeded):
			e.kind = diaryHung
		case err != nil:
			e.kind, failed = diaryFailed, true
		}
		s.note(e)
		flight, oldest = flight[1:], oldest+1
		return nil
	}
	for i := range n {
		b := memory[i*mostStreamed:][:drawStreamed(rng)]
		streamed(b, s.Life, first+uint32(i), byte(s.Index))
		start := s.p.Peer(streamerName(to)).StartSend
		if rng.IntN(16) == 0 {
			start = s.p.Peer(streamerName(to)).StartSendDelivered
		}
		o := new(weft.Op)
		err := start(o, weft.Tag(rng.IntN(3)), b)
		for ; errors.Is(err, weft.ErrQueueFull); err = start(o, weft.Tag(rng.IntN(3)), b) {
			if len(flight) == 0 {
				time.Sleep(50 * time.Microsecond) // another send has all contexts
			} else if err := finish(); err != nil {
				return failed, err
			}
		}
		if err != nil {
			return failed, err
		}
		flight = append(flight, o)
	}
	for len(flight) > 0 {
		if err := finish(); err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// drawStreamed draws the length of a message: most are short.
func drawStreamed(rng *rand.Rand) int {
	switch rng.IntN(100) {
	case 0:
		return streamHeader + rng.IntN(mostStreamed-streamHeader)
	case 1, 2, 3, 4:
		return streamHeader + rng.IntN(8000)
	}
	return streamHeader + rng.IntN(800)
}

// receive notes all messages, and when the end of a session is reported. That is before it gets
// any message of the next session, and perhaps before it has got all of the ended one, whose
// messages wait for it.
func (s *streaming) receive(ctx context.Context) error {
	over, cancel := context.WithCancel(ctx)
	cancel()
	buf, want := make([]byte, mostStreamed), make([]byte, mostStreamed)
	for {
		m, err := s.p.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		s.cameAt.Store(time.Now().UnixNano())
		for {
			ev, err := s.events.Next(over) // without waiting
			if err != nil {
				break
			}
			switch {
			case ev.Missed > 0:
				s.note(diaryEntry{kind: diaryEnded, life: anyNIC})
			case ev.Kind != weft.EventProcessGone:
				s.note(diaryEntry{kind: diaryEnded, life: uint32(ev.Addr.NIC)})
			}
		}
		got := buf[:m.Len]
		if len(got) < streamHeader {
			s.note(diaryEntry{kind: diaryWrong})
			continue
		}
		e := diaryEntry{kind: diaryReceived, life: binary.LittleEndian.Uint32(got), seq: binary.LittleEndian.Uint32(got[4:]), process: got[8]}
		streamed(want[:m.Len], e.life, e.seq, e.process)
		if string(got) != string(want[:m.Len]) || m.From != streamerName(int(e.process)) {
			e.kind = diaryWrong
		}
		s.note(e)
	}
}
