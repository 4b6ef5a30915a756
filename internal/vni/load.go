package vni

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/weftnet/weft/internal/limits"
)

// load copies a send context out of shared memory and reads every word once. It reads the second
// line only if the process says that it is used.
//
// It fills c in place, field by field. All data that is copied once for each message is filled in
// this way, on both sides: a copy of a struct that was just written in smaller pieces waits for
// these stores.
func (r *sendRecord) load(c *SendContext) {
	*c = SendContext{}
	loadName(&c.Receiver, &r.app, &r.index)
	c.Gen, c.Tag = atomic.LoadUint32(&r.gen), atomic.LoadUint64(&r.tag)
	c.Len, c.Flags, c.Token = atomic.LoadUint64(&r.length), atomic.LoadUint32(&r.flags), atomic.LoadUint32(&r.token)
	c.PoolIndex, c.Size = atomic.LoadInt32(&r.poolIndex), atomic.LoadUint32(&r.size)
	if c.Flags&secondLine != 0 {
		c.Flags &^= secondLine
		c.NIC, c.Slot = atomic.LoadUint64(&r.nic), uint16(atomic.LoadUint32(&r.slot))
		c.Remote = Remote{
			NIC: atomic.LoadUint64(&r.remoteNIC), Slot: uint16(atomic.LoadUint32(&r.remoteSlot)),
			Gen: atomic.LoadUint32(&r.remoteGen), Region: atomic.LoadUint32(&r.remoteRegion),
			Key: atomic.LoadUint64(&r.remoteKey), Offset: atomic.LoadUint64(&r.remoteOffset),
		}
	}
}

// load copies a receive context out of shared memory and reads every word once.
func (r *receiveRecord) load(c *ReceiveContext) {
	*c = ReceiveContext{}
	loadName(&c.Sender, &r.app, &r.index)
	c.Gen, c.Tag = atomic.LoadUint32(&r.gen), atomic.LoadUint64(&r.tag)
	c.Len, c.Flags = atomic.LoadUint64(&r.length), atomic.LoadUint32(&r.flags)
	c.PoolIndex, c.Size = atomic.LoadInt32(&r.poolIndex), atomic.LoadUint32(&r.size)
	if c.Flags&secondLine != 0 {
		c.Flags &^= secondLine
		c.NIC, c.Slot, c.Most = atomic.LoadUint64(&r.nic), uint16(atomic.LoadUint32(&r.slot)),
			atomic.LoadUint64(&r.most)
	}
}

func loadName(n *Name, app *appWords, index *uint32) {
	for i := range app {
		binary.NativeEndian.PutUint64(n.App[8*i:], atomic.LoadUint64(&app[i]))
	}
	n.Index = atomic.LoadUint32(index)
}

// validate makes the checks that need neither the command's code nor the process's regions.
func (c *SendContext) validate(g *Geometry, direct bool) error {
	if err := validName(&c.Receiver); err != nil {
		return err
	}
	if c.Flags&^sendFlags != 0 {
		return fmt.Errorf("%w: flags %#x", ErrArgument, c.Flags)
	}
	if c.Remote.Offset > limits.MaxRegion {
		return fmt.Errorf("%w: remote offset %d", ErrArgument, c.Remote.Offset)
	}
	return validMemory(g, direct, c.Flags, c.PoolIndex, c.Size, c.Len)
}

func (c *ReceiveContext) validate(g *Geometry, direct bool) error {
	if err := validName(&c.Sender); err != nil {
		return err
	}
	if c.Flags&^receiveFlags != 0 {
		return fmt.Errorf("%w: flags %#x", ErrArgument, c.Flags)
	}
	return validMemory(g, direct, c.Flags, c.PoolIndex, c.Size, c.Len)
}

func validName(n *Name) error {
	if n.IsZero() || n.Valid() {
		return nil
	}
	return fmt.Errorf("%w: process name %q", ErrArgument, n.String())
}

// validMemory checks that the pool pages, or size descriptors, exist and can hold length bytes.
func validMemory(g *Geometry, direct bool, flags uint32, index int32, size uint32, length uint64) error {
	switch {
	case length > limits.MaxRegion:
		return fmt.Errorf("%w: length %d, at most %d", ErrArgument, length, uint64(limits.MaxRegion))
	case flags&Refilled != 0 && (direct || index != NoPool || length == 0):
		return fmt.Errorf("%w: an operation of %d bytes with pool index %d cannot be refilled", ErrArgument,
			length, index)
	case index == NoPool && (direct || uint64(size) <= uint64(g.Descriptors)):
		return nil
	case index == NoPool:
		return fmt.Errorf("%w: %d descriptors, at most %d", ErrArgument, size, g.Descriptors)
	case index < 0 || uint64(index)+uint64(size) > uint64(g.PoolPages):
		return fmt.Errorf("%w: pool pages %d+%d of %d", ErrArgument, index, size, g.PoolPages)
	case length > uint64(size)*limits.PageBytes:
		return fmt.Errorf("%w: %d bytes in %d pool pages", ErrArgument, length, size)
	}
	return nil
}
