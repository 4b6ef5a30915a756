// Package version tells which Weft this is: for the command line, for logs, and for a daemon that
// is asked.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Release is the release that this source is, or becomes.
const Release = "0.1.0-dev"

// unknown is the commit of a program that was built outside of a checkout, such as by go run or as
// a dependency.
const unknown = "unknown"

// Commit is the commit that the program was built from, "+changes" behind it if there were some, or
// "unknown".
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return commit(info)
}

func commit(info *debug.BuildInfo) string {
	var revision, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	if revision == "" {
		return fromModule(info.Main.Version)
	}
	return revision[:min(len(revision), 12)] + changed
}

// fromModule takes the commit out of the version of a module that the go command has downloaded
// without a release: v0.0.0-20260102150405-abcdef123456.
func fromModule(v string) string {
	parts := strings.Split(v, "-")
	if last := parts[len(parts)-1]; len(parts) >= 3 && len(last) == 12 {
		return last
	}
	return unknown
}

// Text is version, commit, and what the program was built with and for, on one line.
func Text() string {
	return fmt.Sprintf("weft %s, commit %s, %s for %s/%s", Release, Commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
