package programs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	nicprogram "github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// The tenant sends 2 MB as fast as it can. The data leaves at 100 MB/s after a burst of 64 KiB,
// and all of it arrives.
func TestATenantSendsNoFasterThanItsShaperLetsIt(t *testing.T) { // PANIC-7
	const size, messages, burst, perMicrosecond = 1024, 2048, 64 << 10, 100
	each(t, 2, func(t *testing.T, f *sim.Fabric) {
		name, _ := vni.ParseName("tenant/0")
		spec := nicprogram.Spec{Module: compiled(t, "../pdl/shaper.pdl"), ID: 401, Start: true, Guards: name, Outgoing: true, Trigger: 1}
		if _, _, err := simulated.Engine(f, 0).Programs().Load(spec); err != nil {
			t.Fatal(err)
		}
		simulated.Turn(f, 0)
		ctx, sink := context.Background(), weft.Name{App: "sink"}
		var began time.Time
		f.Process(1, sink.String(), func(p *sim.Process) error {
			b := make([]byte, size)
			for got := 1; got <= messages; got++ {
				m, err := p.Recv(ctx, weft.AnyProcess, weft.AnyTag, b)
				if err != nil {
					return err
				}
				if int(m.Tag) != got {
					return fmt.Errorf("message %d has come in place of message %d", m.Tag, got)
				}
				if lasted := p.Runtime().Now().Sub(began); got*size > burst+int(perMicrosecond*(lasted.Microseconds()+1)) {
					return fmt.Errorf("%d bytes have come within %v", got*size, lasted)
				}
			}
			return nil
		})
		f.Process(0, name.String(), func(p *sim.Process) error {
			if _, err := p.WaitName(ctx, sink); err != nil {
				return err
			}
			began = p.Runtime().Now()
			for i := range messages {
				if err := p.Send(ctx, sink, weft.Tag(i+1), make([]byte, size)); err != nil {
					return err
				}
			}
			if info, _ := simulated.Engine(f, 0).Programs().Info(401); info.Delayed < messages/2 || info.Dropped > 0 {
				return fmt.Errorf("the shaper has delayed %d messages and refused %d", info.Delayed, info.Dropped)
			}
			return nil
		})
	})
}
