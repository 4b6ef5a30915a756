package stream_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// act is one step of a script: a call, or a few related calls.
type act struct {
	name string
	do   func(r *player) string // returns the outcome
}

// player runs a script.
type player struct {
	ground
	c           twoEnds
	wrote, read [2]int // bytes that an end has written, and has read
}

// on runs f at an end of the connection.
func (r *player) on(side int, f func()) { r.start(side, f)() }

// letters are the bytes that both ends write repeatedly, each end from another offset. Their
// number is prime, so no length divides it.
var letters = func() []byte {
	b := make([]byte, 65_537)
	for i := range b {
		b[i] = byte(i ^ i>>8*7)
	}
	return b
}()

// from returns the letters that one end writes from an offset on.
func from(side, at int) []byte { return letters[(at+side*1000)%len(letters):] }

// write writes the next n bytes.
func (r *player) write(side, n int) (int, error) {
	n, err := r.c[side].Write(r.next(side, n))
	r.wrote[side] += n
	return n, err
}

// next returns the next n bytes that one end writes.
func (r *player) next(side, n int) []byte {
	b := make([]byte, n)
	for k := 0; k < n; {
		k += copy(b[k:], from(side, r.wrote[side]+k))
	}
	return b
}

// took checks the bytes that one end has read.
func (r *player) took(side int, b []byte) (wrong string) {
	for len(b) > 0 {
		want := from(1-side, r.read[side])
		n := min(len(want), len(b))
		if !bytes.Equal(b[:n], want[:n]) {
			wrong = fmt.Sprintf(", and of the %d bytes from %d on some are wrong", n, r.read[side])
		}
		r.read[side] += n
		b = b[n:]
	}
	return wrong
}

// readFull reads n bytes, at most chunk bytes in one Read.
func (r *player) readFull(side, n, chunk int) string {
	b, got, wrong := make([]byte, chunk), 0, ""
	for got < n {
		k, err := r.c[side].Read(b[:min(chunk, n-got)])
		wrong += r.took(side, b[:k])
		if got += k; err != nil {
			return fmt.Sprintf("%d%s, %s", got, wrong, shape(r.c[side], err))
		}
		if k == 0 {
			return fmt.Sprintf("%d, and a Read of nothing", got)
		}
	}
	return fmt.Sprintf("%d%s", got, wrong)
}

// readOut reads until an error.
func (r *player) readOut(side, chunk int) (n int, err error) {
	b := make([]byte, chunk)
	for {
		k, err := r.c[side].Read(b)
		if wrong := r.took(side, b[:k]); wrong != "" {
			return n, errors.New(wrong)
		}
		if n += k; err != nil {
			return n, err
		}
	}
}

// one formats the outcome of a call that returns a number and an error.
func one(c net.Conn, n int, err error) string { return fmt.Sprintf("%d, %s", n, shape(c, err)) }

// broken formats the outcome of a Write to a peer that reads no more. That Write must fail.
func broken(err error) string {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return "broken"
	}
	return words(err)
}

// breaks writes until a Write fails.
func (r *player) breaks(side int) string {
	for range 10_000 {
		if _, err := r.c[side].Write([]byte{0}); err != nil {
			return broken(err)
		}
		r.sleep(side, time.Millisecond)
	}
	return "writes go on"
}
