package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
)

// Flags that several benches have.

// timeFlag defines the flag for the duration of a measurement.
func timeFlag(fs *pflag.FlagSet, p *time.Duration, value time.Duration, usage string) {
	durationFlag(fs, p, "time", value, time.Millisecond, time.Hour, usage)
}

// wordsFlag defines a flag that takes some words of choices, or all of them. The value of *p is
// the default, and help shows it.
func wordsFlag(fs *pflag.FlagSet, p *[]string, name, kind string, choices []string, usage string) {
	// choices may contain "all" as a choice of its own
	want, all := "some of "+strings.Join(choices, ", "), slices.Contains(choices, "all")
	if !all {
		want += ", or all"
	}
	fs.Var(&checkedFlag{
		kind: kind,
		text: strings.Join(*p, ","),
		want: want,
		set: func(s string) bool {
			if *p = strings.Split(s, ","); s == "all" && !all {
				*p = choices
			}
			return !slices.ContainsFunc(*p, func(w string) bool { return !slices.Contains(choices, w) })
		},
	}, name, usage)
}

// numbersFlag defines a flag that takes numbers from least to most. The value of *p is the
// default.
func numbersFlag(fs *pflag.FlagSet, p *[]int, name string, least, most int, what, usage string) {
	var text []string
	for _, n := range *p {
		text = append(text, strconv.Itoa(n))
	}
	fs.Var(&checkedFlag{
		kind: "N,…",
		text: strings.Join(text, ","),
		want: fmt.Sprintf("%s from %d to %d, separated by commas", what, least, most),
		set: func(s string) bool {
			*p = nil
			for word := range strings.SplitSeq(s, ",") {
				n, err := strconv.Atoi(word)
				if err != nil || n < least || n > most {
					return false
				}
				*p = append(*p, n)
			}
			return true
		},
	}, name, usage)
}

// sizeFlag defines a flag that takes the length of a message.
func sizeFlag(fs *pflag.FlagSet, p *int, value int, usage string) {
	*p = value
	fs.Var(&checkedFlag{
		kind: "N",
		text: strconv.Itoa(value),
		want: fmt.Sprintf("a number of bytes from 1 to %d, such as 64, 4KiB or 1MiB", bench.MaxSize),
		set: func(s string) bool {
			sizes, ok := bench.ParseSizes(s)
			if !ok || len(sizes) != 1 || sizes[0] == 0 {
				return false
			}
			*p = sizes[0]
			return true
		},
	}, "size", usage)
}

// listFlag defines a flag that takes several numbers with commas between them.
func listFlag(fs *pflag.FlagSet, p *[]int, name, value, want string, parse func(string) (int, bool), usage string) {
	f := &checkedFlag{kind: "N,…", text: value, want: want, set: func(s string) bool {
		*p = nil
		for word := range strings.SplitSeq(s, ",") {
			n, ok := parse(word)
			if !ok {
				return false
			}
			*p = append(*p, n)
		}
		return true
	}}
	f.set(value)
	fs.Var(f, name, usage)
}

// sizesFlag defines a flag that takes one length of a message, from least to most, or "all" for
// all usual lengths of a bench.
func sizesFlag(fs *pflag.FlagSet, p *[]int, least, most int, usage string) {
	fs.Var(&checkedFlag{
		kind: "N|all",
		text: strconv.Itoa((*p)[0]),
		want: fmt.Sprintf("a number of bytes from %d to %d, such as 64, 4KiB or 1MiB, or all", least, most),
		set: func(s string) bool {
			sizes, ok := bench.ParseSizes(s)
			tooLong := func(n int) bool { return n > most }
			if s == "all" {
				sizes = slices.DeleteFunc(sizes, tooLong)
			}
			*p = sizes
			return ok && sizes[0] >= least && !tooLong(sizes[0])
		},
	}, "size", usage)
}
