package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// limited is a log that no process can flood. It prints at most LogLines lines about one process
// with the same message at once, and then one each LogEvery. The next printed line says how many
// were left out. Lines about no process are always printed. All processes with an unknown PID
// (0), such as all of another PID namespace, count as one.
type limited struct {
	slog.Handler
	*said
}

// said counts lines by their message and their process.
type said struct {
	mu     sync.Mutex
	counts map[lineKey]*lineCount
}

type lineKey struct {
	message string
	pid     int64
}

type lineCount struct {
	left   float64 // lines that may be printed
	at     time.Time
	missed int
}

// mostCounts bounds the counts. If there are more, all are forgotten, and a few more lines of
// each process may be printed.
const mostCounts = 4096

func newLimited(h slog.Handler) slog.Handler {
	return &limited{h, &said{counts: map[lineKey]*lineCount{}}}
}

// Handle prints a line, or counts it.
func (l *limited) Handle(ctx context.Context, r slog.Record) error {
	k, ofProcess := lineKey{message: r.Message}, false
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "pid" {
			k.pid, ofProcess = a.Value.Int64(), true
		}
		return !ofProcess
	})
	if !ofProcess {
		return l.Handler.Handle(ctx, r)
	}
	missed, ok := l.count(k, r.Time)
	if !ok {
		return nil
	}
	if missed > 0 {
		r.AddAttrs(slog.Int("and_not_printed", missed))
	}
	return l.Handler.Handle(ctx, r)
}

// count reports whether a line may be printed, and how many were left out since the last one.
func (s *said) count(k lineKey, now time.Time) (missed int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts[k]
	if c == nil {
		if len(s.counts) >= mostCounts {
			clear(s.counts)
		}
		c = &lineCount{left: limits.LogLines, at: now}
		s.counts[k] = c
	}
	c.left = min(limits.LogLines, c.left+float64(now.Sub(c.at))/float64(limits.LogEvery))
	c.at = now
	if c.left < 1 {
		c.missed++
		return 0, false
	}
	c.left--
	missed, c.missed = c.missed, 0
	return missed, true
}

// WithAttrs and WithGroup keep the limit.
func (l *limited) WithAttrs(a []slog.Attr) slog.Handler {
	return &limited{l.Handler.WithAttrs(a), l.said}
}
func (l *limited) WithGroup(name string) slog.Handler {
	return &limited{l.Handler.WithGroup(name), l.said}
}
