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

// KindLimits is the measurement of what the ground allows.
const KindLimits = "limits"

// LimitsOptions say which limits to measure.
type LimitsOptions struct {
	Self   string        // path of the weft binary
	Names  []string      // empty: all
	Time   time.Duration // for each size
	Rounds int           // in which that time is spent; what counts is their median
	MTU    int           // of the cable between the two hosts

	Missing func(name string, why error) // is told which limits cannot be had here
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
func RunLimits(ctx context.Context, o LimitsOptions, out func(LimitRow) error) (err error) {
	r := limitsRun{o: &o, gone: map[string]bool{}}
	for _, l := range limit.All() {
		if len(o.Names) == 0 || slices.Contains(o.Names, l.Name) {
			r.limits = append(r.limits, l)
		}
	}
	if r.here, err = limit.NewGround(o.Self, o.MTU, false); err != nil {
		return err
	}
	if r.between, r.noHosts = limit.NewGround(o.Self, o.MTU, true); r.noHosts == nil {
		defer func() { err = errors.Join(err, r.between.Close()) }()
	}
	r.results = make(map[LimitRow][]limit.Result)
	for range o.Rounds {
		if err := r.round(ctx); err != nil {
			return err
		}
	}
	for _, l := range r.limits {
		for _, size := range l.Sizes {
			row := LimitRow{Limit: l.Name, Size: size}
			if rs := r.results[row]; len(rs) > 0 {
				row.Result = limit.Median(rs).Only(l.Kind)
				if err := out(row); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// limitsRun is a measurement of several limits.
type limitsRun struct {
	o             *LimitsOptions
	limits        []limit.Limit
	here, between *limit.Ground
	noHosts       error // why there is no between
	results       map[LimitRow][]limit.Result
	gone          map[string]bool // said to be missing
}

// round measures each limit once.
func (r *limitsRun) round(ctx context.Context) error {
	for _, l := range r.limits {
		for _, size := range l.Sizes {
			if r.gone[l.Name] {
				break
			}
			switch res, err := r.measure(ctx, l, size); {
			case err == nil:
				key := LimitRow{Limit: l.Name, Size: size}
				r.results[key] = append(r.results[key], res)
			case len(r.o.Names) > 0 || ctx.Err() != nil || !unavailable(err):
				return err
			default:
				r.gone[l.Name] = true
				r.o.Missing(l.Name, err)
			}
		}
	}
	return nil
}

func (r *limitsRun) measure(ctx context.Context, l limit.Limit, size int) (limit.Result, error) {
	d := r.o.Time / time.Duration(r.o.Rounds)
	if !l.Veth {
		return r.here.Measure(ctx, l.Name, size, d)
	}
	if r.noHosts != nil {
		return limit.Result{}, r.noHosts
	}
	return r.between.Measure(ctx, l.Name, size, d)
}

// unavailable reports whether a limit cannot be had here, rather than being broken. The processes say it in words.
func unavailable(err error) bool {
	return errors.Is(err, limit.ErrUnavailable) || strings.Contains(err.Error(), limit.ErrUnavailable.Error())
}

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
