package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/metrics"
	"github.com/weftnet/weft/internal/vni"
)

// explainCounters explains the counters with the given names, or all.
func explainCounters(out io.Writer, asked []string, asJSON bool) error {
	all := vni.Descriptions()
	if len(asked) > 0 {
		var err error
		if all, err = countersCalled(asked, all); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	for _, d := range all {
		if !asJSON {
			fmt.Fprintf(&text, "%s\n    %s.\n    %s, %s; metric %v\n", d.Name, d.Help, kindOf(d), d.Unit,
				metrics.MetricOf(d))
			continue
		}
		err := json.NewEncoder(&text).Encode(struct {
			Name   string `json:"name"`
			Kind   string `json:"kind"`
			Unit   string `json:"unit"`
			Metric string `json:"metric"`
			Help   string `json:"help"`
		}{d.Name, kindOf(d), d.Unit.String(), metrics.MetricOf(d).String(), d.Help})
		if err != nil {
			return err
		}
	}
	_, err := out.Write(text.Bytes())
	return err
}

func kindOf(d vni.Description) string {
	if d.Level() {
		return "level"
	}
	return "counter"
}

// countersCalled returns the counters that match one of the names, in the order of the list. A name
// is that of a counter or of its metric. If it is neither, it is the beginning of one.
func countersCalled(names []string, all []vni.Description) ([]vni.Description, error) {
	wanted := make(map[string]bool)
	for _, n := range names {
		matches := func(is func(s, n string) bool) (any bool) {
			for _, d := range all {
				m := metrics.MetricOf(d)
				if is(d.Name, n) || is(m.Name, n) || is(m.String(), n) {
					wanted[d.Name], any = true, true
				}
			}
			return any
		}
		if !matches(func(s, n string) bool { return s == n }) && (n == "" || !matches(strings.HasPrefix)) {
			return nil, usagef("COUNTER %q: expected the name of a counter, the name of a metric, or the beginning "+
				"of one; weft stat --explain lists all%s", n, similar(n, all))
		}
	}
	return slices.DeleteFunc(all, func(d vni.Description) bool { return !wanted[d.Name] }), nil
}

// similar lists a few counters that have a word of a wrong name, for the error about that name.
func similar(wrong string, all []vni.Description) string {
	var like []string
	for _, word := range strings.Split(wrong, "_") {
		for _, d := range all {
			if len(word) > 3 && strings.Contains(d.Name, word) && len(like) < 5 {
				like = append(like, d.Name)
			}
		}
	}
	if len(like) == 0 {
		return ""
	}
	return "; similar ones: " + strings.Join(like, ", ")
}
