package weft_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/refusal/refusaltest"
)

// The kernel would kill a program that touches a region for which its cgroup has no memory.
func TestARegionThatTheCgroupHasNoRoomForIsRefused(t *testing.T) {
	said := refusaltest.RunLimited(t, "alloc", 100<<20, func() string {
		p, err := weft.Open(context.Background(), weft.Config{Name: weft.Name{App: "app"}, Link: weft.NewSwitch().Link()})
		if err != nil {
			return err.Error()
		}
		defer p.Close()
		if _, err := p.Alloc(16 << 20); err != nil {
			return fmt.Sprintf("16 MiB: %v", err)
		}
		_, err = p.Alloc(256 << 20)
		return fmt.Sprintf("%v: %v", errors.Is(err, weft.ErrNoMemory), err)
	})
	for _, want := range []string{"true: ", "268435456 bytes of memory; the cgroup limit 100 MiB (/", "available; raise the limit"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q; expected %q in it", said, want)
		}
	}
}
