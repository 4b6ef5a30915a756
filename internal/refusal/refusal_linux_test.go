package refusal_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/refusal"
	"github.com/weftnet/weft/internal/refusal/refusaltest"
)

// names checks that an error names the limit, the call and the cure.
func names(t *testing.T, what, said string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(said, part) {
			t.Errorf("%s: %q; expected %q in it", what, said, part)
		}
	}
}

func TestALimitOfFileSizesIsNamed(t *testing.T) {
	said := refusaltest.Run(t, "fsize", refusaltest.Limit(unix.RLIMIT_FSIZE, 1<<20), func() string {
		f, err := os.CreateTemp("", "")
		if err != nil {
			return err.Error()
		}
		defer os.Remove(f.Name())
		return refusal.Of("ftruncate", 2<<20, unix.Ftruncate(int(f.Fd()), 2<<20)).Error()
	})
	names(t, "prlimit --fsize", said, "ftruncate: file too large", "2097152 bytes are wanted", "RLIMIT_FSIZE) is 1048576", "prlimit --fsize")
}

func TestALimitOfTheAddressSpaceIsNamed(t *testing.T) {
	said := refusaltest.Run(t, "as", refusaltest.LeaveAddressSpace(256<<20), func() string {
		_, err := unix.Mmap(-1, 0, 1<<30, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		return refusal.Of("mmap", 1<<30, err).Error()
	})
	names(t, "prlimit --as", said, "mmap: cannot allocate memory", "1073741824 bytes are wanted", "RLIMIT_AS", "prlimit --as")
}

func TestACallThatAFilterForbidsIsNamed(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS} {
		said := refusaltest.Run(t, errno.Error(), refusaltest.Forbid(errno, unix.SYS_MEMFD_CREATE), func() string {
			_, err := unix.MemfdCreate("test", 0)
			return refusal.Of("memfd_create", 0, err).Error()
		})
		names(t, "seccomp", said, "memfd_create: "+errno.Error(), "a seccomp filter", "allow memfd_create")
	}
}

func TestARefusalKeepsTheErrorOfTheCall(t *testing.T) {
	for _, err := range []error{unix.EPERM, unix.EFBIG, unix.ENOMEM, unix.EMFILE, unix.ENOSPC, unix.EIO} {
		if got := refusal.Of("mmap", 1, err); !errors.Is(got, err) || !strings.HasPrefix(got.Error(), "mmap: "+err.Error()) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	if err := refusal.Of("mmap", 1, nil); err != nil {
		t.Errorf("no error becomes %v", err)
	}
}

func TestMemoryThatTheHostHasNotIsRefused(t *testing.T) {
	var e *refusal.MemoryError
	if err := refusal.Memory(1 << 60); !errors.As(err, &e) || e.WantBytes != 1<<60 || e.LeftBytes <= 0 || e.Cure == "" {
		t.Errorf("an exabyte: %v", err)
	}
	if err := refusal.Memory(4096); err != nil {
		t.Errorf("a page: %v", err)
	}
}

func TestMemoryThatACgroupHasNotIsRefusedWithTheFigure(t *testing.T) {
	said := refusaltest.RunLimited(t, "cgroup", 100<<20, func() string {
		var e *refusal.MemoryError
		err := refusal.Memory(256 << 20)
		if !errors.As(err, &e) || e.LeftBytes >= 100<<20 {
			return fmt.Sprintf("256 MiB: %v", err)
		}
		if limit, _, ok := refusal.Limit(); !ok || limit != 100<<20 {
			return fmt.Sprintf("the limit is %d, %v", limit, ok)
		}
		return errors.Join(err, refusal.Memory(10<<20)).Error()
	})
	names(t, "256 MiB of 100", said, "268435456 bytes of memory; the cgroup limit 100 MiB (/", "available; raise the limit of the container")
}

// The same memory must not be promised twice.
func TestMemoryThatIsCommittedIsNotPromisedAgain(t *testing.T) {
	said := refusaltest.RunLimited(t, "twice", 100<<20, func() string {
		mem, err := unix.Mmap(-1, 0, 50<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err = errors.Join(err, refusal.Memory(50<<20), refusal.Commit(mem)); err != nil {
			return err.Error()
		}
		if err := refusal.Memory(50 << 20); err == nil {
			return "promised again"
		}
		return "refused"
	})
	if said != "refused" {
		t.Error(said)
	}
}
