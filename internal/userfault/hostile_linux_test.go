package userfault

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/paging"
)

// copyingKernel copies as UFFDIO_COPY does, but stops after a few bytes, as the kernel does when
// the mapping changes.
type copyingKernel struct {
	from, to []byte
	atOnce   uint64
	stops    int // times that it stops with nothing copied, before the rest
}

func (k *copyingKernel) call(c *[5]uint64) error {
	const source, destination = 1 << 20, 1 << 30 // addresses of from and to
	if k.stops > 0 {
		k.stops--
		c[4] = ^uint64(unix.EAGAIN) + 1
		return unix.EAGAIN
	}
	n := min(k.atOnce, c[2])
	copy(k.to[c[0]-destination:][:n], k.from[c[1]-source:][:n])
	if c[4] = n; n < c[2] {
		return unix.EAGAIN
	}
	return nil
}

// The kernel may stop in the middle of a copy. The rest of the page is then copied behind its
// first part.
func TestAPageThatIsCopiedInPartsIsWhole(t *testing.T) {
	from := make([]byte, 64)
	for i := range from {
		from[i] = byte(i + 1)
	}
	for _, atOnce := range []uint64{64, 63, 32, 16, 7, 1} {
		k := &copyingKernel{from, make([]byte, 64), atOnce, 2}
		c := [5]uint64{1 << 30, 1 << 20, 64, copyProtected}
		if err := inParts(&c, func() error { return k.call(&c) }); err != nil {
			t.Fatal(err)
		}
		if string(k.to) != string(from) {
			t.Errorf("in parts of %d bytes the page is %v", atOnce, k.to)
		}
	}
}

// A copy ends with the first error other than a stop, and without an error if the program has
// ended meanwhile.
func TestACopyEndsWithItsFirstError(t *testing.T) {
	for _, c := range []struct{ says, want error }{{unix.EFAULT, unix.EFAULT}, {unix.ENOENT, nil}, {unix.ESRCH, nil}} {
		calls := 0
		err := inParts(&[5]uint64{}, func() error { calls++; return c.says })
		if !errors.Is(err, c.want) || calls != 1 {
			t.Errorf("a copy that fails by %v: %v after %d calls, expected %v after one", c.says, err, calls, c.want)
		}
	}
}

// A program also holds the userfaultfd, and may register other memory with it. The pager ignores
// faults outside of the region.
func TestAFaultOutsideOfTheRegionIsPassedOver(t *testing.T) {
	const page, pages, base = 4096, 64, 0x7f0000000000
	table, err := paging.New(paging.Config{Pages: pages, Limit: paging.MinLimit})
	if err != nil {
		t.Fatal(err)
	}
	r := &region{page: page, begun: time.Now(), table: table, mem: memory{base: base, n: pages * page}}
	message := func(event byte, flags, address uint64) []byte {
		m := make([]byte, messageBytes)
		m[0] = event
		binary.NativeEndian.PutUint64(m[8:], flags)
		binary.NativeEndian.PutUint64(m[16:], address)
		return m
	}
	for _, flags := range []uint64{0, faultWrite, faultProtected, faultProtected | faultWrite, 1<<64 - 1} {
		for _, address := range []uint64{0, base - 1, base - page, base + pages*page, base + pages*page + page, 1<<64 - 1} {
			r.take(message(eventPageFault, flags, address))
		}
	}
	r.take(message(eventPageFault+1, 0, base))
	if s := table.Stats(); s.Faults != 0 || s.Writes != 0 || len(table.Actions(nil)) != 0 {
		t.Errorf("%+v behind faults outside of the region; expected none", s)
	}
	for _, address := range []uint64{base, base + pages*page - 1} {
		r.take(message(eventPageFault, 0, address))
	}
	if s := table.Stats(); s.Faults != 2 {
		t.Errorf("%d faults behind one in the first page and one in the last", s.Faults)
	}
}
