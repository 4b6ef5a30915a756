package daemon_test

import (
	"errors"
	"github.com/weftnet/weft/internal/fabric"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// outsiderUID is a user other than root, as which a test can run its binary.
const outsiderUID = 65534

// dirForAll returns a directory that any user may enter; t.TempDir is not one. It skips the test
// if the test cannot become another user.
func dirForAll(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir, err := os.MkdirTemp("", "weft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// outsider returns the command that runs the test's binary as another user.
func outsider() *exec.Cmd {
	x := exec.Command("/proc/self/exe")
	x.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: outsiderUID, Gid: outsiderUID}}
	// the fabric key of the tests is this user's
	x.Env = append(os.Environ(), fabric.FileVariable+"=", "HOME=/nonexistent")
	return x
}

// outsiderRuns runs a role as another user until the test ends. It waits until the role is ready.
func outsiderRuns(t *testing.T, role, arg string) {
	t.Helper()
	x := outsider()
	begin(t, x, func() error {
		err := x.Start()
		if errors.Is(err, os.ErrPermission) {
			t.Skip("another user cannot run the test's binary")
		}
		return err
	}, role, arg)
}

// outsiderSays runs a role as another user, and returns its output.
func outsiderSays(t *testing.T, role string) string {
	t.Helper()
	x := outsider()
	x.Env = append(x.Env, roleVariable+"="+role)
	out, err := x.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skip("another user cannot run the test's binary")
	}
	return string(out)
}
