package launch_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/launch/launchtest"
)

// deaf is the program of ranks that only KILL ends.
func deaf(r *launchtest.Rank) launch.Exit {
	r.IgnoresTerm = true
	r.Sleep(time.Hour)
	return launch.Exit{}
}

// A daemon that dies is silent to other hosts. The notices end the job without a wait for that
// silence: within the grace and one second, even if most of them are lost.
func TestTheJobOfADeadDaemonEndsWithoutAWaitForSilence(t *testing.T) {
	for _, c := range []struct {
		name  string
		host  int
		loses bool
		cause string
	}{
		{"a daemon", 2, false, "host h2: its NIC daemon is gone"},
		{"a daemon, and datagrams are lost", 2, true, "host h2: its NIC daemon is gone"},
		{"the launcher's daemon", 0, false, "the NIC of weft run ended"},
		{"the launcher's daemon, and datagrams are lost", 0, true, "the NIC of weft run ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newJob(4, 1, deaf)
			net := j.Beside(&j.options)
			if c.loses {
				net.Lose = func(_, _ netip.AddrPort, b []byte) bool { return net.Sent%2 == 1 }
			}
			const at = time.Second
			var emptied time.Duration
			j.F.After(at, func() { j.StopDaemon(c.host) })
			var look func()
			look = func() {
				if j.Alive() == 0 {
					emptied = j.F.Elapsed()
					return
				}
				j.F.After(10*time.Millisecond, look)
			}
			j.F.After(at, look)
			r := j.run(t)
			if !strings.HasPrefix(r.Cause, c.cause) || r.Strangers != 0 {
				t.Errorf("%+v", r)
			}
			const bound = at + launch.DefaultGrace + time.Second
			if emptied == 0 || emptied > bound || j.took > bound {
				t.Errorf("the last rank ended after %v, and the launcher after %v; expected at most %v", emptied, j.took, bound)
			}
		})
	}
}

// Foreign datagrams change nothing, and are counted. A hello that is repeated from another
// address does not replace the keeper's.
func TestForgedAndRepeatedNoticesChangeNothing(t *testing.T) {
	j := newJob(3, 1, sleeps(5*time.Second))
	net := j.Beside(&j.options)
	launcher := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 0}), j.options.Notices.Port)
	stranger := net.End(1)
	var hello []byte
	var keeper netip.AddrPort
	net.Lose = func(from, to netip.AddrPort, b []byte) bool {
		if to == launcher && hello == nil {
			hello, keeper = slices.Clone(b), from
		}
		return false
	}
	forged := 0
	j.F.After(2*time.Second, func() {
		net.Lose = nil
		_ = stranger.Send(launcher, hello)
		for _, to := range []netip.AddrPort{launcher, keeper} {
			for i := range hello {
				bad := slices.Clone(hello)
				bad[i] ^= 0x10
				_ = stranger.Send(to, bad)
				_ = stranger.Send(to, hello[:i])
				forged += 2
			}
		}
	})
	if r := j.run(t); r.Status != 0 || r.Strangers != forged || forged == 0 {
		t.Errorf("%+v; expected %d datagrams of strangers", r, forged)
	}
}
