package bench

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel end the program when the thread that started it ends.
func endWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
