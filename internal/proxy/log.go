package proxy

import (
	"context"
	"log/slog"

	"github.com/weftnet/weft/internal/newcomers"
)

// limitedLog limits the number of lines of each message, so clients cannot flood the log. The
// next printed line contains the number of suppressed lines.
type limitedLog struct {
	slog.Handler
	lines *newcomers.Lines
}

func limitLog(l *slog.Logger) *slog.Logger {
	return slog.New(&limitedLog{l.Handler(), new(newcomers.Lines)})
}

// Handle prints a line, or counts it.
func (l *limitedLog) Handle(ctx context.Context, r slog.Record) error {
	missed, ok := l.lines.Print(r.Message, r.Time)
	if !ok {
		return nil
	}
	if missed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("and_not_printed", missed))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs and WithGroup keep the limit.
func (l *limitedLog) WithAttrs(a []slog.Attr) slog.Handler {
	return &limitedLog{l.Handler.WithAttrs(a), l.lines}
}
func (l *limitedLog) WithGroup(name string) slog.Handler {
	return &limitedLog{l.Handler.WithGroup(name), l.lines}
}
