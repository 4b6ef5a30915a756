package bench

import (
	"os/exec"
	"syscall"
)

// bind has the kernel end the program when the thread that started it ends, and keeps signals of the terminal from it:
// it ends when its parent says so.
func bind(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
