package daemon

import (
	"os"
	"path/filepath"

	"github.com/weftnet/weft/internal/ctl"
)

// The daemon's socket may be closed to the user of a job: without allow_uids only the daemon's
// user and root can connect. The job then has its own socket next to the daemon's. It belongs to
// the user, has mode 0600, and exists as long as the job:
//
//	/run/weft/nic.sock                root, 0600
//	/run/weft/nic.sock.job-1a2b3c4d   the job's user, 0600
const jobSocketInfix = ".job-"

// openSocket returns the path by which processes of a job reach this link of the daemon. It makes
// the job's socket if need be.
func (j *jobs) openSocket(b *job) (path string, err error) {
	d := j.d
	path, link := d.Socket(), ""
	if d != d.links[0] {
		link = "#" + d.settings.linkName()
	}
	if d.live.Load().mode&0o006 != 0 || b.account.uid == 0 || b.account.uid == os.Getuid() {
		return path + link, nil
	}
	path += "." + b.ID
	if b.socket, err = ctl.ListenFor(path, b.account.uid); err != nil {
		return "", err
	}
	d.served.Add(1)
	go func() {
		defer d.served.Done()
		d.acceptFrom(b.socket)
	}()
	return path + link, nil
}

// removeJobSockets removes the sockets of jobs that an earlier daemon has left. The caller holds
// the lock of the daemon's own socket.
func (d *Daemon) removeJobSockets() {
	// An error concerns the pattern only.
	left, _ := filepath.Glob(escapeGlob(d.Socket()) + jobSocketInfix + "*")
	for _, path := range left {
		if err := ctl.RemoveSocket(path); err != nil {
			d.log.Warn("socket of an earlier job", "error", err)
		}
	}
}

// escapeGlob returns a pattern that matches exactly the path.
func escapeGlob(path string) string {
	var b []byte
	for _, c := range []byte(path) {
		switch c {
		case '*', '?', '[', '\\':
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	return string(b)
}
