package launch

import "net/netip"

// hearNotices receives the notices of the keepers.
func (l *launcher) hearNotices() {
	n := l.o.Notices
	buf := make([]byte, noticeBytes+1)
	for {
		got, from, err := n.Datagrams.Receive(l.ctx, buf)
		if err != nil {
			return
		}
		m, ok := openNotice(buf[:got], l.o.Job, n.Key)
		if !ok || !l.attempt().noticed(m, from) {
			l.addStrangers(1)
		}
	}
}

// noticed handles the notice of a keeper. It returns false if no keeper of the job sends such a
// notice. Notices to an earlier attempt are late, and change nothing.
func (a *attempt) noticed(m notice, from netip.AddrPort) bool {
	if m.host >= len(a.hosts) || m.restart > a.number {
		return false
	}
	h := a.hosts[m.host]
	switch m.kind {
	case noticeHello:
		if m.restart == a.number {
			a.lock()
			if !h.hears.IsValid() { // the first counts: a replay comes later
				h.hears = from
			}
			a.unlock()
		}
	case noticeDaemonGone:
		if m.restart == a.number {
			a.lose(h, "its NIC daemon is gone", a.now())
		}
	case noticeLauncherGone | noticeAck:
		if m.restart == a.number {
			a.lock()
			h.knows = true
			a.unlock()
		}
		return true
	default:
		return false
	}
	a.notify(h, from, notice{m.kind | noticeAck, m.host, m.restart})
	return true
}

func (a *attempt) notify(h *host, to netip.AddrPort, n notice) {
	_ = a.o.Notices.Datagrams.Send(to, n.seal(a.o.Job, a.o.Notices.Key))
}

// partFromKeepers tells the keepers that the launcher ends because its own NIC has ended.
// Otherwise they notice only the silence of that NIC.
func (a *attempt) partFromKeepers() {
	if a.o.Notices == nil {
		return
	}
	pause := noticePause
	for range noticeTries {
		var left []*host
		a.mu.Lock()
		for _, h := range a.hosts {
			if h.hears.IsValid() && !h.knows && !h.done() {
				left = append(left, h)
			}
		}
		a.mu.Unlock()
		if len(left) == 0 {
			return
		}
		for _, h := range left {
			a.notify(h, h.hears, notice{noticeLauncherGone, h.index, a.number})
		}
		_ = a.rt.Sleep(a.ctx, pause)
		pause *= 2
	}
}
