package shm

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

const otherUser = 65534

// asOther runs f as another user, in a thread that ends with f.
func asOther(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread has lost its rights
		const same = ^uintptr(0)
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, otherUser, same); e != 0 {
			t.Errorf("become user %d: %v", otherUser, e)
			return
		}
		f()
	}()
	<-done
}

// sink counts frames.
type sink struct{ frames int }

func (s *sink) Receive(clock.Time, link.Addr, []byte) { s.frames++ }
func (s *sink) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(s, now, from, frames, size)
}

// send puts a frame into the ring to an address, and reports whether there is one.
func send(d *Driver, now clock.Time, to link.Addr) (ok bool) {
	if b := d.Reserve(to); b != nil {
		d.Commit(copy(b, "hello"))
		ok = true
	}
	d.Flush(now)
	return ok
}

// From a review: a NIC of root accepted every user as its own. A working NIC of another user
// makes no ring to it.
func TestANICOfAnotherUserMakesNoRingToOneOfRoot(t *testing.T) {
	root := listen(t, Config{Name: unique("root")})
	asOther(t, func() {
		user, err := Listen(Config{Name: unique("user")})
		if err != nil {
			t.Error(err)
			return
		}
		defer user.Close()
		send(user, 1, root.Addr())
		if o := user.out[root.Addr()]; o == nil || !o.dead {
			t.Error("a user has a ring to a NIC of root")
		}
	})
}

// A hostile user does not check the owner of the other end. Its ring is refused, and counted.
func TestANICOfRootTakesNoRingOfAnotherUser(t *testing.T) {
	root := listen(t, Config{Name: unique("root")})
	fd := -1
	asOther(t, func() {
		var err error
		if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err == nil {
			err = unix.Connect(fd, socketName(root.Addr()))
		}
		if err != nil {
			t.Error(err)
		}
	})
	defer unix.Close(fd)
	var s sink
	now := clock.Time(1)
	for end := time.Now().Add(time.Minute); root.counters.DroppedIn == 0 && len(root.hellos) == 0 && time.Now().Before(end); {
		now = now.Add(20 * time.Millisecond)
		root.Poll(now, &s)
	}
	if root.counters.DroppedIn != 1 || len(root.hellos)+len(root.in) != 0 {
		t.Errorf("%d connections are counted as refused; %d are in", root.counters.DroppedIn, len(root.hellos)+len(root.in))
	}
}

// A NIC of root that connects to another user's by mistake passes it no ring.
func TestANICOfRootHandsNoRingToAnotherUser(t *testing.T) {
	root := listen(t, Config{Name: unique("root")})
	var user *Driver
	asOther(t, func() {
		var err error
		if user, err = Listen(Config{Name: unique("user")}); err != nil {
			t.Error(err)
		}
	})
	if user == nil {
		return
	}
	defer user.Close()
	send(root, 1, user.Addr())
	if o := root.out[user.Addr()]; o == nil || !o.dead {
		t.Error("root has handed a ring to another user")
	}
}
