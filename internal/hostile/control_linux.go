package hostile

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// control attacks the daemon's socket. It holds connections as long as possible: the daemon must
// ensure that other processes still get connections.
func control(ctx context.Context, socket string, rng *rand.Rand, t *Tally) {
	var held []int
	defer func() { closeAll(held) }()
	for ctx.Err() == nil {
		fd, err := dial(socket)
		if err != nil {
			t.Refused++
			if len(held) > 0 {
				closeAll(held[:1])
				held = held[1:]
			}
			time.Sleep(200 * time.Microsecond)
			continue
		}
		t.Attached++
		c := caller{fd: fd, rng: rng, t: t}
		if c.act(rng.IntN(8)) {
			held = append(held, fd)
		} else {
			_ = unix.Close(fd)
		}
		if len(held) > 900 {
			closeAll(held)
			held = nil
		}
	}
}

// caller is one connection to the socket.
type caller struct {
	fd  int
	rng *rand.Rand
	t   *Tally
}

// act does one of eight things, and reports whether to hold the connection.
func (c *caller) act(n int) (hold bool) {
	switch n {
	case 0: // nothing
		return true
	case 1:
		b := make([]byte, c.rng.IntN(4096))
		for i := range b {
			b[i] = byte(c.rng.Uint32())
		}
		c.say(b)
	case 2: // half a request
		c.say([]byte(`{"version":1,"op":"attach","attach":{"name":"evi`))
	case 3:
		c.say([]byte(strings.Repeat("[", 60_000)))
	case 4:
		c.say(make([]byte, 200<<10))
	case 5: // as many questions as the socket accepts, without reading an answer
		ops := []string{"names", "processes", "nodes", "groups", "stat", "check"}
		ask := []byte(`{"version":1,"op":"` + ops[c.rng.IntN(len(ops))] + `"}`)
		for range 10_000 {
			if !c.say(ask) {
				break
			}
		}
		return true
	case 6:
		name, err := nextName("control")
		if err != nil {
			panic(err)
		}
		for range 10_000 {
			if request(c.fd, attachRequest(name)) != nil {
				break
			}
			c.t.Acts++
		}
		return c.rng.IntN(2) == 0
	default:
		c.descriptors()
	}
	return c.rng.IntN(2) == 0
}

// say sends a packet if the socket has room now.
func (c *caller) say(b []byte) bool {
	c.t.Acts++
	return unix.Sendmsg(c.fd, b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) == nil
}

// descriptors sends as many file descriptors as fit.
func (c *caller) descriptors() {
	null, err := os.Open("/dev/null")
	if err != nil {
		return
	}
	defer null.Close()
	fds := make([]int, 1+c.rng.IntN(250))
	for i := range fds {
		fds[i] = int(null.Fd())
	}
	for range 20 {
		if unix.Sendmsg(c.fd, []byte(`{"version":1,"op":"nodes"}`), unix.UnixRights(fds...), nil,
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) != nil {
			return
		}
		c.t.Acts++
	}
}
