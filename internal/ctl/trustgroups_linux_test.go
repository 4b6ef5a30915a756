package ctl

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dialAs connects to a daemon from a thread that has supplementary groups of its own.
func dialAs(t *testing.T, path string, groups []uint32) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)),
			uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
		if errno != 0 {
			ended <- errno
			return
		}
		c, err := Dial(t.Context(), path)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		ended <- err
	}()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// A daemon admits clients by each of their groups (allow_gids), regardless of their number.
func TestADaemonKnowsAllGroupsOfAClient(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can choose its groups")
	}
	path := filepath.Join(t.TempDir(), "nic.sock")
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, n := range []int{0, 1, 64, 65, 300} {
		groups, want := make([]uint32, n), []int{os.Getgid()}
		for i := range groups {
			groups[i] = 70000 + uint32(i)
			want = append(want, 70000+i)
		}
		dialAs(t, path, groups)
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(c.Peer.GIDs, want) {
			t.Errorf("a client with %d groups has %v; expected %v", n, c.Peer.GIDs, want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The user of a directory could put another socket, or another state, in the place of the
// daemon's.
func TestADirectoryOfAStrangerIsRefused(t *testing.T) {
	tmp := ownTmp(t)
	theirs := directory(t, filepath.Join(tmp, "theirs"), stranger, 0o755)
	if err := CheckState(theirs); !errors.Is(err, ErrNotTrusted) {
		t.Errorf("as the state's: %v; expected %v", err, ErrNotTrusted)
	}
	if l, err := Listen(filepath.Join(theirs, "nic.sock"), 0o600); !errors.Is(err, ErrNotTrusted) {
		t.Errorf("as the socket's: %v, %v; expected %v", l, err, ErrNotTrusted)
	}
}

// A path may be relative. The check still covers each directory above it.
func TestARelativePathBelongsToThoseWhoWriteItsDirectories(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "below"), 0o700), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "below"))
	if err := belongs("nic.sock", os.Getuid()); err == nil {
		t.Errorf("all may write to %s; expected an error", dir)
	}
}
