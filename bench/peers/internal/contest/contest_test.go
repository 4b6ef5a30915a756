package contest

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestJobsSurviveTheCommandLine(t *testing.T) {
	js := slices.Concat(FullJobs(200*time.Millisecond, 40*time.Millisecond), PageJobs(100*time.Millisecond))
	back, err := ParseJobs(js.String())
	if err != nil || !slices.Equal(js, back) {
		t.Errorf("%v became %v, error %v", js, back, err)
	}
	for _, bad := range []string{"", "latency", "latency:64", "jitter:64:100", "rate:0:100", "rate:64:x", "rate:64:100,"} {
		if _, err := ParseJobs(bad); err == nil {
			t.Errorf("%q was taken for jobs", bad)
		}
	}
}

func TestEveryFigureOfTheTableIsAJob(t *testing.T) {
	for _, table := range []struct {
		ground string
		js     Jobs
	}{
		{Host, FullJobs(time.Second, time.Second)}, {Veth, HeadJobs(time.Second)}, {Loss, LossJobs(time.Second)},
		{Pages, PageJobs(time.Second)}, {Blocks, PageJobs(time.Second)},
	} {
		js := table.js
		for _, c := range Columns(table.ground) {
			if !slices.ContainsFunc(js, func(j Job) bool { return j.Measure == c.Measure && j.Size == c.Size }) {
				t.Errorf("no job measures %+v", c)
			}
		}
	}
}

func TestAMedianIsTheMiddle(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := Median(c.of); got != c.want {
			t.Errorf("the median of %v is %v, want %v", c.of, got, c.want)
		}
	}
}

func TestAHistogramIsRightToOnePercent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var all []float64
	for range 10_000 {
		ns := int64(math.Exp(random.Float64() * 23)) // up to 10 s
		h.Add(ns)
		all = append(all, float64(ns))
	}
	slices.Sort(all)
	for _, p := range Percentiles() {
		want := all[max(int(math.Ceil(p/100*float64(len(all))))-1, 0)]
		if got := h.Steps().At(p); math.Abs(got-want) > 0.01*want+1 {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
	if n := h.Steps().Total(); n != int64(len(all)) {
		t.Errorf("%d round trips in it, want %d", n, len(all))
	}
	h.Add(-1)
	h.Add(math.MaxInt64)
}

func TestDistributionsJoin(t *testing.T) {
	s := Merge(Steps{{10, 5}, {30, 1}}, Steps{{20, 4}})
	for p, want := range map[float64]float64{0: 10, 50: 10, 60: 20, 90: 20, 91: 30, 100: 30} {
		if got := s.At(p); got != want {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
	if got := Merge().At(50); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestACurveEndsWhereTooFewRoundTripsAreLeft(t *testing.T) {
	points := Steps{{10, 990}, {20, 10}}.Curve()
	if last := points[len(points)-1]; last.P != 99.5 || last.Nanoseconds != 20 {
		t.Errorf("the curve of 1,000 round trips ends at %+v", last)
	}
}

// fake returns a contestant that appends its name to turns, and answers with the number of the
// round.
func fake(name string, turns *[]string, fail func(round int) error) *Contestant {
	round := 0
	return &Contestant{Name: name, Ground: Host, Jobs: HeadJobs(time.Second), Run: func(ctx context.Context, _ Jobs) ([]Sample, error) {
		round++
		*turns = append(*turns, name)
		if err := fail(round); err != nil {
			return nil, err
		}
		return []Sample{{Measure: Rate, Size: 64, Value: float64(round)}, {Measure: Latency, Size: 64, Value: 100, Steps: Steps{{100, int64(round)}}}}, nil
	}}
}

func never(int) error { return nil }

func TestEachTakesPartOnceARoundAndNobodyIsAlwaysFirst(t *testing.T) {
	var turns []string
	var cs []*Contestant
	for _, name := range []string{"a", "b", "c", "d"} {
		cs = append(cs, fake(name, &turns, never))
	}
	var r Result
	swept := 0
	r.Run(t.Context(), cs, Options{Rounds: 3, Patience: time.Minute, After: func() { swept++ }, Progress: func(string) {}})
	if got := strings.Join(turns, ""); got != "abcdbcdacdab" {
		t.Errorf("they took turns as %s", got)
	}
	if swept != 12 {
		t.Errorf("what was left behind was tidied up %d times, want 12", swept)
	}
	row, ok := r.Find("b", Host, 0, Rate, 64)
	if !ok || row.Value != 2 || !slices.Equal(row.Rounds, []float64{1, 2, 3}) {
		t.Errorf("three rounds of 1, 2, 3 became %+v", row)
	}
	if row, _ := r.Find("b", Host, 0, Latency, 64); row.Trips != 6 || row.P99 != 100 {
		t.Errorf("the round trips of three rounds became %+v", row)
	}
}

func TestWhoseFiguresChangeByTheSecondTakesPartThreeTimesARound(t *testing.T) {
	var turns []string
	var cs []*Contestant
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		c := fake(name, &turns, never)
		c.Often = name == "a" || name == "e"
		cs = append(cs, c)
	}
	var r Result
	r.Run(t.Context(), cs, Options{Rounds: 2, Patience: time.Minute, After: func() {}, Progress: func(string) {}})
	if got := strings.Join(turns, ""); got != "abaecdaeef"+"cdeaefeaab" {
		t.Errorf("they took turns as %s", got)
	}
	if row, _ := r.Find("e", Host, 0, Rate, 64); len(row.Rounds) != 6 {
		t.Errorf("two rounds of three turns became %+v", row)
	}
	turns = nil
	new(Result).Run(t.Context(), cs[4:5], Options{Rounds: 1, Patience: time.Minute, After: func() {}, Progress: func(string) {}})
	if got := strings.Join(turns, ""); got != "eee" {
		t.Errorf("alone, it took its turns as %s", got)
	}
}

func TestAFailureIsALineAndTwoAreTheEnd(t *testing.T) {
	var turns []string
	once := fake("once", &turns, func(round int) error {
		if round == 2 {
			return errors.New("stumbled\n  badly")
		}
		return nil
	})
	always := fake("always", &turns, func(int) error { return errors.New("broken") })
	var r Result
	r.Run(t.Context(), []*Contestant{once, always}, Options{Rounds: 5, Patience: time.Minute, After: func() {}, Progress: func(string) {}})
	if row, _ := r.Find("once", Host, 0, Rate, 64); !slices.Equal(row.Rounds, []float64{1, 3, 4, 5}) {
		t.Errorf("a contestant that failed in one round of five has %v", row.Rounds)
	}
	want := []Failure{{"always", Host, 0, 1, "broken"}, {"once", Host, 0, 2, "stumbled badly"}, {"always", Host, 0, 2, "broken"}}
	sorted := func(fs []Failure) []Failure {
		slices.SortFunc(fs, func(a, b Failure) int {
			return strings.Compare(a.Contestant+a.Why, b.Contestant+b.Why)*10 + a.Round - b.Round
		})
		return fs
	}
	if got := sorted(r.Failures); !slices.Equal(got, sorted(want)) {
		t.Errorf("failures %+v", got)
	}
}

func TestWhoHangsFailsAndTheOthersGoOn(t *testing.T) {
	var turns []string
	hangs := &Contestant{Name: "hangs", Ground: Host, Run: func(ctx context.Context, _ Jobs) ([]Sample, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	var r Result
	r.Run(t.Context(), []*Contestant{hangs, fake("goes on", &turns, never)}, Options{Rounds: 1, Patience: time.Millisecond, After: func() {}, Progress: func(string) {}})
	if len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Why, "not done after 1ms") {
		t.Errorf("failures %+v", r.Failures)
	}
	if len(turns) != 1 {
		t.Error("the other did not take part")
	}
}

func TestFiguresHaveThreeDigitsAndAUnit(t *testing.T) {
	for _, c := range []struct {
		measure string
		value   float64
		want    string
	}{
		{Latency, 690, "0.690 µs"}, {Latency, 12_345, "12.3 µs"}, {Latency, 207e6, "207 ms"}, {Latency, 999_900, "1.00 ms"}, {Latency, 3.2e9, "3.20 s"},
		{Rate, 19.8e6, "19.8 M/s"}, {Rate, 25_000, "0.025 M/s"}, {Bandwidth, 4.5e9, "4.50 GB/s"}, {Bandwidth, 2e6, "0.002 GB/s"},
		{Reads, 46_123, "46.1 k/s"}, {Reads, 227_000, "227 k/s"}, {Reads, 1.25e6, "1.25 M/s"},
	} {
		if got := Figure(c.measure, c.value); got != c.want {
			t.Errorf("%v of %s is written %q, want %q", c.value, c.measure, got, c.want)
		}
	}
}

func TestTheTableMarksWhatIsNotOfThisRun(t *testing.T) {
	var turns []string
	r := Result{Elsewhere: Elsewhere(), Skipped: []Skipped{{"Sockets", "none"}}}
	r.Run(t.Context(), []*Contestant{fake("a", &turns, never)}, Options{Rounds: 1, Patience: time.Minute, After: func() {}, Progress: func(string) {}})
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Aeron 1.53 *", "measured elsewhere on a like machine, not in this run", "skipped: Sockets: none", "0.100 µs"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}
