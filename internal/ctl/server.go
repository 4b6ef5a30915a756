package ctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/memory/filemem"
)

// ErrSocketTaken is the error of Listen if another daemon listens there.
var ErrSocketTaken = errors.New("another daemon has the socket")

// Listener is the daemon's end of the socket.
type Listener struct {
	path string
	l    *net.UnixListener
	lock *os.File
	once sync.Once
}

// Listen makes the socket at path. A lock next to it (path + ".lock") distinguishes a living
// daemon from a stale socket. Listen removes a stale socket, and returns an error that names the
// living daemon. mode is the socket's; connecting needs permission to write. Listen refuses a
// directory in which strangers could put another socket (ErrNotTrusted).
func Listen(path string, mode os.FileMode) (*Listener, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("a NIC daemon needs Linux, this is " + runtime.GOOS +
			"; open the NIC inside the process instead (weft.Open)")
	}
	if err := makeDirectory(path); err != nil {
		return nil, err
	}
	lock, err := LockFile(path + ".lock")
	switch {
	case errors.Is(err, ErrLocked):
		return nil, fmt.Errorf("%w %s: %w", ErrSocketTaken, path, err)
	case err != nil:
		return nil, fmt.Errorf("lock of the socket: %w", err)
	}
	l, err := listen(path, mode, os.Getuid())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), lock.Close())
	}
	return &Listener{path: path, l: l, lock: lock}, nil
}

// ListenFor makes a further socket of a daemon, to which only root and the user uid can connect.
// It has no own lock: its path must be below that of a socket of the caller's.
func ListenFor(path string, uid int) (*Listener, error) {
	l, err := listen(path, 0o600, uid)
	if err != nil {
		return nil, fmt.Errorf("listen for user %d: %w", uid, err)
	}
	return &Listener{path: path, l: l}, nil
}

// listen replaces a socket that an earlier daemon left at path. The caller holds the lock. No
// process can connect before the mode and the owner are set: listen makes the socket under
// another name, and then moves it to its place.
func listen(path string, mode os.FileMode, uid int) (*net.UnixListener, error) {
	making := path + ".new"
	if err := RemoveSocket(making); err != nil {
		return nil, err
	}
	if err := RemoveSocket(path); err != nil {
		return nil, err
	}
	name, done, err := Reach(making)
	if err != nil {
		return nil, err
	}
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: name, Net: network})
	if err := errors.Join(err, done()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(making, mode); err == nil && uid != os.Getuid() {
		err = os.Lchown(making, uid, -1)
	}
	if err == nil {
		err = os.Rename(making, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// RemoveSocket removes the socket at path. It returns an error if path is anything but a socket,
// and nil if there is nothing.
func RemoveSocket(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s is there and is not a socket", path)
	}
	return os.Remove(path)
}

// Allow sets the mode of the socket: connecting needs permission to write.
func (l *Listener) Allow(mode os.FileMode) error { return os.Chmod(l.path, mode) }

// Close stops listening, removes the socket, and releases the lock. A second Close does nothing.
func (l *Listener) Close() (err error) {
	l.once.Do(func() {
		err = errors.Join(RemoveSocket(l.path), l.l.Close())
		if l.lock != nil {
			err = errors.Join(err, l.lock.Close())
		}
	})
	return err
}

// Accept waits for the next client. After Close it ends with net.ErrClosed.
func (l *Listener) Accept() (*Client, error) {
	c, err := l.l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	p, err := peer(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &Client{Peer: p, c: c, p: newPackets(c, MaxRequest, 0), patience: replyWithin,
		askPatience: turnAwayWithin}, nil
}

// Client is the daemon's end of one connection.
type Client struct {
	Peer Peer

	c     *net.UnixConn
	mu    sync.Mutex // held during one reply
	p     *packets
	given []int // received descriptors

	patience, askPatience time.Duration // replyWithin, turnAwayWithin
}

// replyWithin is how long a client may leave its replies unread.
const replyWithin = 5 * time.Second

// turnAwayWithin is how long an unwanted client may take to send its request.
const turnAwayWithin = time.Second

// Receive waits for the next request. It answers a malformed request itself; its error then means
// that the caller must close the connection. io.EOF means that the client is gone.
func (c *Client) Receive() (*Request, error) {
	b, fds, err := c.p.receive()
	c.given = append(c.given, fds...)
	if errors.Is(err, ErrBadRequest) { // too long, or with descriptors that the client may not send
		return nil, errors.Join(err, c.Refuse(err))
	}
	if err != nil {
		return nil, err
	}
	r, err := DecodeRequest(b)
	if err == nil {
		err = c.give(r, fds)
	}
	if err != nil {
		return nil, errors.Join(err, c.Refuse(err))
	}
	return r, nil
}

// TakeMemory lets the client, which has become a process, send its own memory. Before that, the
// kernel discards each descriptor that comes. From now on, requests of the client have at most
// 4,096 bytes.
func (c *Client) TakeMemory() {
	c.p.expect(1)
	c.p.shorten(maxProcessRequest)
}

// give assigns a request its descriptor, which must be of lasting memory. A descriptor of another
// kind ends the connection: closing it may take as long as the program that serves its file
// system likes. An honest client has checked it before.
func (c *Client) give(r *Request, fds []int) error {
	switch {
	case r.Op != OpRegister && len(fds) > 0:
		return fmt.Errorf("%w: %q with a descriptor", ErrBadRequest, r.Op)
	case r.Op != OpRegister:
		return nil
	case len(fds) != 1:
		return fmt.Errorf("%w: %q with %d descriptors; expected 1", ErrBadRequest, r.Op, len(fds))
	}
	if err := filemem.Lasting(fds[0]); err != nil {
		return fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	r.Given.FD = fds[0]
	return nil
}

// Reply sends the answer, with descriptors that stay the caller's.
func (c *Client) Reply(r *Reply, fds ...int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.c.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
		return err
	}
	return c.p.send(r, fds...)
}

// Refuse answers with an error. The client's error wraps the same sentinel of this package, if
// err wraps one.
func (c *Client) Refuse(err error) error { return c.Reply(ErrorReply(err)) }

// TurnAway answers the first request with an error and closes the connection, so that an unwanted
// client learns the reason. It waits for the request, since closing the connection with an unread
// request would lose the answer. It waits at most turnAwayWithin.
func (c *Client) TurnAway(err error) error {
	if e := c.c.SetReadDeadline(time.Now().Add(c.askPatience)); e != nil {
		return errors.Join(e, c.Close())
	}
	if _, _, e := c.p.receive(); e != nil {
		return c.Close()
	}
	return errors.Join(c.Refuse(err), c.Close())
}

// Close ends the connection.
func (c *Client) Close() error { return c.c.Close() }

// Holds reports whether there are received descriptors that LetGo has not closed.
func (c *Client) Holds() bool { return len(c.given) > 0 }

// LetGo closes the received descriptors, once their request is answered. After an error of
// Receive it may take as long as the sending process likes.
func (c *Client) LetGo() {
	closeAll(c.given)
	c.given = c.given[:0]
}

// Page returns the part of a list for the next reply, from index from on, and the index at which
// the part after it begins, or 0 at the end. The part has at most ListBytes bytes, but at least
// one entry.
func Page[T any](all []T, from int) (page []T, next int) {
	from = min(from, len(all))
	size := 0
	for i := from; i < len(all); i++ {
		b, err := json.Marshal(all[i])
		if err != nil {
			panic(fmt.Sprintf("an entry of a list that cannot be encoded: %v", err))
		}
		if size += len(b) + 1; size > ListBytes && i > from {
			return all[from:i], i
		}
	}
	return all[from:], 0
}
