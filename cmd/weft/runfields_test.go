package main

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/stuck"
)

// jsonObjects are the objects that weft run --json and weft job stuck --json print, by their
// names in docs/machine.md.
var jsonObjects = map[string]any{
	"placed": jobEvent{}, "placement-host": hostRanks{}, "refused": refusalEvent{}, "output": outputEvent{}, "ended": rankEvent{}, "host-lost": hostEvent{},
	"restart": hostEvent{}, "stuck": stuckEvent{}, "summary": summary{}, "rank-row": rankRow{}, "survivor": survivorRow{},
	"part": ctl.JobInfo{}, "process": ctl.RankInfo{}, "report": stuck.Report{}, "cause": stuck.Cause{}, "group": stuck.Group{}, "missing": stuck.Missing{}, "rank": stuck.Rank{}, "silent": stuck.Silent{},
	"standing": ctl.Standing{}, "membership": ctl.GroupStanding{}, "step": ctl.GroupStep{}, "wait": ctl.Wait{}, "unread": ctl.Unread{}, "address": ctl.Address{},
}

// jsonFields lists the JSON names of a struct's fields, and the structs that these fields hold.
func jsonFields(of reflect.Type) (names []string, inside []reflect.Type) {
	for i := range of.NumField() {
		f := of.Field(i)
		if f.Anonymous {
			more, within := jsonFields(f.Type)
			names, inside = append(names, more...), append(inside, within...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
		held := f.Type
		for held.Kind() == reflect.Slice || held.Kind() == reflect.Pointer {
			held = held.Elem()
		}
		if held.Kind() == reflect.Struct {
			inside = append(inside, held)
		}
	}
	return names, inside
}

func TestEveryFieldOfTheJSONObjectsIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/machine.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][]string{}
	word := regexp.MustCompile("`([a-z_-]+)`")
	for _, table := range strings.Split(string(page), "| object | fields | meaning |\n")[1:] {
		table, _, _ = strings.Cut(table, "\n\n")
		for _, row := range strings.Split(table, "\n")[1:] {
			cells := strings.Split(row, "|")
			var fields []string
			for _, m := range word.FindAllStringSubmatch(cells[2], -1) {
				fields = append(fields, m[1])
			}
			documented[strings.Trim(cells[1], " `")] = fields
		}
	}
	known := map[reflect.Type]bool{}
	for _, object := range jsonObjects {
		known[reflect.TypeOf(object)] = true
	}
	for name, object := range jsonObjects {
		fields, inside := jsonFields(reflect.TypeOf(object))
		if !slices.Equal(documented[name], fields) {
			t.Errorf("docs/machine.md lists the fields of %s as %q; expected %q", name, documented[name], fields)
		}
		for _, held := range inside {
			if !known[held] {
				t.Errorf("%s holds a %v, which no table describes", name, held)
			}
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/machine.md describes %s, which nothing prints", name)
	}
}
