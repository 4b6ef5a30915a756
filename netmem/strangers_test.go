package netmem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/sim"
)

// Any process may send to the port of a client or a server. A datagram or message that is longer
// than the receiver's memory for it is discarded, and ends nothing.
func TestLongDatagramsAndMessagesOfStrangersEndNeitherClientsNorServers(t *testing.T) {
	sent, ended := false, false
	lone(t, ServerConfig{Bytes: 64 * hsn.MaxPage}, map[string]func(sp *sim.Process, s *Server) error{
		"client/0": func(sp *sim.Process, s *Server) error {
			c, err := open(sp, 4)
			if err != nil {
				return err
			}
			defer c.Close()
			defer func() { ended = true }()
			for !sent {
				sleep(sp, 100*time.Millisecond)
			}
			if n := c.port.driver.Counts().Malformed; n == 0 {
				t.Error("no long datagram came to the client")
			}
			if n := s.port.driver.Counts().Malformed; n == 0 {
				t.Error("no long datagram came to the server")
			}
			page := bytes.Repeat([]byte{7}, hsn.HalfPage)
			if err := c.WritePage(context.Background(), 1, page); err != nil {
				return fmt.Errorf("a write behind them: %w", err)
			}
			got := make([]byte, hsn.HalfPage)
			if err := c.ReadPage(context.Background(), 1, got); err != nil || !bytes.Equal(got, page) {
				return fmt.Errorf("a read behind them: %w", err)
			}
			within, cancel := sp.Runtime().WithTimeout(context.Background(), time.Second)
			defer cancel()
			if _, err := Stat(within, sp.Weft(), weft.Name{App: "memory"}); err != nil {
				return err
			}
			return nil
		},
		"stranger/0": func(sp *sim.Process, _ *Server) error {
			ctx, p := context.Background(), sp.Weft()
			own, err := p.Port(pagePort)
			if err != nil {
				return err
			}
			client := weft.Name{App: "client"}
			if _, err := p.WaitName(ctx, client); err != nil {
				return err
			}
			sleep(sp, time.Second)
			server := weft.Name{App: "memory"}
			long := make([]byte, weft.MaxDatagram)
			for range 20 {
				err := errors.Join(own.Peer(client).SendDatagram(ctx, pageTag, long), own.Peer(server).SendDatagram(ctx, pageTag, long),
					own.Peer(client).Send(ctx, lifeTag, long), own.Peer(server).Send(ctx, lifeTag, long), p.Peer(server).Send(ctx, statTag, long))
				if err != nil {
					return err
				}
			}
			within, cancel := sp.Runtime().WithTimeout(ctx, time.Second)
			defer cancel()
			// The message is long enough to wait for a receive.
			err = own.Peer(server).SendDelivered(within, lifeTag, make([]byte, 20<<10))
			if !errors.Is(err, weft.ErrTruncated) {
				return fmt.Errorf("the server takes no introductions behind them: %w", err)
			}
			for sent = true; !ended; {
				sleep(sp, 100*time.Millisecond)
			}
			return nil
		},
	})
}

// The numbers of requests can be guessed. An answer counts only if it is from the process that
// was asked.
func TestAnAnswerThatAnotherProcessForgesIsDiscarded(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, f *sim.Fabric, c *Client) error {
		f.Clog(0, 1, time.Second)
		over, failed := false, error(nil)
		c.p.Runtime().Go(func() {
			failed = c.ReadPage(context.Background(), 3, make([]byte, hsn.HalfPage))
			over = true
			c.p.Runtime().Wake()
		})
		sleep(sp, time.Millisecond)
		c.port.mu.Lock()
		forged, taken := 0, error(nil)
		for _, k := range c.calls {
			to := k.to.host()
			for _, from := range []hsn.Host{{NIC: to.NIC + 1, Slot: to.Slot, Gen: to.Gen}, {NIC: to.NIC, Slot: to.Slot + 1, Gen: to.Gen}, {NIC: to.NIC, Slot: to.Slot, Gen: to.Gen + 1}} {
				for _, st := range []status{statusOK, statusMissing, statusEpoch} {
					answer := k.record
					answer.status = st
					header := make([]byte, recordLen)
					answer.put(header)
					c.receive(c.port.now(), hsn.Message{From: from, Header: header})
					if forged++; k.done.Load() {
						taken = fmt.Errorf("an answer from %+v was taken, though %+v was asked", from, to)
						k.done.Store(false)
					}
				}
			}
		}
		c.port.mu.Unlock()
		if forged == 0 || taken != nil {
			return fmt.Errorf("%d forged answers: %w", forged, taken)
		}
		return errors.Join(c.p.Runtime().WaitUntil(context.Background(), func() bool { return over }), failed)
	})
}

// Each process that sends a datagram gets an entry in the table of senders. The table stays
// bounded, and a full table does not prevent an answer.
func TestTheTableOfSendersIsBounded(t *testing.T) {
	withClient(t, ClientConfig{}, func(_ *sim.Process, _ *sim.Fabric, c *Client) error {
		c.port.mu.Lock()
		clear(c.port.names)
		for i := range uint32(portNames) {
			c.port.names[hsn.Host{NIC: 1 << 20, Gen: i}] = weft.Name{App: "stranger", Index: i}
		}
		c.port.mu.Unlock()
		if err := c.ReadPage(context.Background(), 3, make([]byte, hsn.HalfPage)); err != nil {
			return fmt.Errorf("a read with a full table: %w", err)
		}
		c.port.mu.Lock()
		defer c.port.mu.Unlock()
		if n := len(c.port.names); n == 0 || n > portNames {
			return fmt.Errorf("the table has %d senders; expected 1 to %d", n, portNames)
		}
		return nil
	})
}
