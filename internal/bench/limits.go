package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/bench/limit"
)

// KindLimits is the measurement of what the ground allows.
const KindLimits = "limits"

// LimitsOptions say which limits to measure.
type LimitsOptions struct {
	Self   string        // path of the weft binary
	Names  []string      // empty: all
	Time   time.Duration // for each size
	Rounds int           // in which that time is spent; what counts is their median
	MTU    int           // of the cable between the two hosts
}

// LimitRow is one limit with one size.
type LimitRow struct {
	Limit string `json:"limit"`
	Size  int    `json:"size"` // bytes
	limit.Result
}

// LimitNames lists the limits.
func LimitNames() (names []string) {
	for _, l := range limit.All() {
		names = append(names, l.Name)
	}
	return names
}

// RunLimits measures limits, all of them in each round, so that a machine that is slow for a while is slow for all; it
// hands over their medians. Limits that cannot be had here are left out, and said to be missing, unless they were named.
func RunLimits(ctx context.Context, o LimitsOptions, missing func(name string, why error), out func(LimitRow) error) (err error) {
	all := limit.All()
	if len(o.Names) > 0 {
		all = slices.DeleteFunc(all, func(l limit.Limit) bool { return !slices.Contains(o.Names, l.Name) })
	}
	here, err := limit.NewGround(o.Self, o.MTU, false)
	if err != nil {
		return err
	}
	between, err := limit.NewGround(o.Self, o.MTU, true)
	if err == nil {
		defer func() { err = errors.Join(err, between.Close()) }()
	}
	noHosts := err
	type key struct {
		name string
		size int
	}
	results, gone := map[key][]limit.Result{}, map[string]bool{}
	for range o.Rounds {
		for _, l := range all {
			ground := here
			if l.Veth {
				ground = between
			}
			for _, size := range l.Sizes {
				if gone[l.Name] {
					break
				}
				var r limit.Result
				err := noHosts
				if !l.Veth || err == nil {
					r, err = ground.Measure(ctx, l.Name, size, o.Time/time.Duration(o.Rounds))
				}
				switch {
				case err == nil:
					results[key{l.Name, size}] = append(results[key{l.Name, size}], r)
				case len(o.Names) > 0 || ctx.Err() != nil || !unavailable(err):
					return err
				default:
					gone[l.Name] = true
					missing(l.Name, err)
				}
			}
		}
	}
	for _, l := range all {
		for _, size := range l.Sizes {
			if rs := results[key{l.Name, size}]; len(rs) > 0 {
				if err := out(LimitRow{l.Name, size, limit.Median(rs).Only(l.Kind)}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// unavailable reports whether a limit cannot be had here, rather than being broken. The processes say it in words.
func unavailable(err error) bool {
	return errors.Is(err, limit.ErrUnavailable) || strings.Contains(err.Error(), limit.ErrUnavailable.Error())
}

// LimitChild is what a process that a limit has started does.
func LimitChild(told string, in io.Reader, out io.Writer) error { return limit.RunChild(told, in, out) }

// Figure is the row's figure, as people read it.
func (r LimitRow) Figure() string {
	switch {
	case r.P50 > 0:
		return fmt.Sprintf("%12.2f µs", float64(r.P50)/1e3)
	case r.MessagesPerSec > 0:
		return fmt.Sprintf("%12.3f M/s", r.MessagesPerSec/1e6)
	}
	return fmt.Sprintf("%12.3f GB/s", r.BytesPerSec/1e9)
}

// LimitMeans says in words what a limit is.
func LimitMeans(name string) string {
	l, _ := limit.Find(name)
	return l.What
}
