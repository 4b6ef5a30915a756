package weft_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/testbed"
)

// TestALinkThatCannotBeHadIsRefusedWithTheCause covers the other causes.
func TestAFXDPIsRefusedToWhoHasNoPrivilegesWithTheCause(t *testing.T) {
	bed := newBed(t, testbed.Config{Hosts: 1})
	config, err := json.Marshal(weft.Config{Name: weft.Name{App: "a"}, ID: 1, Link: weft.XDP(fmt.Sprintf("%v:0", bed.Host(0).Addr()))})
	if err != nil {
		t.Fatal(err)
	}
	// A NIC that opens would run for ever.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nobody := bed.Host(0).Command(ctx, "/proc/self/exe")
	nobody.Env = append(os.Environ(), echoVariable+"="+string(config))
	nobody.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	said, err := nobody.Output()
	if errors.Is(err, os.ErrPermission) {
		t.Skip("another user cannot run the test's binary")
	}
	for _, want := range []string{"failed: weft: xdp: interface eth0: ", "AF_XDP unavailable", "needs CAP_NET_ADMIN"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("without privileges: %s, %v; expected %q", said, err, want)
		}
	}
}
