package netmem

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/hsn"
)

// tooMany is more messages than the driver and the NIC hold while the NIC sends none.
const tooMany = 4000

// An answer holds its page in memory until it is sent. If the send queue has no room for an
// answer, the answer is lost and holds nothing.
func TestAnswersThatTheSendQueueHasNoRoomForHoldNoPage(t *testing.T) {
	onSeveral(t, []int{64}, 4, ClientConfig{}, func(w *several) error {
		s, a := w.servers[0], w.sp.Weft().Address()
		to := hsn.Host{NIC: uint64(a.NIC), Slot: a.Slot, Gen: a.Generation}
		w.f.Stall(1, time.Second)
		s.port.mu.Lock()
		page := s.store.at(pageKey{owner: w.sp.Weft().Name(), page: 1})
		for range tooMany {
			s.reply(to, &record{op: opPageIn}, page) // no call waits for it
		}
		made, pins := len(s.answers), page.frame.pins
		s.port.sentBeside()
		s.port.mu.Unlock()
		if made == 0 || made > tooMany/2 || pins > made {
			return fmt.Errorf("%d answers were made and hold the page %d times; expected that most are lost", made, pins)
		}
		sleep(w.sp, 10*time.Second)
		s.port.mu.Lock()
		defer s.port.mu.Unlock()
		if free := len(s.free); page.frame.pins != 0 || free != len(s.answers) {
			return fmt.Errorf("answers hold the page %d times, and %d of %d are free", page.frame.pins, free, len(s.answers))
		}
		return nil
	})
}

// A request holds the memory of its page until it is sent. If the send queue has no room for a
// transmission, the transmission is lost and holds nothing, so the call ends.
func TestRequestsThatTheSendQueueHasNoRoomForHoldNoMemory(t *testing.T) {
	onSeveral(t, []int{64}, 4, ClientConfig{}, func(w *several) error {
		c := w.Client
		w.f.Stall(0, time.Second)
		c.port.mu.Lock()
		k := c.begin(c.servers[0], record{op: opPageOut, page: 9}, make([]byte, hsn.HalfPage))
		for range tooMany {
			c.again(k)
		}
		held := k.held
		c.port.mu.Unlock()
		if held == 0 || held > tooMany/2 {
			return fmt.Errorf("%d of %d transmissions hold the memory; expected that most are lost", held, tooMany)
		}
		over := false
		c.p.Runtime().Go(func() {
			c.end(k)
			over = true
		})
		sleep(w.sp, 10*time.Second)
		c.port.mu.Lock()
		defer c.port.mu.Unlock()
		if !over || len(c.sends) > 0 {
			return fmt.Errorf("10 s later, the call has ended: %v, and %d transmissions hold memory", over, len(c.sends))
		}
		return nil
	})
}
