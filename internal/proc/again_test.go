package proc

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/weftnet/weft/internal/vni"
)

// Close waits for operations that start forms have begun. Before Close notices the end of such an
// operation, its user may notice it and try to begin the Op again. That attempt fails, and must
// harm neither Close nor the Op.
func TestAnOpThatAClosedProcessRefusesStaysAsItWas(t *testing.T) {
	for range 200 {
		_, a, b := parkedPair(t, vni.DefaultGeometry(false), false)
		o := new(Op)
		buf := make([]byte, 64)
		if err := a.StartRecvInto(o, app(t, "app/1"), Tagged(1), buf); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
		for {
			_, ended := o.Wait(context.Background())
			err := a.StartRecvInto(o, app(t, "app/1"), Tagged(1), buf)
			if err == nil {
				continue
			}
			if _, again := o.Wait(context.Background()); !errors.Is(err, ErrClosed) || again != ended {
				t.Errorf("an Op that had ended with %v was refused with %v, and then ended with %v", ended, err, again)
			}
			break
		}
		both.Wait()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
