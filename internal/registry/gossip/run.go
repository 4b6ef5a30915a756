package gossip

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
)

// judge updates the list and this NIC's own claim whenever members change. It runs as a
// goroutine.
func (r *Registry) judge(ctx context.Context) {
	joined := (<-chan struct{})(r.joined)
	again := time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-joined:
			joined = nil
		case <-r.members.changed:
		case <-again.C:
		}
		claims := r.members.claims()
		if joined == nil { // before that, this NIC may know only itself
			if d := r.lookAtSelf(claims); d > 0 {
				again.Reset(d)
			}
		}
		nodes, disputes := r.holders.judge(claims)
		r.report(disputes)
		if r.self.stance == refused {
			nodes = nil
		}
		r.publish(nodes)
	}
}

// lookAtSelf updates the stance of this NIC to its own id, and tells the others if the stance
// changes.
func (r *Registry) lookAtSelf(claims []claim) (again time.Duration) {
	before := r.self.stance
	again = r.self.look(time.Now(), claims)
	if r.self.stance == before {
		return again
	}
	switch r.self.stance {
	case refused:
		r.log.Error(
			"this NIC's id belongs to another NIC; this one stays alone until that is gone, or gets an id of its own",
			"nic", r.self.id, "here", r.self.addr, "there", r.self.by)
	case claiming:
		if r.members.alone() {
			r.log.Info("this NIC gossips, and knows no other yet",
				"nic", r.self.id, "address", r.self.addr, "gossip", r.at)
		} else {
			r.log.Info("this NIC is known to the fabric", "nic", r.self.id, "address", r.self.addr, "gossip", r.at)
		}
	}
	r.members.setMeta(r.self.claim)
	// The news is queued at once. Waiting until it is sent to all members would delay the list.
	_ = r.list.UpdateNode(time.Nanosecond)
	return again
}

// report logs each dispute once as long as it lasts.
func (r *Registry) report(disputes []dispute) {
	now := make(map[dispute]bool, len(disputes))
	for _, d := range disputes {
		now[d] = true
		if !r.disputes[d] && d.ignored != r.self.addr {
			r.log.Warn("two NICs claim one id; the second is ignored",
				"nic", d.id, "first", d.holder, "second", d.ignored)
		}
	}
	r.disputes = now
}

// call finds the others, and finds them again after a partition of the network. It calls seeds
// until they are members, and also one lost member in each round. It runs as a goroutine.
func (r *Registry) call(ctx context.Context) {
	first := sync.OnceFunc(func() { close(r.joined) })
	defer first()
	every, silent, alone := limits.GossipJoinEvery, false, true
	var turn int
	for {
		seeds, lost := r.members.absent(r.others(), time.Now())
		to := seeds
		if len(lost) > 0 {
			to = append(to, lost[turn%len(lost)])
			turn++
		}
		answered, err := r.join(to, first)
		switch {
		case answered > 0 && alone:
			r.log.Info("joined the gossip", "answered", answered)
			silent, alone = false, false
		case len(seeds) > 0 && r.members.alone() && !silent:
			r.log.Warn("no seed has let this NIC join, and it goes on calling them. Is the fabric key the same there?",
				"seeds", seeds, "error", oneLine(err))
			silent = true
		}
		first()
		every = pause(every, answered, r.members.alone(), len(seeds))
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

// pause returns the time between two rounds of calls, from the time between the rounds before. It
// gets longer once another member is known, or if there is no seed to find one by.
func pause(before time.Duration, answered int, alone bool, seeds int) time.Duration {
	if answered > 0 || !alone || seeds == 0 {
		return limits.GossipRejoinEvery
	}
	return before
}

// others returns the seeds except this member.
func (r *Registry) others() (l []netip.AddrPort) {
	for _, s := range r.config.Seeds {
		if s != r.at {
			l = append(l, s)
		}
	}
	return l
}

// join calls all addresses in to concurrently, and calls answered at the first answer.
func (r *Registry) join(to []netip.AddrPort, answered func()) (n int, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, a := range to {
		all.Go(func() {
			_, e := r.list.Join([]string{a.String()})
			r.noteCall(a, e)
			mu.Lock()
			defer mu.Unlock()
			if e != nil {
				err = errors.Join(err, e)
				return
			}
			n++
			answered()
		})
	}
	all.Wait()
	return n, err
}

var _ registry.Registry = (*Registry)(nil)

// oneLine returns the text of an error on one line: the library puts several errors on several
// lines.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	lines := strings.FieldsFunc(err.Error(), func(c rune) bool { return c == '\n' })
	var texts []string
	for _, l := range lines {
		if l = strings.TrimLeft(l, " \t*"); l != "" && !strings.HasSuffix(l, "occurred:") {
			texts = append(texts, l)
		}
	}
	return strings.Join(texts, "; ")
}
