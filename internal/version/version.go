// Package version tells the version of Weft: for the command line, for logs, and for requests to
// a daemon.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Release is the release of this source, or the next release.
const Release = "0.1.0-dev"

// unknown is the commit of a program that was built outside of a checkout, for example by go run
// or as a dependency.
const unknown = "unknown"

// Commit returns the commit from which the program was built, or "unknown". If the checkout had
// changes, "+changes" follows.
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

// fromModule extracts the commit from the version of a module that the go command has downloaded
// without a release: v0.0.0-20260102150405-abcdef123456.
func fromModule(v string) string {
	parts := strings.Split(v, "-")
	if last := parts[len(parts)-1]; len(parts) >= 3 && len(last) == 12 {
		return last
	}
	return unknown
}

// Text returns, on one line, the version, the commit, the compiler and the platform of the
// program.
func Text() string {
	return fmt.Sprintf("weft %s, commit %s, %s for %s/%s", Release, Commit(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
}
