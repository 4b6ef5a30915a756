package clock_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/clock"
)

const (
	first = clock.Time(math.MinInt64)
	never = clock.Never
)

func TestNeverPlusAnythingStaysNever(t *testing.T) {
	for _, d := range []time.Duration{0, 1, -1, time.Hour, -time.Hour, math.MaxInt64, math.MinInt64} {
		if got := never.Add(d); got != never {
			t.Errorf("never %+d ns = %d", d, got)
		}
	}
}

// edges returns numbers at which sums overflow, and any numbers between them.
func edges[T ~int64]() *rapid.Generator[T] {
	near := []T{0, 1, -1, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1, 1 << 62, -1 << 62}
	return rapid.OneOf(rapid.SampledFrom(near), rapid.Map(rapid.Int64(), func(v int64) T { return T(v) }))
}

// saturated returns v, or the nearest number that fits into 64 bits.
func saturated(v *big.Int) int64 {
	switch {
	case v.IsInt64():
		return v.Int64()
	case v.Sign() > 0:
		return math.MaxInt64
	default:
		return math.MinInt64
	}
}

func TestSumsAndDifferencesSaturate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, d := edges[clock.Time]().Draw(t, "a"), edges[clock.Time]().Draw(t, "b"), edges[time.Duration]().Draw(t, "d")
		big1, big2, bigD := big.NewInt(int64(a)), big.NewInt(int64(b)), big.NewInt(int64(d))
		if want := clock.Time(saturated(new(big.Int).Add(big1, bigD))); a != never && a.Add(d) != want {
			t.Errorf("%d.Add(%d) = %d, want %d", a, d, a.Add(d), want)
		}
		if want := time.Duration(saturated(new(big.Int).Sub(big1, big2))); a.Sub(b) != want {
			t.Errorf("%d.Sub(%d) = %d, want %d", a, b, a.Sub(b), want)
		}
		if a.Before(b) != (a.Sub(b) < 0) {
			t.Errorf("%d before %d: %v, but their difference is %d", a, b, a.Before(b), a.Sub(b))
		}
	})
}

func TestAnInstantBeforeTheFirstIsTheFirst(t *testing.T) {
	if got := first.Add(-1); got != first {
		t.Errorf("first - 1 ns = %d", got)
	}
}

func TestMinIsTheEarlier(t *testing.T) {
	for _, c := range []struct{ a, b, want clock.Time }{{1, 2, 1}, {2, 1, 1}, {never, 5, 5}, {5, never, 5}, {never, never, never}, {-1, 0, -1}} {
		if got := clock.Min(c.a, c.b); got != c.want {
			t.Errorf("Min(%d, %d) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
