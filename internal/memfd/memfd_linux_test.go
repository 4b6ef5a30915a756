package memfd_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/memfd"
	"github.com/weftnet/weft/internal/refusal/refusaltest"
)

func TestAFileInMemoryKeepsItsLengthWhenItIsSealed(t *testing.T) {
	f, err := memfd.Create("test")
	if err != nil || !f.Sealed || f.Why != nil {
		t.Fatalf("%+v, %v", f, err)
	}
	defer unix.Close(f.FD)
	if err := errors.Join(f.Grow(8192), f.Seal(unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(f.FD, 4096); !errors.Is(err, unix.EPERM) {
		t.Errorf("the sealed file was made shorter: %v", err)
	}
}

// If a filter forbids memfd_create, the file lies on a tmpfs. It has no name, and only its owner
// may open it.
func TestWithoutTheCallAFileLiesOnATmpfsWithoutAName(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS} {
		said := refusaltest.Run(t, errno.Error(), refusaltest.Forbid(errno, unix.SYS_MEMFD_CREATE), func() string {
			f, err := memfd.Create("test")
			if err != nil {
				return err.Error()
			}
			var st unix.Stat_t
			if err := errors.Join(f.Grow(8192), f.Seal(unix.F_SEAL_SHRINK), unix.Fstat(f.FD, &st)); err != nil {
				return err.Error()
			}
			link := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.FD), unix.AT_FDCWD, fmt.Sprintf("/dev/shm/weft-test-%d", os.Getpid()), unix.AT_SYMLINK_FOLLOW)
			read, err := f.ReadOnly()
			if err != nil {
				return err.Error()
			}
			_, write := unix.Write(read, []byte{1})
			return fmt.Sprintf("sealed %v, links %d, mode %o, size %d, a name: %v, written: %v, why: %v", f.Sealed, st.Nlink, st.Mode&0o777, st.Size,
				link == nil, write == nil, f.Why)
		})
		want := "sealed false, links 0, mode 600, size 8192, a name: false, written: false, why: memfd_create: " + errno.Error()
		if !strings.HasPrefix(said, want) || !strings.Contains(said, "seccomp") {
			t.Errorf("%q; expected %q", said, want)
		}
	}
}

func TestWithoutTheCallAndATmpfsTheErrorNamesBoth(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/proc")
	said := refusaltest.Run(t, "neither", refusaltest.Forbid(unix.EPERM, unix.SYS_MEMFD_CREATE, unix.SYS_OPENAT), func() string {
		_, err := memfd.Create("test")
		return fmt.Sprint(err)
	})
	for _, part := range []string{"memfd_create: operation not permitted", "allow memfd_create", "a file in /dev/shm in its place: operation not permitted", "a file in /proc in its place: it is no tmpfs"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q; expected %q in it", said, part)
		}
	}
}
