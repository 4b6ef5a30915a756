package gossip

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Silent is a seed that is no member and did not let this NIC join at the last call.
type Silent struct {
	Seed netip.AddrPort
	Why  string // the error of that call, on one line
}

// Silent returns such seeds, sorted by address.
func (r *Registry) Silent() (l []Silent) {
	absent, _ := r.members.absent(r.others(), time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, seed := range absent {
		if why := r.failed[seed]; why != "" {
			l = append(l, Silent{seed, why})
		}
	}
	slices.SortFunc(l, func(a, b Silent) int {
		return cmp.Or(a.Seed.Addr().Compare(b.Seed.Addr()), cmp.Compare(a.Seed.Port(), b.Seed.Port()))
	})
	return l
}

// Unopened returns how many messages of others did not open with the keys of this member, as long
// as it has found no other member: then the others have another key.
func (r *Registry) Unopened() uint64 {
	if !r.members.alone() {
		return 0
	}
	return r.heard.unopened.Load()
}

// noteCall notes the result of the last call of a seed or lost member. Only those of seeds are
// kept, so there are as many notes as seeds.
func (r *Registry) noteCall(to netip.AddrPort, err error) {
	if !slices.Contains(r.config.Seeds, to) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = make(map[netip.AddrPort]string)
	}
	r.failed[to] = oneLine(err)
}

// isUnopened reports whether a line of memberlist's log is about a message that no key opens. The
// library reports that nowhere else.
func isUnopened(line []byte) bool {
	return bytes.Contains(line, []byte("no installed keys could decrypt the message"))
}
