package sim

import (
	"slices"
	"time"
)

// beginEpisodes plans the first episode of each kind; each plans the next.
func (f *Fabric) beginEpisodes() {
	e := &f.cfg.Faults
	f.episodes(e.Partitions, func(d time.Duration) {
		hosts := f.someHosts()
		f.After(d, f.Partition(hosts...))
	})
	f.episodes(e.Clogs, func(d time.Duration) {
		from, to := f.chance.IntN(len(f.nodes)), f.chance.IntN(len(f.nodes))
		f.Clog(from, to, d)
	})
	f.episodes(e.Stalls, func(d time.Duration) { f.Stall(f.chance.IntN(len(f.nodes)), d) })
	f.episodes(e.Reboots, func(d time.Duration) { f.Reboot(f.chance.IntN(len(f.nodes)), d) })
}

func (f *Fabric) episodes(e Episodes, begin func(lasting time.Duration)) {
	if e.Every <= 0 {
		return
	}
	f.After(f.exponential(e.Every), func() {
		begin(f.exponential(e.Lasting))
		f.episodes(e, begin)
	})
}

// exponential draws the time to the next of events that come at random, mean apart on average.
func (f *Fabric) exponential(mean time.Duration) time.Duration {
	return time.Duration(f.chance.ExpFloat64() * float64(mean))
}

// someHosts draws a part of the hosts that is neither empty nor all of them, where there are two.
func (f *Fabric) someHosts() []int {
	n := len(f.nodes)
	return f.chance.Perm(n)[:1+f.chance.IntN(max(n-1, 1))]
}

// Partition cuts hosts off from all others, in both directions, until heal is called. A host may be in several
// partitions; each must be healed.
func (f *Fabric) Partition(hosts ...int) (heal func()) {
	f.counts.Partitions++
	hosts = slices.Clone(hosts)
	f.block(hosts, 1)
	healed := false
	return func() {
		if !healed {
			healed = true
			f.block(hosts, -1)
		}
	}
}

func (f *Fabric) block(hosts []int, by int) {
	for i := range f.nodes {
		for j := range f.nodes {
			if slices.Contains(hosts, i) != slices.Contains(hosts, j) {
				f.net.path(i, j).blocked += by
			}
		}
	}
}

// Clog holds up all frames from one host to another for d; then they arrive, as many as the queues hold.
func (f *Fabric) Clog(from, to int, d time.Duration) {
	if from == to {
		return
	}
	f.counts.Clogs++
	p := f.net.path(from, to)
	p.clogged = max(p.clogged, f.s.now.Add(d))
}

// Narrow loses all frames from one host to another that have more than longest bytes, without a word, as a switch does
// whose MTU is smaller than the hosts'. The frames of a session get through if longest is 548 at least. With longest 0 all do again.
func (f *Fabric) Narrow(from, to, longest int) {
	if longest > 0 {
		f.counts.Narrows++
	}
	f.net.path(from, to).narrow = longest
}

// Stall gives a host's NIC no turn for d.
func (f *Fabric) Stall(host int, d time.Duration) {
	f.counts.Stalls++
	n := f.nodes[host]
	n.stalled = max(n.stalled, f.s.now.Add(d))
}

// StopNIC takes a host's NIC away without a goodbye. The operations of its processes end with an error that says so; the
// functions go on.
func (f *Fabric) StopNIC(host int) {
	n := f.nodes[host]
	if n.engine == nil {
		return
	}
	n.vanish()
	procs := n.procs
	n.procs = nil
	for _, p := range procs {
		p.unplug()
	}
}

// StartNIC starts the NIC of a host again, as a new incarnation, and the processes that wait for it.
func (f *Fabric) StartNIC(host int) {
	n := f.nodes[host]
	if n.engine != nil {
		return
	}
	f.counts.Restarts++
	if err := n.start(); err != nil {
		f.fail(err)
		return
	}
	wait := n.wait
	n.wait = nil
	for _, p := range wait {
		p.begin()
	}
}

// Reboot kills a host: its NIC and its processes vanish. After d it starts again, with its processes' functions from
// their beginning.
func (f *Fabric) Reboot(host int, d time.Duration) {
	n := f.nodes[host]
	if n.engine == nil {
		return
	}
	again := slices.Clone(n.procs)
	f.StopNIC(host)
	for _, p := range again {
		f.kill(p)
		f.launch(p.host.index, p.name, p.main, p.serves)
	}
	f.After(d, func() { f.StartNIC(host) })
}

// Kill ends a process as kill -9 does: its functions go no further, and the NIC finds it gone.
func (f *Fabric) Kill(p *Process) {
	if p.over {
		return
	}
	f.counts.Deaths++
	f.kill(p)
}

func (f *Fabric) kill(p *Process) {
	for _, t := range p.tasks {
		f.s.kill(t)
	}
	p.leave()
}
