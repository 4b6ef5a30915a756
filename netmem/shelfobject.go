package netmem

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
)

// An object of a shelf is written either by WriteAt or by Replace. The two have different numbers,
// also if they have the same name.
//
//	WriteAt:  page 0, page 1, …                     of the object
//	Replace:  page 0: the head                      length, checksum and half of the bytes
//	          pages of half 0, pages of half 1      Replace writes the half that the head does not
//	                                                name, and then the head

// maxObjectBytes is the largest length of an object: 16 TiB.
const maxObjectBytes = 1 << 44

// WriteAt writes b to an object at an offset. It creates the object if there is none. WriteAt
// returns when Copies servers have each page. If b has only part of a page, WriteAt first reads the
// page. Bytes of a page that were never written are zeros. A call is atomic on each single page.
//
// WriteAt fails with [ErrFull] if the servers have no room or the shelf has reached its quota. It
// fails with [ErrFew] if too few servers are up for ten times cfg.Dead. It fails with
// [weft.ErrBadArgument] if the bytes do not lie within the first 16 TiB.
func (s *Shelf) WriteAt(ctx context.Context, object string, b []byte, offset int64) error {
	if err := inObject(object, len(b), offset); err != nil {
		return err
	}
	if err := s.write(ctx, s.hash("object", object), b, offset); err != nil {
		return fmt.Errorf("netmem: shelf: write %d bytes of object %q at %d: %w", len(b), object, offset, err)
	}
	return nil
}

// ReadAt fills b with the bytes of an object from an offset on. It asks all servers for each page,
// and takes the newest copy. ReadAt fails with [ErrMissing] if the object does not have all of the
// pages. It fails with [ErrFew] if too few servers answer within ten times cfg.Dead. It fails with
// [weft.ErrBadArgument] if the bytes do not lie within the first 16 TiB.
func (s *Shelf) ReadAt(ctx context.Context, object string, b []byte, offset int64) error {
	if err := inObject(object, len(b), offset); err != nil {
		return err
	}
	if err := s.read(ctx, s.hash("object", object), b, offset); err != nil {
		return fmt.Errorf("netmem: shelf: read %d bytes of object %q at %d: %w", len(b), object, offset, err)
	}
	return nil
}

// Sync returns the error with which the client has ended, or nil. A write needs no Sync: it returns
// when the servers have its pages.
func (s *Shelf) Sync(context.Context, string) error { return s.c.Err() }

// Replace replaces an object by one with the bytes b. If Replace fails or its process ends, Read
// returns the old bytes or the new ones. At most one client may replace an object at a time. The
// errors are those of [Shelf.WriteAt].
func (s *Shelf) Replace(ctx context.Context, object string, b []byte) error {
	if err := inObject(object, len(b), 0); err != nil {
		return err
	}
	if err := s.replace(ctx, s.hash("replaced", object), b); err != nil {
		return fmt.Errorf("netmem: shelf: replace object %q by %d bytes: %w", object, len(b), err)
	}
	return nil
}

// Read returns all bytes of an object that Replace wrote. If there is no such object, it fails
// with an error that matches fs.ErrNotExist and [ErrMissing]. If the object has more than most
// bytes, it fails with another error. The other errors are those of [Shelf.ReadAt].
func (s *Shelf) Read(ctx context.Context, object string, most int) ([]byte, error) {
	id := s.hash("replaced", object)
	h, err := s.head(ctx, id, true)
	if errors.Is(err, ErrMissing) {
		return nil, marked{fmt.Errorf("netmem: shelf: object %q: %w", object, err), fs.ErrNotExist}
	}
	if err == nil && (most < 0 || h.length > uint64(most)) {
		return nil, fmt.Errorf("netmem: shelf: object %q has %d bytes; expected at most %d", object, h.length, most)
	}
	var b []byte
	if err == nil {
		b = make([]byte, h.length)
		err = s.read(ctx, id, b, h.offset())
	}
	if err == nil && crc32.Checksum(b, castagnoli) != h.crc {
		err = errors.New("its bytes have another checksum than its head")
	}
	if err != nil {
		return nil, fmt.Errorf("netmem: shelf: read object %q: %w", object, err)
	}
	return b, nil
}

// inObject returns an error if bytes do not lie within an object.
func inObject(object string, n int, offset int64) error {
	if offset < 0 || offset > maxObjectBytes || int64(n) > maxObjectBytes-offset {
		return badArgument("netmem: shelf: %d bytes of object %q at %d; expected bytes from 0 to %d",
			n, object, offset, int64(maxObjectBytes))
	}
	return nil
}

// head is the head of an object that Replace writes. It is one page, so its write is atomic.
//
//	0  magic   8
//	8  length  8  of the bytes
//	16 half    4
//	20 crc     4  CRC-32C of the bytes
//	24 check   4  CRC-32C of the 24 bytes before
type head struct {
	length uint64
	half   uint32
	crc    uint32
}

const (
	headMagic = "WEFTOBJ1"
	headLen   = 28
)

// offset returns the offset of the bytes in the pages of the object.
func (h *head) offset() int64 { return int64(1+h.half) * maxObjectBytes }

func (h *head) put(b []byte) {
	le := binary.LittleEndian
	copy(b, headMagic)
	le.PutUint64(b[8:], h.length)
	le.PutUint32(b[16:], h.half)
	le.PutUint32(b[20:], h.crc)
	le.PutUint32(b[24:], crc32.Checksum(b[:24], castagnoli))
}

// head reads the head of an object.
func (s *Shelf) head(ctx context.Context, id uint64, patient bool) (h head, err error) {
	b := make([]byte, s.page)
	if err := s.readPage(ctx, id, 0, b, patient); err != nil {
		return h, err
	}
	le := binary.LittleEndian
	h = head{length: le.Uint64(b[8:]), half: le.Uint32(b[16:]), crc: le.Uint32(b[20:])}
	if string(b[:8]) != headMagic || le.Uint32(b[24:]) != crc32.Checksum(b[:24], castagnoli) ||
		h.half > 1 || h.length > maxObjectBytes {
		return h, errHead
	}
	return h, nil
}

var errHead = errors.New("the head of the object is damaged")

// replace writes the bytes and then the head.
func (s *Shelf) replace(ctx context.Context, id uint64, b []byte) error {
	old, err := s.head(ctx, id, false)
	h := head{length: uint64(len(b)), half: 1 - old.half&1, crc: crc32.Checksum(b, castagnoli)}
	if err != nil && !errors.Is(err, ErrMissing) && !errors.Is(err, errHead) {
		return err
	}
	if err := s.write(ctx, id, b, h.offset()); err != nil {
		return err
	}
	page := make([]byte, s.page)
	h.put(page[:headLen])
	return s.writePage(ctx, id, 0, page)
}

// write writes bytes at an offset of the pages of an object.
func (s *Shelf) write(ctx context.Context, id uint64, b []byte, offset int64) error {
	return s.eachPage(ctx, len(b), offset, func(ctx context.Context, number uint64, at, from, n int) error {
		page := b[from : from+n]
		if n < int(s.page) {
			page = make([]byte, s.page)
			if err := s.readPage(ctx, id, number, page, false); err != nil && !errors.Is(err, ErrMissing) {
				return err
			}
			copy(page[at:], b[from:from+n])
		}
		return s.writePage(ctx, id, number, page)
	})
}

// read reads bytes from an offset of the pages of an object on.
func (s *Shelf) read(ctx context.Context, id uint64, b []byte, offset int64) error {
	return s.eachPage(ctx, len(b), offset, func(ctx context.Context, number uint64, at, from, n int) error {
		if n == int(s.page) {
			return s.readPage(ctx, id, number, b[from:from+n], true)
		}
		page := make([]byte, s.page)
		err := s.readPage(ctx, id, number, page, true)
		copy(b[from:from+n], page[at:])
		return err
	})
}

// eachPage calls do for each page of n bytes at an offset, some of them concurrently. The arguments
// of do are the number of the page, the first byte in the page, and the first of the n bytes and
// their count.
func (s *Shelf) eachPage(
	ctx context.Context, n int, offset int64, do func(ctx context.Context, number uint64, at, from, n int) error,
) error {
	if n == 0 {
		return ctx.Err()
	}
	first, last := offset/s.page, (offset+int64(n)-1)/s.page
	return s.c.parallel(ctx, shelfDepth, int(last-first+1), func(ctx context.Context, i int) error {
		number := first + int64(i)
		begin := max(number*s.page, offset)
		end := min((number+1)*s.page, offset+int64(n))
		err := do(ctx, uint64(number), int(begin-number*s.page), int(begin-offset), int(end-begin))
		if err != nil {
			err = fmt.Errorf("page %d: %w", number, err)
		}
		return err
	})
}
