package processtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/workqueue"
)

// application shares each process with the queue or with a worker. It sends numbers to all other
// processes, on the process itself, and receives every message there, from any process and with
// any tag.
type application struct {
	p     *weft.Process
	peers []weft.Name

	mu    sync.Mutex
	last  map[weft.Address]uint64
	heard int
	err   error
}

const appMagic = "application of its own: "

func (a *application) start(ctx context.Context) {
	a.last = map[weft.Address]uint64{}
	a.p.Runtime().Go(func() { a.fail(a.receive(ctx)) })
	a.p.Runtime().Go(func() { a.fail(a.send(ctx)) })
}

// fail notes an error. The end of the process is no error.
func (a *application) fail(err error) {
	if err == nil || errors.Is(err, weft.ErrClosed) || errors.Is(err, weft.ErrNICGone) ||
		errors.Is(err, context.Canceled) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = errors.Join(a.err, err)
}

func (a *application) send(ctx context.Context) error {
	for n := uint64(1); ; n++ {
		for _, peer := range a.peers {
			text := binary.LittleEndian.AppendUint64([]byte(appMagic), n)
			within, cancel := a.p.Runtime().WithTimeout(ctx, 20*time.Millisecond)
			err := a.p.Send(within, peer, weft.Tag(n%5), text, make([]byte, n%7*300))
			cancel()
			if errors.Is(err, weft.ErrClosed) || errors.Is(err, weft.ErrNICGone) || ctx.Err() != nil {
				return err
			}
		}
		if err := a.p.Runtime().Sleep(ctx, 3*time.Millisecond); err != nil {
			return err
		}
	}
}

func (a *application) receive(ctx context.Context) error {
	buf := make([]byte, 4096)
	for {
		m, err := a.p.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf)
		if err != nil {
			return err
		}
		got := buf[:m.Len]
		if !bytes.HasPrefix(got, []byte(appMagic)) || m.IsCall() {
			return fmt.Errorf("the application at %v received %d bytes with tag %d from %v that are none of its own",
				a.p.Name(), m.Len, m.Tag, m.From)
		}
		n := binary.LittleEndian.Uint64(got[len(appMagic):])
		a.mu.Lock()
		before := a.last[m.Addr]
		a.last[m.Addr], a.heard = n, a.heard+1
		a.mu.Unlock()
		if n <= before || m.Tag != weft.Tag(n%5) {
			return fmt.Errorf("the application at %v received number %d with tag %d from %v behind %d", a.p.Name(), n,
				m.Tag, m.From, before)
		}
	}
}

func (a *application) end() (heard int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard, a.err
}

// Workers is the number of workers.
const Workers = 3

const (
	jobs   = 36
	askers = 3
)

// Worker returns the name of a worker.
func Worker(i int) weft.Name { return weft.Name{App: "worker", Index: uint32(i)} }

// Client is the name of the client.
var Client = weft.Name{App: "client"}

// work does a job.
func work(_ weft.Name, job []byte) []byte {
	return binary.LittleEndian.AppendUint32(bytes.Repeat(job[:min(len(job), 1)], len(job)/2), crc32.ChecksumIEEE(job))
}

// ServeJobs runs the process of a worker, together with an application. It returns when the
// process ends.
func ServeJobs(ctx context.Context, p *weft.Process) error {
	a := &application{p: p, peers: []weft.Name{Client}}
	a.start(ctx)
	err := workqueue.Serve(ctx, p, work)
	if _, aerr := a.end(); aerr != nil {
		return aerr
	}
	if errors.Is(err, weft.ErrClosed) || errors.Is(err, weft.ErrNICGone) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// AskForJobs runs the process of the client. Several of its functions concurrently ask for all
// jobs, while the application exchanges its messages.
func AskForJobs(ctx context.Context, p *weft.Process) (workqueue.Counts, error) {
	a := &application{p: p}
	cfg := workqueue.Config{Attempt: 40 * time.Millisecond, Pause: 2 * time.Millisecond, Shun: 50 * time.Millisecond,
		Answer: workqueue.MaxJob}
	for i := range Workers {
		cfg.Workers = append(cfg.Workers, Worker(i))
	}
	a.peers = cfg.Workers
	a.start(ctx)
	q, err := workqueue.New(p, cfg)
	if err != nil {
		return workqueue.Counts{}, err
	}
	defer q.Close()
	var mu sync.Mutex
	var errs []error
	over := 0
	for k := range askers {
		p.Runtime().Go(func() {
			err := askSome(ctx, p, q, k)
			mu.Lock()
			errs, over = append(errs, err), over+1
			mu.Unlock()
			p.Runtime().Wake()
		})
	}
	if err := p.Runtime().WaitUntil(ctx,
		func() bool { mu.Lock(); defer mu.Unlock(); return over == askers }); err != nil {
		return workqueue.Counts{}, err
	}
	heard, aerr := a.end()
	if aerr == nil && heard == 0 {
		aerr = errors.New("the application heard nothing from the workers' hosts")
	}
	return q.Counts(), errors.Join(append(errs, aerr)...)
}

func askSome(ctx context.Context, p *weft.Process, q *workqueue.Queue, k int) error {
	for i := k; i < jobs; i += askers {
		job := bytes.Repeat([]byte{byte(i + 1)}, [...]int{1, 100, 3000, 40_000}[i/askers%4])
		if err := p.Runtime().Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
		answer, err := q.Do(ctx, job)
		if err != nil {
			return fmt.Errorf("job %d: %w", i, err)
		}
		if !bytes.Equal(answer, work(Client, job)) {
			return fmt.Errorf("job %d of %d bytes was answered by %d bytes that are not its answer", i, len(job),
				len(answer))
		}
	}
	return nil
}
