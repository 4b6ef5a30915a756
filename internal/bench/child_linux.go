package bench

import (
	"os/exec"
	"syscall"
)

// bind makes the kernel end the program when the thread that started it ends. It also keeps
// signals of the terminal from the program, which ends when its parent tells it to.
func bind(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
