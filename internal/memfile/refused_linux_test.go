package memfile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/refusal/refusaltest"
)

// mountAt returns a function that mounts a filesystem and returns the outcome as text.
func mountAt(dir string) func() string {
	return func() string {
		m, err := New(dir, Config{Device: &memory{b: make([]byte, 1<<20)}})
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("mounted; unmounted: %v", m.Close())
	}
}

func TestAMountThatIsNotPermittedNamesWhatItNeeds(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"/bin/fusermount", "/bin/fusermount3"} {
		if path, err := exec.LookPath(name); err == nil {
			t.Skipf("%s would mount", path)
		}
	}
	if !refusaltest.Inside() {
		dir := t.TempDir()
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // another user looks at it
			t.Fatal(err)
		}
		t.Setenv("WEFT_TEST_DIR", dir)
	}
	dir := os.Getenv("WEFT_TEST_DIR")
	for name, refuse := range map[string]func() error{
		"without CAP_SYS_ADMIN": refusaltest.Forbid(unix.EPERM, unix.SYS_MOUNT),
		"without fusermount": func() error {
			os.Setenv("PATH", "/nowhere")
			if os.Getuid() != 0 {
				return nil
			}
			return syscall.Setuid(65534)
		},
	} {
		said := refusaltest.Run(t, name, refuse, mountAt(dir))
		for _, part := range []string{"memfile: mount " + dir + ": mount: operation not permitted", "CAP_SYS_ADMIN", "install fusermount3"} {
			if !strings.Contains(said, part) {
				t.Errorf("%s: %q; expected %q in it", name, said, part)
			}
		}
	}
}
