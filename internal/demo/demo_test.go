package demo

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// small returns options of a small demo for tests.
func small(out *bytes.Buffer) Options {
	o := Default()
	o.Out, o.Messages, o.Sizes, o.Long, o.Region, o.Measure = out, 20, []int{0, 1, 769, 20_000}, 100_000, 3<<10, time.Millisecond
	return o
}

func TestTheDemoShowsItsTableAndEndsWell(t *testing.T) {
	var out bytes.Buffer
	if err := Run(t.Context(), small(&out)); err != nil {
		t.Fatalf("%v; output:\n%s", err, &out)
	}
	for _, want := range []string{
		`The links are sealed: `,
		`demo/3 +NIC [0-9a-f:]+ at 127\.0\.0\.1:\d+\n`,
		`ok  messages +0 B to 19\.5 KiB, all 12 directions +288 `,
		`ok  long ones +97\.7 KiB in every direction +12 `,
		`ok  PUT and GET `,
		`   message +median +99 % +messages/s +bandwidth +retransmit\n`,
		`\n      64 B +[\d.]+ [µm]s +[\d.]+ [µm]s +[\d,]+ +\d+ MB/s +[\d.]+ %\n`,
		`\n     1 MiB `,
		`[\d,]+ frames carried [\d,]+ segments; [\d,]+ were retransmitted`,
		`All is well`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("nothing in the output matches %s:\n%s", want, &out)
		}
	}
	if strings.ContainsAny(out.String(), "\r\x1b") {
		t.Errorf("the output is drawn, though it goes to no terminal:\n%q", &out)
	}
}

func TestOnATerminalProgressIsDrawnInPlace(t *testing.T) {
	var out bytes.Buffer
	o := small(&out)
	o.Terminal = true
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\n' || r == '\r' }) {
		plain := regexp.MustCompile("\x1b\\[[0-9;]*[mK]").ReplaceAllString(line, "")
		if n := len([]rune(plain)); n > 80 {
			t.Errorf("a line has %d columns, and will not be drawn over: %q", n, plain)
		}
	}
	if !strings.Contains(out.String(), "\r\x1b[K") {
		t.Errorf("nothing is drawn over:\n%q", &out)
	}
}

func TestANetworkThatLosesEverythingIsTold(t *testing.T) {
	var out bytes.Buffer
	o := small(&out)
	// Each NIC waits a while for the earlier ones, which know the names.
	o.Loss, o.Within = 1, 8*time.Second
	err := Run(t.Context(), o)
	if err == nil || !strings.HasPrefix(err.Error(), "not done after 8s: names: from demo/") {
		t.Errorf("the error is %v", err)
	}
	if !strings.Contains(out.String(), "!!  names") || strings.Contains(out.String(), "All is well") {
		t.Errorf("output:\n%s", &out)
	}
}

func TestACancelledDemoEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, small(&bytes.Buffer{})); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// wrongly opens a demo's NICs, makes one process misbehave, and returns the error of a step's
// receiver.
func wrongly(t *testing.T, do func(d *demo, from *weft.Process) error) error {
	t.Helper()
	o := small(&bytes.Buffer{})
	o.Loss = 0
	d := &demo{Options: o, screen: newScreen(o.Out, false)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.open(ctx); err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.findNames(ctx, &tally{}); err != nil {
		t.Fatal(err)
	}
	if err := do(d, d.procs[0]); err != nil {
		t.Fatal(err)
	}
	return d.receive(ctx, 0, 1, []int{3}, &tally{})
}

func TestEveryWrongMessageIsFound(t *testing.T) {
	right := func(d *demo) []byte {
		b := make([]byte, 3)
		load.Fill(b, d.seed(0, 1, 0))
		return b
	}
	for _, c := range []struct {
		want string
		do   func(d *demo, from *weft.Process) error
	}{
		{"byte 0 of 3 is ", func(d *demo, p *weft.Process) error {
			b := right(d)
			b[0] ^= 1
			return p.Send(t.Context(), name(1), 0, b)
		}},
		{"message 0 has 2 bytes; expected 3", func(d *demo, p *weft.Process) error {
			return p.Send(t.Context(), name(1), 0, right(d)[:2])
		}},
		{"message 1 came; expected 0", func(d *demo, p *weft.Process) error {
			return p.Send(t.Context(), name(1), 1, right(d))
		}},
		{"message 0 came twice", func(d *demo, p *weft.Process) error {
			return errors.Join(p.Send(t.Context(), name(1), 0, right(d)), p.Send(t.Context(), name(1), 0, right(d)))
		}},
	} {
		if err := wrongly(t, c.do); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for got, want := range map[string]string{
		count(0): "0", count(999): "999", count(1000): "1,000", count(1234567): "1,234,567",
		size(0): "0 B", size(1023): "1023 B", size(1 << 10): "1 KiB", size(1536): "1.5 KiB", size(16 << 20): "16 MiB",
		micros(23 * time.Microsecond): "23 µs", micros(1400 * time.Microsecond): "1.4 ms",
		rate(18e6): "18 MB/s", rate(1.234e9): "1.23 GB/s",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// If the output is not a terminal, a step that takes long has a line from time to time, and only
// if the line has new content.
func TestPlainLinesTellOfWhatIsNew(t *testing.T) {
	if lineEvery < time.Second {
		t.Errorf("a line each %v; expected at most one a second", lineEvery)
	}
	var out strings.Builder
	st := &step{screen: newScreen(&out, false), name: "calls", total: 10}
	for range 3 {
		st.add(0, 2)
		st.draw()
		st.draw()
	}
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("%d lines of three figures:\n%s", n, out.String())
	}
}
