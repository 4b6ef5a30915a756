package netmem

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// withClient runs life with a client of one server. Pages 0 to 15 are written.
func withClient(t *testing.T, cfg ClientConfig, life func(sp *sim.Process, f *sim.Fabric, c *Client) error) {
	t.Helper()
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	name := weft.Name{App: "memory"}
	f.Serve(1, name.String(), func(sp *sim.Process) error {
		if _, err := Serve(sp.Weft(), ServerConfig{Bytes: 512 * 8192}); err != nil {
			return err
		}
		return sleep(sp, time.Hour)
	})
	f.Process(0, "client/0", func(sp *sim.Process) error {
		cfg.Servers = []ServerRef{{Name: name}}
		c, err := NewClient(context.Background(), sp.Weft(), cfg)
		if err != nil {
			return err
		}
		defer c.Close()
		for i := range uint64(16) {
			if err := c.WritePage(context.Background(), i, make([]byte, 4096)); err != nil {
				return err
			}
		}
		return life(sp, f, c)
	})
	if err := f.Run(time.Minute); err != nil {
		t.Error(err)
	}
}

func TestACallThatIsAloneTakesInItsPacketsItself(t *testing.T) {
	withClient(t, ClientConfig{}, func(_ *sim.Process, _ *sim.Fabric, c *Client) error {
		buf := make([]byte, 4096)
		for i := range uint64(16) {
			if c.port.pump.busy || c.port.pump.waiting != 0 {
				return fmt.Errorf("before read %d another goroutine takes in packets, or %d calls wait", i, c.port.pump.waiting)
			}
			alone := c.port.pump.alone
			if err := c.ReadPage(context.Background(), i, buf); err != nil {
				return err
			}
			if c.port.pump.alone != alone+1 {
				return fmt.Errorf("read %d has not taken in its packets itself", i)
			}
		}
		return nil
	})
}

func TestOfCallsTogetherOneGoroutineTakesInThePackets(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, _ *sim.Fabric, c *Client) error {
		var failed error
		left := 4
		for k := range uint64(4) {
			sp.Start("reader", func(*sim.Process) error {
				buf := make([]byte, 4096)
				for i := range uint64(8) {
					failed = errors.Join(failed, c.ReadPage(context.Background(), (4*k+i)%16, buf))
				}
				left--
				c.p.Runtime().Wake()
				return nil
			})
		}
		if err := c.p.Runtime().WaitUntil(context.Background(), func() bool { return left == 0 }); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
		if st := c.Stats(); !c.port.pump.busy || c.port.pump.waiting != 0 || st.Repeated != 0 {
			return fmt.Errorf("run rests: %v; %d calls wait; %d requests were repeated", !c.port.pump.busy, c.port.pump.waiting, st.Repeated)
		}
		buf := make([]byte, 4096)
		for i := range uint64(aloneFor + 1) {
			if err := c.ReadPage(context.Background(), i, buf); err != nil {
				return err
			}
		}
		if c.port.pump.busy {
			return errors.New("run does not rest though calls are alone again")
		}
		return nil
	})
}

func TestARequestIsRepeatedWhenItsAnswerIsLateAndNotBefore(t *testing.T) {
	const retry = 3 * time.Millisecond
	withClient(t, ClientConfig{Retry: retry}, func(sp *sim.Process, f *sim.Fabric, c *Client) error {
		f.Stall(1, 10*retry)
		begun, done := sp.Runtime().Now(), false
		sp.Start("reader", func(*sim.Process) error {
			err := c.ReadPage(context.Background(), 1, make([]byte, 4096))
			done = true
			return err
		})
		for !done {
			n, took := c.Stats().Repeated, sp.Runtime().Now().Sub(begun)
			if n > 0 && took < retry || n == 0 && took > retry+time.Millisecond {
				return fmt.Errorf("%v after it was sent a request was repeated %d times; expected to be once it was late by %v", took, n, retry)
			}
			sleep(sp, 100*time.Microsecond)
		}
		if n := len(c.port.late.list); n != 0 {
			return fmt.Errorf("%d calls are listed when none waits", n)
		}
		return nil
	})
}
