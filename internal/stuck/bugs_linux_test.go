package stuck_test

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	weft "github.com/weftnet/weft"
)

// bugRanks is the number of ranks of a program with a bug.
const bugRanks = 4

// bugs lists programs that do not end, each because of a different mistake. Each rank is a
// separate process.
var bugs = []struct {
	name  string
	kind  string // kind of the first cause in the report
	ranks []int  // ranks to look at
	says  string // a part of the cause's text
	early bool   // it fails before the ranks have joined
	run   func(r *ranked) error
}{
	{name: "a rank is stopped", kind: "stopped", ranks: []int{2}, says: "is stopped by a signal", run: func(r *ranked) error {
		if r.rank == 2 {
			if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
				return err
			}
			time.Sleep(time.Hour) // another thread may take the signal
		}
		return r.world.Barrier(r.ctx)
	}},
	{name: "a rank computes for ever", kind: "outside", ranks: []int{1}, says: "runs outside of Weft", run: func(r *ranked) error {
		if r.rank == 1 {
			for n := uint64(1); n != 0; n += 2 { // always true, since n is odd
			}
		}
		return r.world.Barrier(r.ctx)
	}},
	{name: "a rank sleeps for ever", kind: "outside", ranks: []int{3}, says: "sleeps outside of Weft", run: func(r *ranked) error {
		if r.rank == 3 {
			time.Sleep(time.Hour)
		}
		return r.world.Barrier(r.ctx)
	}},
	{name: "a rank ends before it joins", kind: "not-attached", ranks: []int{3}, says: "is attached to no daemon", early: true, run: func(r *ranked) error {
		if r.rank == 3 {
			os.Exit(0)
		}
		return r.join()
	}},
	{name: "a rank ends before the barrier", kind: "ended", ranks: []int{1}, says: "left group world: operation 4, a barrier, failed at ranks 0, 2, 3", run: func(r *ranked) error {
		if r.rank == 1 {
			os.Exit(0)
		}
		r.ignore(r.world.Barrier(r.ctx))
		return r.receive(weft.AnyProcess, 1)
	}},
	{name: "a rank receives with the wrong tag", kind: "tag", ranks: []int{1}, says: "with tag 7; it has not received the message from wrong-5/0 with tag 8", run: func(r *ranked) error {
		switch r.rank {
		case 0:
			if err := r.p.Send(r.ctx, r.name(1), 8, []byte("here")); err != nil {
				return err
			}
		case 1:
			return r.receive(r.name(0), 7)
		}
		return r.world.Barrier(r.ctx)
	}},
	{name: "two ranks wait for each other's message", kind: "cycle", ranks: []int{1, 2}, says: "1 → 2 → 1", run: func(r *ranked) error {
		if r.rank == 1 || r.rank == 2 {
			return r.receive(r.name(3-r.rank), 5)
		}
		return r.world.Barrier(r.ctx)
	}},
	{name: "two ranks send long messages to each other", kind: "cycle", ranks: []int{0, 3}, says: "0 → 3 → 0", run: func(r *ranked) error {
		if r.rank == 0 || r.rank == 3 {
			return r.p.Send(r.ctx, r.name(3-r.rank), 5, make([]byte, 4<<20))
		}
		return r.world.Barrier(r.ctx)
	}},
	{name: "a ring of receives", kind: "cycle", ranks: []int{0, 1, 2, 3}, says: "0 → 1 → 2 → 3 → 0", run: func(r *ranked) error {
		return r.receive(r.name((r.rank+1)%bugRanks), 2)
	}},
	{name: "a rank broadcasts while the others are in a barrier", kind: "disagreement", ranks: []int{2},
		says: "operation 4: rank 2 in a broadcast from wrong-9/0, ranks 0, 1, 3 in a barrier", run: func(r *ranked) error {
			if r.rank == 2 {
				r.ignore(r.world.Broadcast(r.ctx, 0, make([]byte, 8)))
			} else {
				r.ignore(r.world.Barrier(r.ctx))
			}
			return r.receive(weft.AnyProcess, 1)
		}},
	{name: "a rank names another root", kind: "disagreement", ranks: []int{0},
		says: "operation 4: rank 0 in a broadcast from wrong-10/1, ranks 1-3 in a broadcast from wrong-10/0", run: func(r *ranked) error {
			root := 0
			if r.rank == 0 {
				root = 1
			}
			return r.world.Broadcast(r.ctx, root, make([]byte, 8))
		}},
	{name: "a rank skips one operation", kind: "elsewhere", ranks: []int{3}, says: "for a message from wrong-11/0 with tag 9", run: func(r *ranked) error {
		for i := range 5 {
			if r.rank == 3 && i == 2 {
				continue
			}
			if err := r.world.Barrier(r.ctx); err != nil {
				return err
			}
		}
		if r.rank == 0 {
			return r.p.Send(r.ctx, r.name(3), 9, []byte("done"))
		}
		return r.receive(r.name(0), 9)
	}},
	{name: "a rank never joins", kind: "outside", ranks: []int{2}, says: "sleeps outside of Weft", early: true, run: func(r *ranked) error {
		if r.rank == 2 {
			time.Sleep(time.Hour)
		}
		return r.join()
	}},
	{name: "a call is never replied to", kind: "no-reply", ranks: []int{0}, says: "has taken the call of rank 3", run: func(r *ranked) error {
		switch r.rank {
		case 3:
			_, err := r.p.Peer(r.name(0)).Call(r.ctx, 4, []byte("question"), make([]byte, 8))
			return err
		case 0:
			for { // receives every question, and forgets to answer
				if err := r.receive(weft.AnyProcess, 4); err != nil {
					return err
				}
			}
		}
		return r.world.Barrier(r.ctx)
	}},
	{name: "two groups are used in two orders", kind: "cycle", ranks: []int{0, 1}, says: "0 → 1 → 0", run: func(r *ranked) error {
		pair, err := r.world.Split(r.ctx, r.rank/2)
		if err != nil {
			return err
		}
		if r.rank == 1 {
			if err := r.world.Barrier(r.ctx); err != nil {
				return err
			}
		}
		if err := pair.Barrier(r.ctx); err != nil {
			return err
		}
		return r.world.Barrier(r.ctx)
	}},
}

// ranked is one rank of a program with a bug.
type ranked struct {
	ctx   context.Context
	app   string
	rank  int
	p     *weft.Process
	world *weft.Group
}

// runRank is the program: the ranks join, meet in three barriers, and then make the mistake.
func runRank(app, socket string, bug, rank int) error {
	r := &ranked{ctx: context.Background(), app: app, rank: rank}
	var err error
	if r.p, err = weft.Attach(r.ctx, weft.AttachConfig{Socket: socket, Name: r.name(rank)}); err != nil {
		return err
	}
	if !bugs[bug].early {
		if err := r.join(); err != nil {
			return err
		}
		for range 3 {
			if err := r.world.Barrier(r.ctx); err != nil {
				return err
			}
		}
	}
	return bugs[bug].run(r)
}

func (r *ranked) name(rank int) weft.Name {
	n, err := weft.ParseName(fmt.Sprintf("%s/%d", r.app, rank))
	if err != nil {
		panic(err)
	}
	return n
}

func (r *ranked) join() (err error) {
	r.world, err = r.p.Join(r.ctx, "world", bugRanks)
	return err
}

func (r *ranked) receive(from weft.Name, tag weft.Tag) error {
	_, err := r.p.Recv(r.ctx, from, tag, make([]byte, 100))
	return err
}

// ignore reports an error and continues, which is itself a mistake.
func (r *ranked) ignore(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, r.name(r.rank), "goes on despite:", err)
	}
}
