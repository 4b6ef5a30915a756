package launch

import (
	"errors"
	"net/netip"
)

// notices is the keeper's side of the datagrams without the NICs.
type notices struct {
	NoticePort
	d        Datagrams
	greeted  bool // the launcher knows the address of this keeper
	told     bool // the launcher knows that the daemon is gone
	telling  bool
	refusals int // datagrams that no launcher of the job sent
}

var errLauncherCut = errors.New("the launcher's NIC daemon is gone")

// openNotices opens the path without the NICs, if the launcher offers one and this host has one.
func (k *keeper) openNotices() {
	at := k.start.Notices
	if at == nil || k.o.Notices == nil {
		return
	}
	d, err := k.o.Notices(at.Port)
	if err != nil || d == nil {
		return
	}
	k.change(func() { k.notices = &notices{NoticePort: *at, d: d} })
	k.rt.Go(k.hearNotices)
	k.rt.Go(func() { k.notify(noticeHello, func() bool { return k.notices.greeted }) })
}

// closeNotices closes that path, once the launcher knows all it needs.
func (k *keeper) closeNotices() {
	k.until(func() bool { return k.notices == nil || !k.notices.telling })
	if k.notices == nil {
		return
	}
	_ = k.notices.d.Close()
}

// hearNotices receives the notices of the launcher.
func (k *keeper) hearNotices() {
	buf := make([]byte, noticeBytes+1)
	for {
		n, _, err := k.notices.d.Receive(k.ctx, buf)
		if err != nil {
			return
		}
		m, ok := openNotice(buf[:n], k.reserved.Job, k.notices.Key)
		if !ok || m.host != k.reserved.Host || m.restart != k.reserved.Restart || !k.noticed(m.kind) {
			k.change(func() { k.notices.refusals++ })
		}
	}
}

// noticed handles a notice of the launcher. It returns false if no launcher sends such a notice.
func (k *keeper) noticed(kind noticeKind) bool {
	switch kind {
	case noticeHello | noticeAck:
		k.change(func() { k.notices.greeted = true })
	case noticeDaemonGone | noticeAck:
		k.change(func() { k.notices.told = true })
	case noticeLauncherGone:
		k.sendNotice(noticeLauncherGone | noticeAck)
		k.mute()
		k.change(func() { k.gone = errLauncherCut })
		k.end(errLauncherCut, k.patience())
	default:
		return false
	}
	return true
}

// tellDaemonGone tells the launcher that no more messages come through the NIC. report waits for
// it.
func (k *keeper) tellDaemonGone() {
	k.mu.Lock()
	open := k.notices != nil
	if open {
		k.notices.telling = true
	}
	k.mu.Unlock()
	if !open {
		return
	}
	k.rt.Go(func() {
		k.notify(noticeDaemonGone, func() bool { return k.notices.told })
		k.change(func() { k.notices.telling = false })
	})
}

// notify sends a notice until the launcher has it, at most noticeTries times.
func (k *keeper) notify(kind noticeKind, has func() bool) {
	pause := noticePause
	for range noticeTries {
		k.mu.Lock()
		enough := has()
		k.mu.Unlock()
		if enough {
			return
		}
		k.sendNotice(kind)
		if k.rt.Sleep(k.ctx, pause) != nil {
			return
		}
		pause *= 2
	}
}

func (k *keeper) sendNotice(kind noticeKind) {
	n := notice{kind, k.reserved.Host, k.reserved.Restart}
	_ = k.notices.d.Send(netip.AddrPort{}, n.seal(k.reserved.Job, k.notices.Key))
}
