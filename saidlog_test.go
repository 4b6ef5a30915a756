package weft

import (
	"context"
	"log/slog"
)

// SaidLog returns a log that passes each sentence to a function, prefixed by the message of its
// record.
func SaidLog(say func(text string)) *slog.Logger { return slog.New(sayer(say)) }

type sayer func(text string)

func (sayer) Enabled(context.Context, slog.Level) bool { return true }

func (s sayer) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += ": " + a.Value.String()
		return true
	})
	s(text)
	return nil
}

func (s sayer) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s sayer) WithGroup(string) slog.Handler      { return s }
