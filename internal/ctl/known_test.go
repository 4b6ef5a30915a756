package ctl

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheKnownHostsAreListedByNameOrElseByID(t *testing.T) {
	nodes := []Node{{ID: 7, Name: "h2"}, {ID: 9}, {Name: "h3"}, {Address: "10.0.0.4:7117"}}
	if got, want := KnownHosts("h1", nodes), "h1, h2, 0:0:0:0:0:0:0:9, h3 (has never answered)"; got != want {
		t.Errorf("%q; expected %q", got, want)
	}
	if got := KnownHosts("h1", nil); got != "h1" {
		t.Errorf("%q; expected h1 alone", got)
	}
}

func TestTheListOfKnownHostsIsBounded(t *testing.T) {
	var nodes []Node
	for i := range 1000 {
		nodes = append(nodes, Node{ID: 1, Name: fmt.Sprintf("node-%d", i)})
	}
	if got := KnownHosts("h1", nodes[:15]); strings.Count(got, "node-") != 15 || !strings.HasSuffix(got, ", node-14") {
		t.Errorf("%q; expected all 15 nodes", got)
	}
	got := KnownHosts("h1", nodes)
	if n := strings.Count(got, "node-"); n != 15 || !strings.HasSuffix(got, ", and 985 more") {
		t.Errorf("%q; expected 15 of the nodes and the number of the others", got)
	}
}
