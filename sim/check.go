package sim

import (
	"fmt"

	"github.com/weftnet/weft/internal/limits"
)

// check panics if a field is out of range, after the defaults are set: the configuration is a
// constant of the program, so a wrong one is a bug of the program.
func (c *Config) check() {
	within("NICs", c.NICs, 1, limits.TorusSide*limits.TorusSide)
	within("TorusWidth", c.TorusWidth, 0, limits.TorusSide)
	atLeastNone("UnreachableAfter", c.UnreachableAfter)
	l := c.Link
	l.setDefaults()
	within("Link.MTU", l.MTU, limits.LeastFrame, limits.MaxFrame)
	atLeastNone("Link.Latency", l.Latency)
	atLeastNone("Link.Jitter", l.Jitter)
	atLeastNone("Link.Bandwidth", l.Bandwidth)
	atLeastNone("Link.SendQueue", l.SendQueue)
	atLeastNone("Link.RecvQueue", l.RecvQueue)
	f := &c.Faults
	for _, r := range []struct {
		field string
		rate  float64
	}{
		{"Loss", f.Loss}, {"Duplicate", f.Duplicate}, {"Reorder", f.Reorder}, {"Corrupt", f.Corrupt},
		{"Truncate", f.Truncate}, {"Delay", f.Delay},
	} {
		within("Faults."+r.field, r.rate, 0, 1)
	}
	atLeastNone("Faults.LossBurst", f.LossBurst)
	atLeastNone("Faults.DelayMax", f.DelayMax)
	for _, e := range []struct {
		field string
		of    Episodes
	}{{"Partitions", f.Partitions}, {"Clogs", f.Clogs}, {"Stalls", f.Stalls}, {"Reboots", f.Reboots}} {
		atLeastNone("Faults."+e.field+".Every", e.of.Every)
		atLeastNone("Faults."+e.field+".Lasting", e.of.Lasting)
	}
}

func within[T int | float64](field string, value, least, most T) {
	if !(value >= least && value <= most) { // in this form it also refuses NaN
		panic(fmt.Sprintf("sim: Config.%s is %v; expected %v to %v", field, value, least, most))
	}
}

func atLeastNone[T ~int | ~int64 | ~float64](field string, value T) {
	if !(value >= 0) {
		panic(fmt.Sprintf("sim: Config.%s is %v; expected 0 or more", field, value))
	}
}
