package fault_test

import (
	"testing"

	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/shm"
)

func TestSharedMemoryWithoutFaults(t *testing.T) {
	listen := func(tb testing.TB) link.Driver {
		d, err := shm.Listen(shm.Config{})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { d.Close() })
		return fault.Wrap(d, fault.Config{})
	}
	linktest.Run(t, linktest.Suite{
		Make:    func(tb testing.TB) (a, b link.Driver) { return listen(tb), listen(tb) },
		Bounded: true,
	})
}
