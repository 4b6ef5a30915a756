package userfault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/paging"
)

// Device stores pages. Several goroutines may call its methods concurrently, with parts that lie
// within its size.
type Device interface {
	Size() int64
	// ReadMany reads several parts concurrently. It calls done for each part. If a part has ended
	// since the last call of beforeWait, ReadMany calls beforeWait before it waits.
	ReadMany(ctx context.Context, bufs [][]byte, offsets []int64, done func(i int, err error), beforeWait func())
	WriteAtContext(ctx context.Context, b []byte, offset int64) (int, error)

	// Discard makes a part read as zeros, and frees the room that it took.
	Discard(ctx context.Context, offset, n int64) error
}

// Config configures a Pager.
type Config struct {
	Device   Device
	Page     int   // bytes of a page: the unit of transfers to the device
	Resident int64 // largest number of local bytes

	// Timeout is the time for which a program waits for a page before it gets SIGBUS; zero: 30 s.
	Timeout time.Duration

	// Log receives a text for each failure that the device causes.
	Log func(text string)
}

// Pager pages the memory of one program at a time.
type Pager struct {
	cfg  Config
	page int64

	mu  sync.Mutex
	now *region // the region that is being served; nil: none
}

// New returns a pager. It fails if the kernel lacks something that a pager needs, or if the
// numbers do not fit together.
func New(cfg Config) (*Pager, error) {
	page := int64(max(cfg.Page, os.Getpagesize()))
	size := cfg.Device.Size()
	switch {
	case size <= 0 || size%page != 0:
		return nil, fmt.Errorf("memory of %d bytes; expected a multiple of %d, the size of a page", size, page)
	case size/page > paging.MaxPages:
		return nil, fmt.Errorf("memory of %d bytes; expected at most %d", size, page*paging.MaxPages)
	case cfg.Resident%page != 0 || cfg.Resident < paging.MinLimit*page:
		return nil, fmt.Errorf("%d bytes resident; expected a multiple of %d, the size of a page, and at least %d",
			cfg.Resident, page, paging.MinLimit*page)
	case cfg.Resident > size:
		return nil, fmt.Errorf("%d bytes resident; expected at most %d, the size of the memory", cfg.Resident, size)
	}
	if err := Check(); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = func(string) {}
	}
	return &Pager{cfg: cfg, page: page}, nil
}

// Stats returns the state and the counters of the memory of the current program; zero if there is
// none.
func (p *Pager) Stats() paging.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		return paging.Stats{}
	}
	return p.now.stats()
}

// Serve gives memory to programs that ask for it, one after another, until ctx ends. Each program
// begins with zeros. Serve closes the listener at its end. A program that still has its memory
// then is killed. If there are too few files or too little memory for another connection, Serve
// waits.
func (p *Pager) Serve(ctx context.Context, l *net.UnixListener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for {
		c, err := accept(ctx, l, p.cfg.Log)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return errors.Join(err, l.Close())
		}
		wg.Go(func() {
			defer c.Close()
			if err := p.attend(ctx, c); err != nil {
				p.cfg.Log(err.Error())
			}
		})
	}
}

// accepter is the part of a listener that accept needs.
type accepter interface{ AcceptUnix() (*net.UnixConn, error) }

// acceptPause is the pause before a pager retries to accept a connection when files or memory are
// lacking.
const acceptPause = 100 * time.Millisecond

// accept returns the next connection. If files or memory are lacking, it waits.
func accept(ctx context.Context, l accepter, log func(string)) (*net.UnixConn, error) {
	for {
		c, err := l.AcceptUnix()
		if !slices.ContainsFunc([]error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM},
			func(e error) bool { return errors.Is(err, e) }) {
			return c, err
		}
		log(fmt.Sprintf("a program has to wait: %v", err))
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(acceptPause):
		}
	}
}

// attend serves a program until it ends.
func (p *Pager) attend(serving context.Context, c *net.UnixConn) error {
	r, err := p.begin(serving)
	if err != nil {
		_, _ = c.Write([]byte(err.Error()))
		return err
	}
	defer p.end(serving, r)
	stop := context.AfterFunc(r.ctx, func() { c.Close() })
	defer stop()
	err = r.agree(c)
	switch {
	case err == nil:
		r.wg.Go(r.faults)
		r.wg.Go(r.expire)
		if _, err = c.Write([]byte(accepted)); err == nil {
			_, _ = c.Read(make([]byte, 1)) // it ends, or sends something unexpected
		}
	case r.ctx.Err() == nil:
		_, _ = c.Write([]byte(err.Error()))
	}
	close(r.ended)
	return errors.Join(err, r.close())
}

// begin makes the region for a program. It fails if another program has one.
func (p *Pager) begin(ctx context.Context) (*region, error) {
	grace := time.NewTimer(graceOfLast)
	defer grace.Stop()
	for {
		r, err := newRegion(ctx, p)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		last := p.now
		if last == nil {
			p.now = r
		}
		p.mu.Unlock()
		if last == nil {
			return r, nil
		}
		if err := r.close(); err != nil {
			return nil, err
		}
		select {
		case <-last.ended:
			<-last.gone
		case <-grace.C:
			return nil, errors.New("another program has the memory; expected one at a time")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// graceOfLast is the time allowed for noticing the end of a program when the next program asks.
const graceOfLast = time.Second

// end returns the room to the device and lets the next program begin. The next program would
// begin with zeros even without the discard.
func (p *Pager) end(ctx context.Context, r *region) {
	if err := p.cfg.Device.Discard(ctx, 0, p.cfg.Device.Size()); err != nil && ctx.Err() == nil {
		p.cfg.Log("discarding what a program had: " + err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = nil
	close(r.gone)
}
