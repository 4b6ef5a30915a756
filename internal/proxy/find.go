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

// Proxies are found by their sockets in a place of their own, named by their process ids:
//
//	proxies/4711.sock     a proxy
//	proxies/4711-2.sock   another whose process has the same id in its container
//
// One that was killed leaves its socket behind. Nothing answers there, so the next proxy, or the next that looks for them, removes it.

// place is what the place is called.
const place = "proxies"

// sameID is how many proxies whose processes have the same id a place has at most.
const sameID = 16

// TellHere is Tell at a socket by which Find finds the proxy.
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

// Found is a proxy of this user, or what one has left.
type Found struct {
	Socket  string `json:"socket"`
	Running bool   `json:"running"`
	Status         // of one that runs
	Why     string `json:"why,omitempty"` // one tells nothing that nevertheless runs
}

// Dead reports whether the proxy has ended without removing its socket, which is gone now.
func (f *Found) Dead() bool { return !f.Running }

// answerWithin is how long a proxy has to tell its Status.
const answerWithin = 2 * time.Second

// Find asks all proxies of this user for their Status. It removes the sockets of those that were killed. The error is of places where
// others than this user could have put sockets; what is elsewhere is found nevertheless.
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
		case errors.Is(failed, os.ErrNotExist): // it has just ended
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

// pidOf is the process id in the name of a socket; 0 of another name.
func pidOf(path string) int {
	name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".sock"), "-")
	pid, _ := strconv.Atoi(name)
	return pid
}
