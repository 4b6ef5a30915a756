package proxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weftnet/weft/internal/ctl"
)

// Proxies are found by their sockets in a separate directory. The names of the sockets contain
// the process ids:
//
//	proxies/4711.sock     a proxy
//	proxies/4711-2.sock   another whose process has the same id in its container
//
// A proxy that is killed leaves its socket behind. No process answers there, so the next proxy
// removes the socket, and so does a search for proxies.

// place is the name of this directory.
const place = "proxies"

// sameID is the maximum number of proxies with the same process id in one directory.
const sameID = 16

// TellHere is Tell at a socket where Find finds the proxy.
func (p *Proxy) TellHere() (stop func(), err error) {
	dir, err := ctl.MakePlace(place)
	if err != nil {
		return nil, fmt.Errorf("proxy: no place for its socket: %w", err)
	}
	for i := 1; ; i++ {
		name := strconv.Itoa(os.Getpid())
		if i > 1 {
			name = fmt.Sprintf("%s-%d", name, i)
		}
		stop, err := p.Tell(filepath.Join(dir, name+".sock"))
		if !errors.Is(err, syscall.EADDRINUSE) || i == sameID {
			return stop, err
		}
	}
}

// Found is a proxy of this user, or the socket of a killed proxy.
type Found struct {
	Socket  string `json:"socket"`
	Running bool   `json:"running"`
	Status         // of a running proxy
	Why     string `json:"why,omitempty"` // the reason why a running proxy sends no status
}

// Dead reports whether the proxy has ended without removing its socket. The socket is removed by
// now.
func (f *Found) Dead() bool { return !f.Running }

// answerWithin is the time within which a proxy must send its Status.
const answerWithin = 2 * time.Second

// Find asks all proxies of this user for their Status. It removes the sockets of killed proxies.
// The error concerns directories in which other users could have put sockets; Find still returns
// the proxies from other directories.
func Find(ctx context.Context) (all []Found, err error) {
	sockets, err := ctl.Left(place)
	for _, path := range sockets {
		f := Found{Socket: path, Running: true}
		asking, cancel := context.WithTimeout(ctx, answerWithin)
		s, failed := Ask(asking, path)
		cancel()
		switch {
		case failed == nil:
			f.Status = s
		case errors.Is(failed, os.ErrNotExist): // the proxy has just ended
			continue
		case errors.Is(failed, syscall.ECONNREFUSED):
			f.Running, f.PID = false, pidOf(path)
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				f.Why = err.Error()
			}
		default:
			f.PID, f.Why = pidOf(path), failed.Error()
		}
		all = append(all, f)
	}
	return all, err
}

// pidOf returns the process id in the name of a socket, or 0 for another name.
func pidOf(path string) int {
	name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".sock"), "-")
	pid, _ := strconv.Atoi(name)
	return pid
}
