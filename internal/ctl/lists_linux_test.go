package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/registry"
)

// lists holds the methods that collect a list from several replies. Each returns its entries in
// order. part makes the reply with the entries from one index to another.
var lists = map[string]struct {
	ask  func(ctx context.Context, c *Conn) ([]string, error)
	part func(from, to int) *Reply
}{
	"nodes": {
		func(ctx context.Context, c *Conn) ([]string, error) {
			l, err := c.Nodes(ctx)
			return labels(l, func(n Node) string { return n.Name }), err
		},
		func(from, to int) *Reply {
			return &Reply{Nodes: entries(from, to, func(s string) Node { return Node{Name: s} })}
		},
	},
	"names": {
		func(ctx context.Context, c *Conn) ([]string, error) {
			l, err := c.Names(ctx)
			return labels(l, func(n Name) string { return n.Name }), err
		},
		func(from, to int) *Reply {
			return &Reply{Names: entries(from, to, func(s string) Name { return Name{Name: s, NIC: 1} })}
		},
	},
	"groups": {
		func(ctx context.Context, c *Conn) ([]string, error) {
			l, err := c.NIC(7).Groups(ctx)
			return labels(l, func(m Member) string { return m.Name }), err
		},
		func(from, to int) *Reply {
			return &Reply{Groups: entries(from, to, func(s string) Member { return Member{Name: s, NIC: 1} })}
		},
	},
	"processes": {
		func(ctx context.Context, c *Conn) ([]string, error) {
			l, err := c.Processes(ctx)
			return labels(l, func(p Process) string { return p.Name }), err
		},
		func(from, to int) *Reply {
			return &Reply{Processes: entries(from, to, func(s string) Process { return Process{Name: s} })}
		},
	},
	"thrown": {
		func(ctx context.Context, c *Conn) ([]string, error) {
			l, err := c.NIC(0).Thrown(ctx)
			return labels(l, func(p Thrown) string { return p.Name }), err
		},
		func(from, to int) *Reply {
			return &Reply{Thrown: entries(from, to, func(s string) Thrown { return Thrown{Name: s} })}
		},
	},
	"checks": {
		func(ctx context.Context, c *Conn) ([]string, error) {
			l, err := c.NIC(0).Check(ctx)
			return labels(l, func(k Check) string { return k.Address }), err
		},
		func(from, to int) *Reply {
			return &Reply{Checks: entries(from, to, func(s string) Check { return Check{Address: s} })}
		},
	},
	"segments": {
		func(ctx context.Context, c *Conn) ([]string, error) {
			l, err := c.Segments(ctx)
			return labels(l, func(s SegmentInfo) string { return s.User }), err
		},
		func(from, to int) *Reply {
			return &Reply{Segments: entries(from, to, func(s string) SegmentInfo { return SegmentInfo{User: s} })}
		},
	},
	"links": {
		func(ctx context.Context, c *Conn) ([]string, error) {
			l, err := c.Links(ctx)
			return labels(l, func(l Link) string { return l.Name }), err
		},
		func(from, to int) *Reply {
			return &Reply{Links: entries(from, to, func(s string) Link { return Link{Name: s, NIC: 1} })}
		},
	},
	"jobs": {
		func(ctx context.Context, c *Conn) ([]string, error) {
			l, err := c.NIC(7).Jobs(ctx)
			return labels(l, func(j JobInfo) string { return j.User }), err
		},
		func(from, to int) *Reply {
			return &Reply{Job: &JobReply{Jobs: entries(from, to, func(s string) JobInfo { return JobInfo{User: s} })}}
		},
	},
	"machines": {
		func(ctx context.Context, c *Conn) ([]string, error) {
			l, err := c.NIC(0).Machines(ctx)
			return labels(l, func(m Machine) string { return m.Name }), err
		},
		func(from, to int) *Reply {
			return &Reply{Job: &JobReply{Machines: entries(from, to, func(s string) Machine { return Machine{Name: s} })}}
		},
	},
	"the processes of a job": {
		func(ctx context.Context, c *Conn) ([]string, error) {
			j, err := c.NIC(7).JobOf(ctx, someJob)
			if err != nil {
				return nil, err
			}
			return labels(j.Processes, func(r RankInfo) string { return r.Cause }), nil
		},
		ranksOfSomeJob,
	},
	"what the ranks of a job wait for": {
		func(ctx context.Context, c *Conn) ([]string, error) {
			j, err := c.NIC(7).Stuck(ctx, someJob)
			if err == nil && j.NIC != 7 {
				err = fmt.Errorf("the NIC of the job is %v", j.NIC)
			}
			return labels(j.Processes, func(r RankInfo) string { return r.Cause }), err
		},
		ranksOfSomeJob,
	},
}

const someJob = "job-0123abcd"

func ranksOfSomeJob(from, to int) *Reply {
	ranks := entries(from, to, func(s string) RankInfo { return RankInfo{Cause: s} })
	return &Reply{Job: &JobReply{Jobs: []JobInfo{{ID: someJob, NIC: registry.NICID(7), Processes: ranks}}}}
}

func labels[T any](all []T, of func(T) string) (l []string) {
	for _, a := range all {
		l = append(l, of(a))
	}
	return l
}

func entries[T any](from, to int, of func(string) T) (all []T) {
	for i := from; i < to; i++ {
		all = append(all, of(fmt.Sprintf("e%d", i)))
	}
	return all
}

func TestEachListIsAskedForPageByPageUntilItsEnd(t *testing.T) {
	a := &answers{}
	c := dial(t, a.serve(t))
	for what, l := range lists {
		a.set(func(r *Request) (*Reply, []int) { // five entries in pages of two
			reply := l.part(r.From, min(r.From+2, 5))
			if r.From+2 < 5 {
				reply.Next = r.From + 2
			}
			return reply, nil
		})
		got, err := l.ask(t.Context(), c)
		if want := []string{"e0", "e1", "e2", "e3", "e4"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; expected %q", what, got, err, want)
		}
		for i, r := range a.requests() {
			if r.From != 2*i {
				t.Errorf("%s: request %d is from %d; expected %d", what, i, r.From, 2*i)
			}
		}
	}
}

// A broken daemon must not keep its client in an endless list.
func TestAListThatGoesOnWhereItBeganEnds(t *testing.T) {
	a := &answers{}
	c := dial(t, a.serve(t))
	for what, l := range lists {
		a.set(func(r *Request) (*Reply, []int) {
			reply := l.part(r.From, r.From+1)
			reply.Next = 1
			return reply, nil
		})
		got, err := l.ask(t.Context(), c)
		if err != nil || !slices.Equal(got, []string{"e0", "e1"}) || len(a.requests()) != 2 {
			t.Errorf("%s: %q, %v after %d requests", what, got, err, len(a.requests()))
		}
	}
}

func TestAListWhoseSecondPageIsRefusedIsAnError(t *testing.T) {
	a := &answers{}
	c := dial(t, a.serve(t))
	for what, l := range lists {
		a.set(func(r *Request) (*Reply, []int) {
			if r.From > 0 {
				return ErrorReply(ErrNoAnswer), nil
			}
			reply := l.part(0, 1)
			reply.Next = 1
			return reply, nil
		})
		if got, err := l.ask(t.Context(), c); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("%s: %q, %v; expected %v", what, got, err, ErrNoAnswer)
		}
	}
}

func TestAnAnswerAboutAnotherJobIsRefused(t *testing.T) {
	a := &answers{}
	c := dial(t, a.serve(t))
	for _, jobs := range [][]JobInfo{nil, {{ID: someJob}, {ID: someJob}}} {
		a.set(func(*Request) (*Reply, []int) { return &Reply{Job: &JobReply{Jobs: jobs}}, nil })
		if _, err := c.NIC(7).JobOf(t.Context(), someJob); err == nil {
			t.Errorf("%d jobs are taken for one", len(jobs))
		}
		if _, err := c.NIC(7).Stuck(t.Context(), someJob); err == nil {
			t.Errorf("what %d jobs wait for is taken", len(jobs))
		}
	}
	a.set(func(*Request) (*Reply, []int) { return &Reply{Job: &JobReply{Jobs: []JobInfo{{ID: "other"}}}}, nil })
	if _, err := c.NIC(7).Stuck(t.Context(), someJob); err == nil {
		t.Error("what another job waits for is taken")
	}
}
