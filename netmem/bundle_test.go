package netmem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weftnet/weft/sim"
)

// readAll reads the first n pages with at most depth reads in flight. It returns the number of
// packets that left the client.
func readAll(c *Client, n, depth int) (packets uint64, err error) {
	before := c.port.driver.Counts().PacketsOut
	next, read := 0, 0
	why := c.ReadPages(context.Background(), depth, func() (uint64, []byte, bool) {
		next++
		return uint64(next - 1), make([]byte, 4096), next <= n
	}, func(page uint64, buf []byte, failed error) {
		if read++; failed == nil && !bytes.Equal(buf, pageOf(page)) {
			failed = errors.New("other bytes")
		}
		if failed != nil {
			err = fmt.Errorf("page %d: %w", page, failed)
		}
	})
	if why == nil && read != n {
		why = fmt.Errorf("%d pages were read, want %d", read, n)
	}
	return c.port.driver.Counts().PacketsOut - before, errors.Join(why, err)
}

// pageOf returns the content of a page that these tests write.
func pageOf(page uint64) []byte { return bytes.Repeat([]byte{byte(page), 1 + byte(page>>8)}, 2048) }

// Concurrent reads request their pages by one packet. Pages for which the window has no room yet
// are requested by a few packets: one for each part of the window that becomes free.
func TestPagesAreAskedForTogether(t *testing.T) {
	withClient(t, ClientConfig{}, func(_ *sim.Process, _ *sim.Fabric, c *Client) error {
		const pages = 256
		for i := range uint64(pages) {
			if err := c.WritePage(context.Background(), i, pageOf(i)); err != nil {
				return err
			}
		}
		for _, r := range []struct{ pages, depth, packets int }{
			{pages: 16, depth: 16, packets: 1}, {pages: 1, depth: 32, packets: 1}, {pages: pages, depth: 32, packets: pages / 4}, {pages: pages, depth: 2 * mostBundled, packets: pages / 4}} {
			packets, err := readAll(c, r.pages, r.depth)
			if st := c.Stats(); err != nil || packets > uint64(r.packets) || st.Repeated > 0 {
				return fmt.Errorf("%d pages, %d at a time, were asked for by %d packets, and %d requests repeated; want at most %d, and none: %w", r.pages, r.depth, packets, st.Repeated, r.packets, err)
			}
		}
		return ended(c)
	})
}

// If a crowd of calls waits for a server's window, the requests leave by equally few packets.
func TestRequestsThatWaitLeaveTogether(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, _ *sim.Fabric, c *Client) error {
		err := errors.Join(atOnce(sp, c, func(page uint64) error { return c.WritePage(context.Background(), page, make([]byte, 4096)) })...)
		before := c.port.driver.Counts().PacketsOut
		err = errors.Join(append(atOnce(sp, c, func(page uint64) error { return c.ReadPage(context.Background(), page, make([]byte, 4096)) }), err)...)
		if n := c.port.driver.Counts().PacketsOut - before; n > crowd/4 || c.Stats().Repeated > 0 {
			return fmt.Errorf("%d calls have sent %d packets, and repeated %d requests; want at most a quarter, and none", crowd, n, c.Stats().Repeated)
		}
		return errors.Join(err, ended(c))
	})
}

// Requests from different lives of a client at a server do not share a bundle, because a bundle
// names only one life. Requests of the last life are answered as if they were sent alone.
func TestRequestsOfTwoLivesAreNotInOneBundle(t *testing.T) {
	withClient(t, ClientConfig{}, func(_ *sim.Process, _ *sim.Fabric, c *Client) error {
		s, ctx := c.servers[0], context.Background()
		c.port.mu.Lock()
		c.collect()
		old := s.epoch
		s.epoch--
		before := []*call{c.begin(s, record{op: opPageIn, page: 1}, nil), c.begin(s, record{op: opPageIn, page: 2}, nil)}
		s.epoch = old
		now := []*call{c.begin(s, record{op: opPageIn, page: 3}, nil), c.begin(s, record{op: opPageIn, page: 99}, nil)}
		c.depart()
		c.port.mu.Unlock()
		for i, want := range []status{statusOK, statusMissing} {
			if c.finish(ctx, now[i]); now[i].answered() != nil || now[i].answer.status != want {
				return fmt.Errorf("request %d of this life: %w, %v; want %v", i, now[i].answered(), now[i].answer.status, want)
			}
			if before[i].done.Load() && before[i].answer.status == statusOK {
				return fmt.Errorf("request %d of another life has a page", i)
			}
		}
		for _, k := range append(before, now...) {
			c.end(k)
		}
		return ended(c)
	})
}

// A server counts a malformed bundle as damaged, answers nothing of it, and continues.
func TestAServerRefusesWhatIsNoBundle(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, _ *sim.Fabric, c *Client) error {
		s := c.servers[0]
		for i, n := range []int{0, 1, bundled - 1, bundled + 1, (mostBundled + 1) * bundled, 4096} {
			c.port.mu.Lock()
			before := c.port.driver.Counts().Received
			k := &call{to: s, record: record{op: opPageIns, volume: c.cfg.Volume, epoch: s.epoch}, data: make([]byte, n)}
			k.record.put(k.header[:])
			c.transmit(k)
			c.port.mu.Unlock()
			// The answer follows the answers to everything that was sent before.
			err := c.ReadPage(context.Background(), 3, make([]byte, 4096))
			st, failed := Stat(context.Background(), sp.Weft(), s.Name)
			if err = errors.Join(err, failed); err != nil {
				return err
			}
			if got := c.port.driver.Counts().Received - before; st.Damaged != uint64(i+1) || got != 1 {
				return fmt.Errorf("behind a bundle of %d bytes the server has found %d damaged and sent %d answers; want %d, and the one to a read", n, st.Damaged, got, i+1)
			}
		}
		return nil
	})
}

// The server does not trust input from others. A valid record is encoded again without a change,
// and the requests of a bundle are served one by one.
func FuzzRequest(f *testing.F) {
	var good [recordLen]byte
	(&record{op: opPageIns, request: 7, volume: 1, epoch: 2, shape: shape{code: Code{1, 1}}}).put(good[:])
	f.Add(good[:], make([]byte, 2*bundled))
	f.Add(good[:recordLen-1], make([]byte, bundled-1))
	f.Add(make([]byte, recordLen), []byte{})
	f.Fuzz(func(t *testing.T, header, data []byte) {
		var r record
		if err := r.parse(header); err == nil {
			var b [recordLen]byte
			if r.put(b[:]); !bytes.Equal(b[:], header) {
				t.Errorf("a record is put as %x that came as %x", b, header)
			}
		} else if !errors.Is(err, errRecord) {
			t.Error(err)
		}
		n := 0
		ok := eachOf(data, func(request uint32, page uint64) {
			at := data[n*bundled:]
			if n++; request != uint32(at[0])|uint32(at[1])<<8|uint32(at[2])<<16|uint32(at[3])<<24 || byte(page) != at[4] || byte(page>>56) != at[11] {
				t.Errorf("request %d is %d for page %d, of % x", n, request, page, at[:bundled])
			}
		})
		if want := len(data) > 0 && len(data) <= mostBundled*bundled && len(data)%bundled == 0; ok != want || ok && n*bundled != len(data) || !ok && n > 0 {
			t.Errorf("%d bytes are a bundle: %v, of %d requests", len(data), ok, n)
		}
	})
}
