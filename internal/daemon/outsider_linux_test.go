package daemon_test

import (
	"errors"
	"github.com/weftnet/weft/internal/fabric"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// outsiderUID is another user than root, as which a test can have a process of its binary run.
const outsiderUID = 65534

// dirForAll is a directory into which any user may go, as into the test's own they may not. It skips where the test cannot become another user.
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

// outsider is the test's binary, to be run by another user.
func outsider() *exec.Cmd {
	x := exec.Command("/proc/self/exe")
	x.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: outsiderUID, Gid: outsiderUID}}
	x.Env = append(os.Environ(), fabric.FileVariable+"=", "HOME=/nonexistent") // the fabric key of the tests is this user's
	return x
}

// outsiderRuns has another user run a process in a role until the test ends, and waits until it is ready.
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

// outsiderSays is what a process in a role prints that another user runs.
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
