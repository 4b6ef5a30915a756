package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// The NIC reports at once that a process has ended, that the NIC itself has ended, or that it has
// restarted. A Read of a stream to such a process does not wait for the keepalive times, even if
// KeepAlive is negative. It returns the bytes that had arrived, and then fails. A stream to
// another process goes on.
func TestAStreamFailsSoonBehindWhatItsPeerSaidBeforeItEnded(t *testing.T) {
	const soon = 4 * time.Second
	said := bytes.Repeat([]byte("what it said last "), 500)
	for name, ends := range map[string]func(f *sim.Fabric, p *sim.Process){
		"its process returns":   func(*sim.Fabric, *sim.Process) {},
		"its process is killed": func(f *sim.Fabric, p *sim.Process) { f.Kill(p); sleep(p, time.Hour) },
		"its NIC begins anew": func(f *sim.Fabric, p *sim.Process) {
			f.Reboot(0, 100*time.Millisecond)
			sleep(p, time.Hour)
		},
	} {
		f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 3, Faults: sim.Faults{Loss: 0.05, Reorder: 0.05}})
		var ended time.Time
		f.Serve(0, "a/0", func(p *sim.Process) error {
			l, err := stream.Listen(p.Weft(), "x")
			if err != nil {
				return err
			}
			c, err := l.Accept()
			if err != nil {
				return err
			}
			if _, err := c.Write(said); err != nil {
				return err
			}
			sleep(p, time.Second)
			ended = p.Runtime().Now()
			ends(f, p)
			return nil
		})
		f.Serve(1, "b/0", acceptAll)
		f.Process(2, "c/0", func(p *sim.Process) error {
			d := &stream.Dialer{Process: p.Weft(), KeepAlive: -1}
			var both [2]*stream.Conn
			for i, app := range []string{"a", "b"} {
				_, err := p.Weft().WaitName(context.Background(), weft.Name{App: app})
				if err == nil {
					both[i], err = d.Dial(context.Background(), app+"/0:x")
				}
				if err != nil {
					return err
				}
			}
			got, err := io.ReadAll(both[0])
			if !bytes.Equal(got, said) || !errors.Is(err, syscall.ECONNRESET) || p.Runtime().Now().Sub(ended) > soon {
				return fmt.Errorf("%d of %d bytes were read, and then %w, %v behind the end; expected all, and a reset", len(got), len(said), err, p.Runtime().Now().Sub(ended))
			}
			sleep(p, time.Minute)
			if _, err := both[1].Write([]byte("x")); err != nil {
				return fmt.Errorf("a Write to another process: %w", err)
			}
			return nil
		})
		if err := f.Run(time.Hour); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
