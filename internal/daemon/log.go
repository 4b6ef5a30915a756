package daemon

import (
	"fmt"
	"io"
	"log/slog"
)

// logLevel reads the lowest level that is logged.
func logLevel(s string) (slog.Level, error) {
	switch s {
	case "debug":
		return slog.LevelDebug, nil
	case "", "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("%q; expected debug, info, warn, or error", s)
}

// levelOf returns the level of a checked configuration.
func levelOf(s string) slog.Level {
	l, err := logLevel(s)
	if err != nil { // check has refused such a level already
		return slog.LevelInfo
	}
	return l
}

// newLog returns the daemon's log, with one line of text for each event. A reload may change the
// level.
func newLog(w io.Writer, level *slog.LevelVar) *slog.Logger {
	return slog.New(newLimited(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})))
}
