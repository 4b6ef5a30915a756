package testbed

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A cable with a rate is paced at both ends by a token bucket, the kernel's tbf:
//
//	host 0 [eth0 ▽]───────[▽ port0] switch      ▽ token bucket, for frames that leave there
//
// The host's end stands for its network card. Its queue is long, and frames in it count towards
// the socket's send buffer, so a sender waits as for a slow card. The switch's end paces the
// frames to the host. It also paces the frames of AF_XDP, which bypass the queue of their host's
// own end. Its queue is short, like that of a switch's port.

const (
	// bucketNanoseconds is how long a bucket takes to fill. If a timer of the kernel is late by
	// less than that, no throughput is lost.
	bucketNanoseconds = 200_000

	// leastBucketFrames is the least number of frames in a bucket: the kernel drops a frame that
	// is longer than its bucket.
	leastBucketFrames = 2

	cardQueueFrames   = 1000 // the kernel's default for a network card (txqueuelen)
	switchQueueFrames = 100

	headerBytes = 14 // of Ethernet
)

// pace gives the outgoing frames of a link a rate in bits per second.
func pace(nl *netlink.Handle, l netlink.Link, bits int64, frameBytes, queueFrames int) error {
	bytes := uint64(bits / 8)
	bucket := max(leastBucketFrames*frameBytes, int(bytes*bucketNanoseconds/1e9))
	err := nl.QdiscAdd(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0),
			Parent: netlink.HANDLE_ROOT},
		Rate:   bytes,
		Buffer: netlink.Xmittime(bytes, uint32(bucket)),
		Limit:  uint32(bucket + queueFrames*frameBytes),
	})
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%w: a rate for %s: %w (the kernel has no token bucket: it needs CONFIG_NET_SCH_TBF, "+
			"or 'modprobe sch_tbf')",
			ErrUnavailable, l.Attrs().Name, err)
	}
	if err != nil {
		return explain("giving "+l.Attrs().Name+" a rate", err)
	}
	return nil
}

// paceHost gives the host's end of its cable the rate.
func (t *Testbed) paceHost(h *Host) error {
	rate := t.config.rate(h.index)
	if rate == 0 {
		return nil
	}
	nl, err := h.ns.netlink()
	if err != nil {
		return err
	}
	defer nl.Close()
	eth, err := nl.LinkByName(Interface)
	if err != nil {
		return explain("finding a host's link", err)
	}
	return pace(nl, eth, rate, t.config.mtu()+headerBytes, cardQueueFrames)
}
