package ctl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// answers serves each request with a reply and descriptors, which stay the caller's, and notes
// the requests.
type answers struct {
	mu    sync.Mutex
	of    func(r *Request) (*Reply, []int)
	asked []Request
}

func (a *answers) serve(t *testing.T) string {
	return serve(t, func(c *Client, r *Request) error {
		a.mu.Lock()
		a.asked = append(a.asked, *r)
		reply, fds := a.of(r)
		a.mu.Unlock()
		if r.Op == OpLinks { // the caller sends memory next
			c.TakeMemory()
		}
		err := c.Reply(reply, fds...)
		c.LetGo()
		return err
	})
}

// set replaces the daemon's answers from now on, and forgets the requests so far.
func (a *answers) set(of func(r *Request) (*Reply, []int)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of, a.asked = of, nil
}

// requests returns the requests since set.
func (a *answers) requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// questions holds the methods that need a part of their reply. lacks is the missing part, and fds
// the number of descriptors that come with the reply.
var questions = []struct {
	lacks  string
	fds    int
	ask    func(ctx context.Context, c *Conn, a *Attachment) error
	answer func() *Reply
}{
	{"memory", 0, func(ctx context.Context, c *Conn, _ *Attachment) error {
		m, err := c.NIC(7).Memory(ctx)
		return wrong(err, err != nil || m.NIC == 7)
	}, func() *Reply { return &Reply{Memory: &Memory{NIC: 7}} }},
	{"stat", 0, func(ctx context.Context, c *Conn, _ *Attachment) error {
		info, counters, err := c.NIC(7).Counters(ctx)
		return wrong(err, err != nil || info.PID == 5 && counters["a"] == 3)
	}, func() *Reply { return &Reply{Info: &Info{PID: 5}, Counters: map[string]uint64{"a": 3}} }},
	{"program", 0, func(ctx context.Context, c *Conn, _ *Attachment) error {
		p, err := c.NIC(7).Program(ctx, &Program{Do: ProgramList})
		return wrong(err, err != nil || p.ID == 9)
	}, func() *Reply { return &Reply{Program: &ProgramReply{ID: 9}} }},
	{"job", 0, func(ctx context.Context, c *Conn, _ *Attachment) error {
		j, err := c.NIC(7).Job(ctx, &Job{What: JobSlots})
		return wrong(err, err != nil || j.Slots == 4)
	}, func() *Reply { return &Reply{Job: &JobReply{Slots: 4}} }},
	{"segment", 0, func(ctx context.Context, c *Conn, _ *Attachment) error {
		s, err := c.CreateSegment(ctx, 3, 8, OthersRead)
		return wrong(err, err != nil || s.Owner == 6)
	}, func() *Reply { return &Reply{Tool: &SegmentAnswer{Info: SegmentInfo{Owner: 6}}} }},
	{"segment", 0, func(ctx context.Context, c *Conn, _ *Attachment) error {
		s, err := c.DeleteSegment(ctx, 3)
		return wrong(err, err != nil || s.Processes == 2)
	}, func() *Reply { return &Reply{Tool: &SegmentAnswer{Info: SegmentInfo{Processes: 2}}} }},
	{"stat", 1, func(ctx context.Context, c *Conn, _ *Attachment) error {
		info, counters, unmap, err := c.Stat(ctx)
		if err != nil {
			return err
		}
		return wrong(unmap(), info.PID == 5 && len(counters) == 4096)
	}, func() *Reply { return &Reply{Info: &Info{PID: 5}} }},
	{"alloc", 1, func(ctx context.Context, _ *Conn, a *Attachment) error {
		id, key, mem, err := a.Alloc(ctx, 4096, false)
		if err == nil {
			a.mu.Lock()
			delete(a.regions, id)
			a.mu.Unlock()
			err = unmapMemory(mem)
		}
		return wrong(err, err != nil || id == 4 && key == 8)
	}, func() *Reply { return &Reply{Region: &Region{ID: 4, Key: 8}} }},
	{"register", 0, func(ctx context.Context, c *Conn, a *Attachment) error {
		if _, err := c.Links(ctx); err != nil {
			return err
		}
		id, key, err := a.Register(ctx, a.kick, 0, 4096, true)
		return wrong(err, err != nil || id == 4 && key == 8)
	}, func() *Reply { return &Reply{Region: &Region{ID: 4, Key: 8}} }},
	{"part", 0, func(ctx context.Context, _ *Conn, a *Attachment) error {
		id, key, err := a.Part(ctx, 1, 64, 128, true)
		return wrong(err, err != nil || id == 4 && key == 8)
	}, func() *Reply { return &Reply{Region: &Region{ID: 4, Key: 8}} }},
	{"share", 1, func(ctx context.Context, _ *Conn, a *Attachment) error {
		mem, leave, err := a.Share(ctx, 3, 4096)
		if err != nil {
			return err
		}
		return wrong(leave(ctx), len(mem) == 4096)
	}, func() *Reply { return &Reply{Segment: &SharedSegment{ID: 3, Bytes: 4096}} }},
	{"attach", 4, func(ctx context.Context, c *Conn, _ *Attachment) error {
		a, err := c.Attach(ctx, "app/1", nil)
		if err != nil {
			return err
		}
		return wrong(errors.Join(a.Close(), a.Unmap()), a.Slot == 2)
	}, func() *Reply { return &Reply{Attached: &Attached{Slot: 2}} }},
}

// wrong returns err, or an error if the answer is not the daemon's.
func wrong(err error, right bool) error {
	if err == nil && !right {
		err = errors.New("the answer is not the daemon's")
	}
	return err
}

// A broken daemon, or one of another build, may leave out a part. The caller then gets an error,
// and no descriptor stays open.
func TestAReplyThatLacksItsPartIsAnErrorAndLeavesNothingOpen(t *testing.T) {
	a := &answers{of: func(*Request) (*Reply, []int) { return &Reply{}, nil }}
	path := a.serve(t)
	memory := lastingMemory(t)
	before := openFiles(t)
	for i, q := range questions {
		ask := func() error {
			c := dial(t, path)
			err := q.ask(t.Context(), c, &Attachment{conn: c, regions: map[uint32][]byte{}, kick: memory})
			c.Close()
			return err
		}
		fds := slices.Repeat([]int{memory}, q.fds)
		only := func(reply func() *Reply, fds []int) func(r *Request) (*Reply, []int) {
			op := ""
			return func(r *Request) (*Reply, []int) {
				if op == "" && r.Op != OpLinks {
					op = r.Op
				}
				if r.Op != op {
					return &Reply{}, nil
				}
				return reply(), fds
			}
		}
		for round := range 3 {
			a.set(only(q.answer, fds))
			if err := ask(); err != nil {
				t.Fatalf("question %d, %q: %v", i, q.lacks, err)
			}
			a.set(only(func() *Reply { return &Reply{} }, fds))
			if err := ask(); err == nil || !strings.Contains(err.Error(), `"`+q.lacks+`" lacks`) {
				t.Fatalf("question %d, round %d: a reply without its part: %v; expected that %q lacks it", i, round, err, q.lacks)
			}
			a.set(only(func() *Reply { return ErrorReply(ErrInUse) }, nil))
			if err := ask(); !errors.Is(err, ErrInUse) {
				t.Fatalf("question %d: a refusal: %v", i, err)
			}
			a.set(only(q.answer, append(fds, memory)))
			if err := ask(); err == nil || !strings.Contains(err.Error(), "descriptors") {
				t.Fatalf("question %d: a reply with a descriptor more: %v", i, err)
			}
		}
		closedAgain(t, q.lacks, before)
	}
}

// closedAgain waits until no more descriptors are open than before: the other end closes its
// descriptors a moment later.
func closedAgain(t *testing.T, what string, before int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); openFiles(t) > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d descriptors are open; before there were %d", what, openFiles(t), before)
		}
	}
}

// lastingMemory returns memory of one page that cannot be made shorter.
func lastingMemory(t *testing.T) int {
	t.Helper()
	fd := memfd(t, 4096)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	return fd
}
