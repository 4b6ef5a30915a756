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

// exponential draws the time between random events, which is mean on average.
func (f *Fabric) exponential(mean time.Duration) time.Duration {
	return time.Duration(f.chance.ExpFloat64() * float64(mean))
}

// someHosts draws a random set of hosts. With two hosts or more, the set is neither empty nor
// complete.
func (f *Fabric) someHosts() []int {
	n := len(f.nodes)
	return f.chance.Perm(n)[:1+f.chance.IntN(max(n-1, 1))]
}

// Partition cuts hosts off from all other hosts, in both directions, until the returned function
// heal is called. Partitions may overlap. A host is reachable again when all its partitions are
// healed.
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

// Clog holds up all frames from the host src to the host dst for the time d. When the time d is
// over, the frames that fitted into the queues arrive.
func (f *Fabric) Clog(src, dst int, d time.Duration) {
	if src == dst {
		return
	}
	f.counts.Clogs++
	p := f.net.path(src, dst)
	p.clogged = max(p.clogged, f.s.now.Add(d))
}

// Narrow silently drops all frames of more than maxBytes bytes from the host src to the host dst,
// as a switch with a smaller MTU does. Sessions of NICs need frames of at least 548 bytes. If
// maxBytes is 0, frames of every length pass again.
func (f *Fabric) Narrow(src, dst, maxBytes int) {
	if maxBytes > 0 {
		f.counts.Narrows++
	}
	f.net.path(src, dst).narrow = maxBytes
}

// Stall stops a host's NIC for the time d, as if the host were busy.
func (f *Fabric) Stall(host int, d time.Duration) {
	f.counts.Stalls++
	n := f.nodes[host]
	n.stalled = max(n.stalled, f.s.now.Add(d))
}

// Pause stops all functions of a process for the time d, as SIGSTOP does. The NIC of the host works
// on, and knows that the process lives. A function that is running is stopped at its next wait.
// Kill ends a paused process at once.
func (f *Fabric) Pause(p *Process, d time.Duration) {
	f.counts.Pauses++
	p.paused = max(p.paused, f.s.now.Add(d))
}

// StopNIC removes a host's NIC. The peers of the NIC get no notice. Operations of the host's
// processes fail with [weft.ErrNICGone], but the functions of the processes continue to run.
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

// StartNIC starts a host's NIC again, and then starts the processes that wait for the NIC. The
// peers of the NIC see a restarted NIC.
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

// Reboot kills a host with its NIC and its processes. After the time d, the host starts again, and
// the main functions of its processes run from the beginning.
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

// Kill ends a process as kill -9 does: its functions stop where they wait, and the NIC detects that
// the process is gone. Deferred calls of the functions still run.
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
