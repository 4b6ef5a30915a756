package stream_test

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

func (w *writer) closeWrite(side int) {
	if w.shut[side] {
		return
	}
	races := w.reset[side] || w.told[side] || w.ended[side] && (w.ended[1-side] || w.shut[1-side])
	w.ended[side] = true
	w.add("CloseWrite", side, func(r *player) string {
		err := r.c[side].(interface{ CloseWrite() error }).CloseWrite()
		if races {
			return "any"
		}
		return shape(r.c[side], err)
	})
}

// takeAll reads all bytes that wait.
func (w *writer) takeAll(side int) {
	if n := w.waits[side]; n > 0 {
		w.waits[side] = 0
		w.add(fmt.Sprintf("reads %d", n), side, func(r *player) string { return r.readFull(side, n, 1<<20) })
	}
}

// close closes an end that has read everything.
func (w *writer) close(side int) {
	w.takeAll(side)
	w.shut[side] = true
	w.add("Close", side, func(r *player) string { return shape(r.c[side], r.c[side].Close()) })
}

// closeUnread closes an end that certainly has an unread byte.
func (w *writer) closeUnread(side int) {
	peer := 1 - side
	if !w.flows(peer) {
		return
	}
	w.takeAll(side)
	w.shut[side] = true
	w.resets(peer)
	w.addBoth("Close with a byte unread", side, func(r *player) (out string) {
		r.on(peer, func() { _, _ = r.write(peer, 2) })
		r.on(side, func() { out = r.readFull(side, 1, 1) + ", " + shape(r.c[side], r.c[side].Close()) })
		return out
	})
}

// resets makes the peer reset an end. Bytes that wait to be read there arrive only if they have
// left the peer.
func (w *writer) resets(side int) {
	w.reset[side] = true
	if w.waits[side] > 0 {
		w.lossy[side], w.waits[side] = true, 0
	}
}

func (w *writer) abort(side int) {
	w.shut[side] = true
	w.resets(1 - side)
	w.add("abort", side, func(r *player) string { abort(r.c[side]); return "" })
}

// ending starts a call that waits. The end of one side ends the call.
func (w *writer) ending(side int) {
	peer := 1 - side
	d := w.brief()
	if w.rng.IntN(2) == 0 {
		w.endsRead(side, d)
		return
	}
	if !w.flows(side) {
		return
	}
	w.waits[peer] = 0
	write := func(name string, end func(r *player), judge func(r *player, err error) string) {
		w.addBoth("Write waits, and "+name, side, func(r *player) string {
			var err error
			wait := r.start(side, func() { _, err = r.write(side, much) })
			r.sleep(0, d)
			end(r)
			wait()
			return judge(r, err)
		})
	}
	all := func(r *player, err error) string {
		n, want, end := 0, r.wrote[side]-r.read[peer], error(nil)
		r.on(peer, func() { n, end = r.readOut(peer, 1<<20) })
		return fmt.Sprintf("%s; all came: %v, %s", shape(r.c[side], err), n == want, shape(r.c[peer], end))
	}
	switch w.rng.IntN(4) {
	case 0:
		w.takeAll(side)
		w.shut[side] = true
		write("the end is closed", func(r *player) { r.on(side, func() { r.c[side].Close() }) }, all)
	case 1:
		w.ended[side] = true
		write("CloseWrite", func(r *player) { r.on(side, func() { r.c[side].(interface{ CloseWrite() error }).CloseWrite() }) }, all)
	case 2:
		w.shut[peer], w.told[side] = true, true
		w.resets(side)
		write("the peer is closed", func(r *player) { r.on(peer, func() { r.c[peer].Close() }) }, func(_ *player, err error) string { return broken(err) })
	case 3:
		w.shut[peer], w.told[side] = true, true
		w.resets(side)
		write("the peer is aborted", func(r *player) { r.on(peer, func() { abort(r.c[peer]) }) }, func(_ *player, err error) string { return broken(err) })
	}
}

func (w *writer) endsRead(side int, d time.Duration) {
	peer := 1 - side
	if w.waits[side] > 0 || w.ended[peer] || w.shut[peer] || w.reset[side] {
		return
	}
	read := func(name string, end func(r *player)) {
		w.addBoth("Read waits, and "+name, side, func(r *player) string {
			n, err := 0, error(nil)
			wait := r.start(side, func() { n, err = r.c[side].Read(make([]byte, 10)) })
			r.sleep(0, d)
			end(r)
			wait()
			return one(r.c[side], n, err)
		})
	}
	switch w.rng.IntN(4) {
	case 0:
		w.shut[side] = true
		read("the end is closed", func(r *player) { r.on(side, func() { r.c[side].Close() }) })
	case 1:
		w.ended[peer] = true
		read("CloseWrite of the peer", func(r *player) { r.on(peer, func() { r.c[peer].(interface{ CloseWrite() error }).CloseWrite() }) })
	case 2:
		w.takeAll(peer)
		w.shut[peer] = true
		read("the peer is closed", func(r *player) { r.on(peer, func() { r.c[peer].Close() }) })
	case 3:
		w.shut[peer], w.told[side] = true, true
		w.resets(side)
		read("the peer is aborted", func(r *player) { r.on(peer, func() { abort(r.c[peer]) }) })
	}
}

// storm makes both ends write and read all the time, until one is closed.
func (w *writer) storm(side int) {
	peer := 1 - side
	if !w.flows(side) || !w.flows(peer) {
		return
	}
	w.shut[0], w.shut[1] = true, true
	d, n := w.brief(), 1+w.length()
	w.addBoth("Close while both ends write and read", side, func(r *player) string {
		var reads, writes [2]error
		var waits []func()
		for k := range 2 {
			waits = append(waits, r.start(k, func() { _, reads[k] = r.readOut(k, 4096) }))
			waits = append(waits, r.start(k, func() {
				for writes[k] == nil {
					_, writes[k] = r.write(k, n)
				}
			}))
		}
		r.sleep(0, d)
		r.on(side, func() { r.c[side].Close() })
		for _, wait := range waits {
			wait()
		}
		// over reports whether all was read when Close was called.
		over := reads[peer] == io.EOF || errors.Is(reads[peer], syscall.ECONNRESET)
		r.on(peer, func() { r.c[peer].Close() })
		return fmt.Sprintf("%s; %s; %s, %v", shape(r.c[side], reads[side]), shape(r.c[side], writes[side]), broken(writes[peer]), over)
	})
}
