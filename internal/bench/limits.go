package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/bench/limit"
)

// KindLimits is the measurement of what the machine and the kernel allow.
const KindLimits = "limits"

// LimitsOptions say which limits to measure.
type LimitsOptions struct {
	Self   string        // path of the weft binary
	Names  []string      // empty: all
	Time   time.Duration // for each size
	Rounds int           // over which that time is spread; the figure is their median
	MTU    int           // of the cable between the two hosts

	Missing func(name string, why error) // called with each limit that cannot be measured here
}

// LimitRow is the result of one limit at one size.
type LimitRow struct {
	Limit  string `json:"limit"`
	Sealed bool   `json:"sealed"` // its datagrams
	Size   int    `json:"size"`   // bytes
	limit.Result
}

// LimitNames lists the limits.
func LimitNames() (names []string) {
	for _, l := range limit.All() {
		names = append(names, l.Name)
	}
	return names
}

// RunLimits measures limits, all of them in each round, so a machine that is slow for a while is
// slow for all. It passes their medians to out. A limit that cannot be measured here is left out
// and reported to Missing, unless it was named.
func RunLimits(ctx context.Context, o LimitsOptions, out func(LimitRow) error) (err error) {
	here, err := limit.NewGround(o.Self, o.MTU, false)
	if err != nil {
		return err
	}
	between, noHosts := limit.NewGround(o.Self, o.MTU, true)
	if noHosts == nil {
		defer func() { err = errors.Join(err, between.Close()) }()
	}
	measure := func(l limit.Limit, size int) (limit.Result, error) {
		d := o.Time / time.Duration(o.Rounds)
		switch {
		case !l.Veth:
			return here.Measure(ctx, l.Name, size, d)
		case noHosts != nil:
			return limit.Result{}, noHosts
		}
		return between.Measure(ctx, l.Name, size, d)
	}
	results, gone := make(map[LimitRow][]limit.Result), make(map[string]bool)
	rows := o.rows()
	for range o.Rounds {
		for _, row := range rows {
			if gone[row.Limit] {
				continue
			}
			l, _ := limit.Find(row.Limit)
			switch res, err := measure(l, row.Size); {
			case err == nil:
				results[row] = append(results[row], res)
			case len(o.Names) > 0 || ctx.Err() != nil || !unavailable(err):
				return err
			default:
				gone[l.Name] = true
				o.Missing(l.Name, err)
			}
		}
	}
	for _, row := range rows {
		if rs := results[row]; len(rs) > 0 {
			l, _ := limit.Find(row.Limit)
			row.Result = limit.Median(rs).Only(l.Kind)
			if err := out(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// rows returns the rows of the requested limits, without their results.
func (o *LimitsOptions) rows() (all []LimitRow) {
	for _, l := range limit.All() {
		if len(o.Names) > 0 && !slices.Contains(o.Names, l.Name) {
			continue
		}
		for _, size := range l.Sizes {
			all = append(all, LimitRow{Limit: l.Name, Sealed: l.Sealed, Size: size})
		}
	}
	return all
}

// unavailable reports whether err means that a limit cannot be measured here, rather than that
// it is broken. The child processes report that only as text.
func unavailable(err error) bool {
	return errors.Is(err, limit.ErrUnavailable) || strings.Contains(err.Error(), limit.ErrUnavailable.Error())
}

// Figure formats the row's figure for people.
func (r LimitRow) Figure() string {
	switch {
	case r.P50 > 0:
		return fmt.Sprintf("%12.2f µs", float64(r.P50)/1e3)
	case r.MessagesPerSec > 0:
		return fmt.Sprintf("%12.3f M/s", r.MessagesPerSec/1e6)
	}
	return fmt.Sprintf("%12.3f GB/s", r.BytesPerSec/1e9)
}

// LimitMeans describes a limit in words.
func LimitMeans(name string) string {
	l, _ := limit.Find(name)
	return l.What
}
