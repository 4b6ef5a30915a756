package programs_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/program"
	"github.com/weftnet/weft/sim"
)

// Each NIC has the program under another number, with one key. A process asks for each key of
// the others: one SEND reaches all of them.
func TestALookUpByMulticastFindsTheNICThatHasTheKey(t *testing.T) { // PANIC-7
	const hosts, first = 5, 430
	each(t, hosts, func(t *testing.T, f *sim.Fabric) {
		for host := range hosts {
			load(t, f, host, vm.ID(first+host), "lookup.pdl")
		}
		for host := 1; host < hosts; host++ {
			f.Process(host, fmt.Sprintf("keeper/%d", host), func(p *sim.Process) error {
				return handled(p, program.ID(first+host), 1, uint64(100+host), uint64(1000*host))
			})
		}
		f.Process(0, "asker/0", func(p *sim.Process) error {
			// the keys are set, and the NICs have told one another of their programs
			sleep(p, time.Second)
			buf := make([]byte, 64)
			for host := 1; host < hosts; host++ {
				if err := handled(p, first, 2, uint64(100+host), number(p)); err != nil {
					return err
				}
				m, err := p.Recv(context.Background(), program.NameOf(first), 4, buf)
				if err != nil {
					return err
				}
				if want := words(uint64(100+host), uint64(1000*host)); !bytes.Equal(buf[:m.Len], want) {
					return fmt.Errorf("key %d has the value %x, expected %x", 100+host, buf[:m.Len], want)
				}
			}
			if info, _ := simulated.Engine(f, 1).Programs().Info(first + 1); info.Profile.Activations != 1+1+hosts-1 {
				return fmt.Errorf("the program of a NIC was activated %d times", info.Profile.Activations)
			}
			return nil
		})
	})
}
