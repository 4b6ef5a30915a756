package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

func TestARefusalShowsThePathAsItIs(t *testing.T) {
	for _, path := range []string{"/no/100%s/prog", "/no/%d", "/no/%!"} {
		no := checkProgram(path, "")
		if no == nil || no.Text != "program "+path+" is missing" {
			t.Errorf("%s: %+v", path, no)
		}
	}
}

func TestARefusalOfALongPathFits(t *testing.T) {
	for what, letters := range map[string]string{"letters": "x", "wide letters": "漢", "bytes that are no UTF-8": "\xff"} {
		long := "/" + strings.Repeat(letters, (limits.PathBytes-1)/len(letters))
		all := checkReserve(&ctl.Reserve{Dir: long, Program: long})
		if len(all) != 2 {
			t.Fatalf("%s: refusals %+v; expected two", what, all)
		}
		for _, r := range fitting(all) {
			b, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var got ctl.Refusal
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			if n := len(got.What) + len(got.Text) + len(got.Cure); n > limits.JobRefusalBytes || got != r {
				t.Errorf("%s: a refusal of %d bytes arrives: %.60q", what, n, got.Text)
			}
			if !strings.HasPrefix(got.Text, "working directory /") && !strings.HasPrefix(got.Text, "program /") {
				t.Errorf("%s: %.60q", what, got.Text)
			}
		}
	}
}

func TestARefusedLimitOfMemoryHasTheReasonOfTheSystem(t *testing.T) {
	for _, root := range []bool{false, true} {
		k := &rankStarter{begin: &ctl.KeeperBegin{Reserve: &ctl.Reserve{Dir: "/", Program: "/bin/sh", MemoryBytes: 1 << 20},
			NoCgroup: "no cgroup file system is mounted", Root: root}}
		all := k.check()
		if len(all) != 1 || all[0].What != ctl.RefusedMemory || !strings.Contains(all[0].Text, "could make no control group: no cgroup file system is mounted") ||
			strings.Contains(all[0].Cure, "as root") == root {
			t.Errorf("daemon of root %v: %+v", root, all)
		}
	}
}
