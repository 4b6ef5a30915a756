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

// newLog returns the daemon's log, with one line of text for each event.
func newLog(w io.Writer, level string) *slog.Logger {
	l, err := logLevel(level)
	if err != nil { // check has refused such a level already
		l = slog.LevelInfo
	}
	return slog.New(newLimited(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})))
}
