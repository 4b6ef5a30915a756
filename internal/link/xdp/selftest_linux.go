package xdp

import (
	"encoding/binary"
	"fmt"
	"time"
)

// A network driver may accept a zero-copy socket and then not move its frames. So before other
// frames depend on it, a test frame is sent on each queue, to the interface's own address. Its
// type is for experiments, so it means nothing to its receiver. If its chunk does not return,
// the driver copies frames instead.
const (
	testType     = 0x88b5 // IEEE Std 802: local experimental
	testLen      = 60     // length of the shortest Ethernet frame, without checksum
	testPatience = 100 * time.Millisecond
	testPause    = 100 * time.Microsecond
)

// Listen returns a driver on the interface that has an address of this host. It uses zero-copy
// if that is available and works.
func Listen(cfg Config) (*Driver, error) {
	d, err := listen(cfg)
	if err != nil || d.queues[0].copying != nil {
		return d, err
	}
	why := d.test()
	if why == nil {
		return d, nil
	}
	if err := d.Close(); err != nil {
		return nil, fmt.Errorf("xdp: giving up zero-copy, because %w: %w", why, err)
	}
	cfg.Copy = true // from now on, also after the interface returns
	if d, err = listen(cfg); err == nil {
		d.why += fmt.Sprintf("; zero-copy failed its test: %v", why)
	}
	return d, err
}

// test sends a frame on each queue and returns an error if one does not leave.
func (d *Driver) test() error { return d.testFrom(d.routes.source) }

func (d *Driver) testFrom(hw mac) error {
	for n, q := range d.queues {
		if !q.test(hw, testPatience) {
			return fmt.Errorf("a frame on queue %d has not left within %v", n, testPatience)
		}
	}
	return nil
}

// test reports whether the queue sends a frame and returns its chunk within patience.
func (q *queue) test(hw mac, patience time.Duration) bool {
	chunk, before := q.free[len(q.free)-1], len(q.free)
	q.free = q.free[:before-1]
	b := q.umem[chunk : chunk+testLen]
	clear(b)
	copy(b, hw[:])
	copy(b[6:], hw[:])
	binary.BigEndian.PutUint16(b[12:], testType)
	q.tx.put(desc{addr: chunk, length: testLen})
	q.tx.show()
	for end := time.Now().Add(patience); ; time.Sleep(testPause) {
		q.kick()
		if q.reclaim(); len(q.free) == before {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
