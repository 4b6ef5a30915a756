package netmem

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/sim"
)

// several is a client of some servers on a quiet network.
type several struct {
	*Client
	f       *sim.Fabric
	sp      *sim.Process
	servers []*Server
	running []*sim.Process
	at      []weft.Name
}

// onSeveral runs life with a client of one server for each element of rooms. The element is the
// number of 8 KiB pages of the server. The client has written the first pages. The value full
// means as many pages as there is room for.
func onSeveral(t *testing.T, rooms []int, pages uint64, cfg ClientConfig, life func(w *several) error) {
	t.Helper()
	w := &several{f: sim.New(sim.Config{Seed: 1, NICs: 1 + len(rooms)}), servers: make([]*Server, len(rooms))}
	for i, room := range rooms {
		w.at = append(w.at, weft.Name{App: "memory", Index: uint32(i)})
		cfg.Servers = append(cfg.Servers, ServerRef{Name: w.at[i]})
		w.running = append(w.running, w.f.Serve(1+i, w.at[i].String(), func(sp *sim.Process) (err error) {
			if w.servers[i], err = Serve(sp.Weft(), ServerConfig{Bytes: room * hsn.MaxPage}); err != nil {
				return err
			}
			return sleep(sp, 24*time.Hour)
		}))
	}
	w.f.Process(0, "client/0", func(sp *sim.Process) (err error) {
		if w.Client, err = NewClient(context.Background(), sp.Weft(), cfg); err != nil {
			return err
		}
		defer w.Close()
		w.sp = sp
		if err := w.write(pages); err != nil && !(pages == full && errors.Is(err, ErrFull)) {
			return err
		}
		return life(w)
	})
	if err := w.f.Run(24 * time.Hour); err != nil {
		t.Error(err)
	}
}

const full = ^uint64(0)

// write writes the first pages, each with different bytes.
func (w *several) write(pages uint64) error {
	for i := range pages {
		page := make([]byte, hsn.HalfPage)
		page[0], page[1] = byte(i), byte(i>>8)
		if err := w.WritePage(context.Background(), i, page); err != nil {
			return err
		}
	}
	return nil
}

// reads checks that the first pages have the content from write.
func (w *several) reads(pages uint64) error {
	page := make([]byte, hsn.HalfPage)
	for i := range pages {
		if err := w.ReadPage(context.Background(), i, page); err != nil || page[0] != byte(i) || page[1] != byte(i>>8) {
			return fmt.Errorf("page %d: %w, or other bytes", i, err)
		}
	}
	return nil
}

// asked returns the number of pages read from the servers, and the number of writes that they
// refused because they were full.
func (w *several) asked() (ins, refused uint64) {
	for _, s := range w.servers {
		st := s.Stats()
		ins, refused = ins+st.PageIns, refused+st.Full
	}
	return ins, refused
}

// A repair reads at most as many pages per second as it may copy, also if the servers have no
// room for the copies. In that case it reads less and less often, until there is room.
func TestRepairKeepsItsPaceWhereTheServersAreFull(t *testing.T) {
	for _, perSecond := range []int{10, 0} { // the second: 64 MiB
		onSeveral(t, []int{32, 32, 32}, full, ClientConfig{Copies: 2, RepairBytes: perSecond * hsn.HalfPage}, func(w *several) error {
			w.f.Kill(w.running[0])
			sleep(w.sp, 3*time.Second)
			lacking := uint64(w.Stats().Lacking)
			if lacking == 0 {
				return errors.New("no page lacks a copy")
			}
			begun, _ := w.asked()
			sleep(w.sp, 10*time.Second)
			ins, _ := w.asked()
			if most := uint64(10*perSecond + repairers); perSecond > 0 && ins-begun > most {
				return fmt.Errorf("%d pages were read for copies in 10 s; expected %d at most", ins-begun, most)
			}
			sleep(w.sp, time.Minute)
			begun, refusedBefore := w.asked()
			sleep(w.sp, time.Minute)
			ins, refused := w.asked()
			most := (uint64(time.Minute/fullMost) + 1) * lacking
			if ins-begun > most || refused-refusedBefore > most {
				return fmt.Errorf("for %d pages that there is no room for, %d pages were read and %d refused in a minute; expected %d at most", lacking, ins-begun, refused-refusedBefore, most)
			}
			for i := range uint64(w.Stats().Pages / 2) {
				if err := w.DiscardPage(context.Background(), i); err != nil {
					return err
				}
			}
			sleep(w.sp, fullMost+time.Duration(lacking)*time.Second/10)
			if st := w.Stats(); st.Lacking > 0 {
				return fmt.Errorf("%d pages lack copies when there is room for them", st.Lacking)
			}
			return nil
		})
	}
}
