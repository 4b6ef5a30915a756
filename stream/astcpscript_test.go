package stream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"
)

// writer draws a script. It knows the state of each end as far as the script determines it.
type writer struct {
	rng   *rand.Rand
	acts  []act
	waits [2]int  // bytes that wait to be read at an end
	ended [2]bool // an end has ended its direction
	shut  [2]bool // an end is closed
	reset [2]bool // the peer has reset the end
	told  [2]bool // a call may have reported the reset
	lossy [2]bool // bytes in flight at the reset may be lost
}

// drawScript draws a script.
func drawScript(seed uint64) []act {
	w := &writer{rng: rand.New(rand.NewPCG(seed, 1))}
	for range 4 + w.rng.IntN(24) {
		w.step(w.rng.IntN(2))
	}
	for side := range 2 {
		w.last(side)
	}
	return w.acts
}

// add adds an act of one end alone.
func (w *writer) add(name string, side int, do func(r *player) string) {
	w.addBoth(name, side, func(r *player) (out string) {
		r.on(side, func() { out = do(r) })
		return out
	})
}

// addBoth adds an act in which both ends take part concurrently.
func (w *writer) addBoth(name string, side int, do func(r *player) string) {
	w.acts = append(w.acts, act{fmt.Sprintf("%d %s", side, name), do})
}

func (w *writer) brief() time.Duration { return time.Duration(w.rng.IntN(1500)) * time.Microsecond }

// chunk returns the length of a buffer for a Read.
func (w *writer) chunk() int {
	return []int{1 + w.rng.IntN(7), 100 + w.rng.IntN(900), 4096, 32 << 10, 1 << 20}[w.rng.IntN(5)]
}

// length returns the length of a Write.
func (w *writer) length() int {
	return []int{0, 1, w.rng.IntN(2000), 2030 + w.rng.IntN(40), 16360 + w.rng.IntN(40), w.rng.IntN(100_000)}[w.rng.IntN(6)]
}

// step adds one act of an end. It adds none if the drawn act would show nothing.
func (w *writer) step(side int) {
	peer := 1 - side
	if w.shut[side] {
		w.closedCall(side)
		return
	}
	switch k := w.rng.IntN(100); {
	case k < 20:
		w.write(side)
	case k < 40:
		w.readSome(side)
	case k < 44:
		w.add("Read of nothing", side, func(r *player) string { n, err := r.c[side].Read(nil); return one(r.c[side], n, err) })
	case k < 52:
		w.late(side)
	case k < 60:
		w.readWaits(side)
	case k < 66:
		w.fill(side)
	case k < 70:
		w.deadlines(side)
	case k < 74:
		w.copyIn(side)
	case k < 80:
		w.closeWrite(side)
	case k < 82:
		w.closeWrite(peer)
	case k < 86:
		w.close(side)
	case k < 88:
		w.closeUnread(side)
	case k < 90:
		w.abort(side)
	case k < 95:
		w.ending(side)
	case k < 97:
		w.storm(side)
	default:
		w.addresses(side)
	}
}

// flows reports whether bytes that an end writes reach a peer that may read them.
func (w *writer) flows(side int) bool {
	return !w.ended[side] && !w.shut[side] && !w.shut[1-side] && !w.reset[side]
}

func (w *writer) write(side int) {
	n := w.length()
	switch {
	case w.shut[1-side] && !w.ended[side]:
		w.told[side] = true
		w.add("writes until it fails", side, func(r *player) string { return r.breaks(side) })
		return
	case w.shut[1-side]: // ended, and perhaps reset
		w.told[side] = true
		w.add("Write", side, func(r *player) string { _, err := r.write(side, n); return broken(err) })
		return
	case w.waits[1-side]+n > 250_000:
		return
	case !w.ended[side]:
		w.waits[1-side] += n
	}
	w.add(fmt.Sprintf("Write of %d", n), side, func(r *player) string { n, err := r.write(side, n); return one(r.c[side], n, err) })
}

// readSome reads bytes that must arrive, or the end.
func (w *writer) readSome(side int) {
	chunk := w.chunk()
	if w.waits[side] == 0 {
		w.readEnd(side, chunk)
		return
	}
	n := 1 + w.rng.IntN(w.waits[side])
	if w.rng.IntN(2) == 0 {
		n = w.waits[side]
	}
	w.waits[side] -= n
	w.add(fmt.Sprintf("reads %d by %d", n, chunk), side, func(r *player) string { return r.readFull(side, n, chunk) })
}

// readEnd reads after the last byte of a peer that has ended in any way.
func (w *writer) readEnd(side, chunk int) {
	switch peer := 1 - side; {
	case w.reset[side] && !w.ended[peer]:
		told, lossy := w.told[side], w.lossy[side]
		w.told[side] = true
		w.add("Read of a reset", side, func(r *player) string {
			n, err := r.readOut(side, chunk)
			if lossy {
				n = -1
			}
			if told && (err == io.EOF || errors.Is(err, syscall.ECONNRESET)) {
				return fmt.Sprintf("%d, over", n)
			}
			return one(r.c[side], n, err)
		})
	case (w.ended[peer] || w.shut[peer]) && w.rng.IntN(2) == 0:
		w.add("io.Copy of the end", side, func(r *player) string {
			var b bytes.Buffer
			n, err := io.Copy(&b, r.c[side])
			return one(r.c[side], int(n), err) + r.took(side, b.Bytes())
		})
	case w.ended[peer] || w.shut[peer]:
		w.add("Read of the end", side, func(r *player) string { n, err := r.readOut(side, chunk); return one(r.c[side], n, err) })
	}
}

// closedCall calls a method of a closed end.
func (w *writer) closedCall(side int) {
	calls := []struct {
		name string
		call func(c net.Conn) (int, error)
	}{
		{"Read", func(c net.Conn) (int, error) { return c.Read(make([]byte, 10)) }},
		{"Read of nothing", func(c net.Conn) (int, error) { return c.Read(nil) }},
		{"Write", func(c net.Conn) (int, error) { return c.Write(make([]byte, 10)) }},
		{"Write of nothing", func(c net.Conn) (int, error) { return c.Write(nil) }},
		{"Close", func(c net.Conn) (int, error) { return 0, c.Close() }},
		{"CloseWrite", func(c net.Conn) (int, error) { return 0, c.(interface{ CloseWrite() error }).CloseWrite() }},
		{"SetDeadline", func(c net.Conn) (int, error) { return 0, c.SetDeadline(time.Time{}) }},
		{"SetReadDeadline", func(c net.Conn) (int, error) { return 0, c.SetReadDeadline(time.Time{}) }},
		{"SetWriteDeadline", func(c net.Conn) (int, error) { return 0, c.SetWriteDeadline(time.Time{}) }},
	}
	k := calls[w.rng.IntN(len(calls))]
	w.add(k.name+" behind Close", side, func(r *player) string { n, err := k.call(r.c[side]); return one(r.c[side], n, err) })
}

// late calls a method after its deadline has passed.
func (w *writer) late(side int) {
	n, before := []int{0, 10, 100_000}[w.rng.IntN(3)], time.Duration(w.rng.IntN(2))*time.Hour
	at := func(r *player) time.Time {
		if before == 0 {
			return r.now()
		}
		return time.Unix(1, 0)
	}
	if w.rng.IntN(2) == 0 {
		w.add(fmt.Sprintf("Read of %d with a deadline %v ago", n, before), side, func(r *player) string {
			c := r.c[side]
			_ = c.SetReadDeadline(at(r))
			n, err := c.Read(make([]byte, n))
			_ = c.SetReadDeadline(time.Time{})
			return one(c, n, err)
		})
		return
	}
	w.add(fmt.Sprintf("Write of %d with a deadline %v ago", n, before), side, func(r *player) string {
		c := r.c[side]
		_ = c.SetWriteDeadline(at(r))
		n, err := c.Write(make([]byte, n))
		_ = c.SetWriteDeadline(time.Time{})
		return one(c, n, err)
	})
}

// readWaits starts a Read that waits. Something then ends the Read, and the connection goes on.
func (w *writer) readWaits(side int) {
	peer := 1 - side
	if w.waits[side] > 0 || w.ended[peer] || w.shut[peer] {
		return
	}
	d := w.brief()
	read := func(r *player, meanwhile func()) string {
		c, out := r.c[side], ""
		wait := r.start(side, func() { out = r.readFull(side, 1, 100) })
		r.sleep(0, d)
		meanwhile()
		wait()
		_ = c.SetReadDeadline(time.Time{})
		return out
	}
	switch w.rng.IntN(4) {
	case 0:
		w.addBoth("Read waits up to its deadline", side, func(r *player) string {
			_ = r.c[side].SetReadDeadline(r.now().Add(d))
			return read(r, func() {})
		})
	case 1:
		w.addBoth("Read waits, and its deadline moves to the past", side, func(r *player) string {
			_ = r.c[side].SetReadDeadline(r.now().Add(time.Hour))
			return read(r, func() { _ = r.c[side].SetReadDeadline(time.Unix(1, 0)) })
		})
	case 2:
		w.addBoth("Read waits, and is given a deadline", side, func(r *player) string {
			return read(r, func() {
				_ = r.c[side].SetDeadline(r.now().Add(d))
				r.sleep(0, 2*d)
				_ = r.c[side].SetWriteDeadline(time.Time{})
			})
		})
	case 3:
		if !w.flows(peer) {
			return
		}
		w.addBoth("Read waits, its deadline moves away, and a byte comes", side, func(r *player) string {
			_ = r.c[side].SetReadDeadline(r.now().Add(time.Hour))
			return read(r, func() {
				_ = r.c[side].SetReadDeadline(time.Time{})
				r.on(peer, func() { _, _ = r.write(peer, 1) })
			})
		})
	}
}

// much is more than any connection takes from a writer if the peer does not read.
const much = 16 << 20

// fill starts a Write that waits for room. Then the peer reads, or a deadline passes.
func (w *writer) fill(side int) {
	peer := 1 - side
	if !w.flows(side) {
		return
	}
	w.waits[peer] = 0
	d, chunk := w.brief(), max(w.chunk(), 4096)
	drain := func(r *player) string {
		n := r.wrote[side] - r.read[peer]
		got := ""
		r.on(peer, func() { got = r.readFull(peer, n, chunk) })
		return fmt.Sprintf("all came: %v", got == fmt.Sprint(n))
	}
	until := func(r *player, meanwhile func()) string {
		var n int
		var err error
		wait := r.start(side, func() { n, err = r.write(side, much) })
		r.sleep(0, d)
		meanwhile()
		wait()
		_ = r.c[side].SetWriteDeadline(time.Time{})
		return fmt.Sprintf("all %v, %s, %s", n == much, shape(r.c[side], err), drain(r))
	}
	switch w.rng.IntN(3) {
	case 0:
		w.addBoth("Write waits up to its deadline", side, func(r *player) string {
			_ = r.c[side].SetWriteDeadline(r.now().Add(d))
			return until(r, func() {})
		})
	case 1:
		w.addBoth("Write waits, and its deadline moves to the past", side, func(r *player) string {
			return until(r, func() { _ = r.c[side].SetWriteDeadline(time.Unix(1, 0)) })
		})
	case 2:
		w.addBoth("Write waits, and the peer reads", side, func(r *player) string {
			out, n := "", r.wrote[side]-r.read[peer]+much/4
			wait := r.start(side, func() { n, err := r.write(side, much/4); out = one(r.c[side], n, err) })
			r.sleep(0, d)
			got := ""
			reads := r.start(peer, func() { got = r.readFull(peer, n, chunk) })
			wait()
			reads()
			return fmt.Sprintf("%s, all came: %v", out, got == fmt.Sprint(n))
		})
	}
}

// deadlines sets some deadlines that never pass.
func (w *writer) deadlines(side int) {
	far := []time.Time{time.Unix(1<<33, 0), time.Unix(1<<40, 0), time.Unix(1<<55, 0), {}}[w.rng.IntN(4)]
	w.add(fmt.Sprintf("SetDeadline %v", far.Unix()), side, func(r *player) string { return shape(r.c[side], r.c[side].SetDeadline(far)) })
}

// copyIn copies from a reader.
func (w *writer) copyIn(side int) {
	n := w.rng.IntN(100_000)
	if !w.flows(side) || w.waits[1-side]+n > 250_000 {
		return
	}
	w.waits[1-side] += n
	w.add(fmt.Sprintf("io.Copy of %d", n), side, func(r *player) string {
		b := r.next(side, n)
		r.wrote[side] += n
		k, err := io.Copy(r.c[side], bytes.NewReader(b))
		return one(r.c[side], int(k), err)
	})
}

// addresses compares the addresses of the ends. A closed end keeps its addresses.
func (w *writer) addresses(side int) {
	w.add("addresses", side, func(r *player) string {
		c, p := r.c[side], r.c[1-side]
		return fmt.Sprint(c.LocalAddr().String() == p.RemoteAddr().String(), c.RemoteAddr().String() == p.LocalAddr().String())
	})
}

// last ends a script: an end reads all remaining bytes, and is closed.
func (w *writer) last(side int) {
	if w.shut[side] {
		return
	}
	if w.ended[1-side] || w.shut[1-side] {
		w.readSome(side)
		w.takeAll(side)
		w.readEnd(side, 4096)
	}
	w.close(side)
}
