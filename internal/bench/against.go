package bench

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/bench/limit"
	"github.com/weftnet/weft/internal/testbed"
)

// checkAgainst returns an error if the measurement cannot be compared with a limit.
func (o *Options) checkAgainst() error {
	switch {
	case kindOf(o.Kind).limit == nil:
		return fmt.Errorf("--against limit: expected none, since bench %s has no limit that is measured", o.Kind)
	case o.Link == LinkMem:
		return fmt.Errorf(
			"--against limit with --link mem: expected shm, udp or xdp, since mem joins NICs of one process")
	case o.Host != "":
		return fmt.Errorf("--against limit with a host (%s): expected none, since the limit is measured on this one",
			o.Host)
	case o.Lossy:
		return fmt.Errorf("--against limit with --loss: expected one or the other, since the limits repeat nothing")
	case slices.Max(o.Sizes) > limit.MaxSize:
		return fmt.Errorf("--against limit with --size %d: expected at most %d", slices.Max(o.Sizes), limit.MaxSize)
	}
	return CheckRounds(o.Time, o.Rounds)
}

// mtu returns the MTU of the cable, in bytes.
func (o *Options) mtu() int { return cmp.Or(o.MTU, testbed.DefaultMTU) }

// limitLacks names the parts of Weft that its limit lacks. In the limits of rates and
// bandwidths, messages pass no relays.
func (o *Options) limitLacks() string {
	if o.Deployment != DeployedEmbedded && !kindOf(o.Kind).Trips {
		return " without daemons"
	}
	return ""
}
