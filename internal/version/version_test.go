package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestTheCommitComesFromTheCheckoutOrTheModule(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	for want, info := range map[string]*debug.BuildInfo{
		"0123456789ab":         {Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: "false"}}},
		"0123456789ab+changes": {Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: "true"}}},
		"abcdef123456":         {Main: debug.Module{Version: "v0.0.0-20260102150405-abcdef123456"}},
		"unknown":              {Main: debug.Module{Version: "(devel)"}},
	} {
		if got := commit(info); got != want {
			t.Errorf("%+v is commit %q; expected %q", info, got, want)
		}
	}
}

func TestTheTextHasReleaseAndCommit(t *testing.T) {
	if s := Text(); !strings.HasPrefix(s, "weft "+Release+", commit "+Commit()+", go") || strings.Contains(s, "\n") {
		t.Errorf("%q", s)
	}
}
