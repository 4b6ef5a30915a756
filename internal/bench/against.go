package bench

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/bench/limit"
	"github.com/weftnet/weft/internal/testbed"
)

// checkAgainst says why there is no comparing with a limit.
func (o *Options) checkAgainst() error {
	switch {
	case o.Link == LinkMem:
		return fmt.Errorf("--against limit with --link mem: expected shm, udp or xdp, since mem joins NICs of one process")
	case o.Host != "":
		return fmt.Errorf("--against limit with a host (%s): expected none, since the limit is measured on this one", o.Host)
	case o.Lossy:
		return fmt.Errorf("--against limit with --loss: expected one or the other, since the limits repeat nothing")
	case slices.Max(o.Sizes) > limit.MaxSize:
		return fmt.Errorf("--against limit with --size %d: expected at most %d", slices.Max(o.Sizes), limit.MaxSize)
	}
	return CheckRounds(o.Time, o.Rounds)
}

// mtu is that of the cable.
func (o *Options) mtu() int {
	if o.MTU == 0 {
		return testbed.DefaultMTU
	}
	return o.MTU
}

// limit names the limit that a measurement is compared with: the barest program that goes the same way.
func (o *Options) limit(size int) string {
	switch {
	case o.Kind == KindRate:
		return map[string]string{LinkShm: "ring", LinkNone: "ring", LinkUDP: "udp-rate", LinkXDP: "xdp-rate"}[o.Link]
	case o.Kind == KindBandwidth:
		return map[string]string{LinkShm: "stream", LinkNone: "stream", LinkUDP: "udp-bandwidth", LinkXDP: "xdp-bandwidth"}[o.Link]
	case o.Deployment == DeployedShared:
		return "chain-shm"
	case o.Link == LinkShm && size > 64:
		return "copy"
	case o.Link == LinkShm:
		return "line"
	case o.Deployment == DeployedDaemon:
		return map[string]string{LinkUDP: "chain", LinkXDP: "chain-xdp"}[o.Link]
	}
	return o.Link
}

// limitLacks says what Weft has and its limit has not: rates and bandwidths have no limit whose messages pass relays.
func (o *Options) limitLacks() string {
	if o.Deployment != DeployedEmbedded && o.Kind != KindLatency {
		return " without daemons"
	}
	return ""
}
