package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// benchOf is a kind of measurement that has options of its own: `weft bench NAME`. R is its row, whose fields are those of JSON. All that
// such commands have in common is in command; an entry says what is its own.
type benchOf[R any] struct {
	name, short, long string
	each              string // what has a row of its own, in words; empty: there is one row
	self              *string
	flags             func(fs *pflag.FlagSet)
	hidden            []string                                                                    // of the flags: those by which it starts programs of its own,
	child             func(ctx context.Context, in io.Reader, out io.Writer) (is bool, err error) // which is what they do; nil if there are none
	check             func(fs *pflag.FlagSet) error                                               // what no flag can check alone; may be nil
	spoilt            bool                                                                        // by what bench.Spoils finds
	run               func(ctx context.Context, stderr io.Writer, row func(R) error) error
	head              func() string // above the rows, for people; of one row it is told with it
	line              func(r R) string
}

// single has a measurement of one row hand it over.
func single[R any](run func(ctx context.Context) (R, error)) func(context.Context, io.Writer, func(R) error) error {
	return func(ctx context.Context, _ io.Writer, row func(R) error) error {
		r, err := run(ctx)
		if err != nil {
			return err
		}
		return row(r)
	}
}

// printer prints rows as they come, as JSON or, below the head, for people.
func printer[R any](out io.Writer, asJSON bool, head string, line func(R) string) func(R) error {
	if asJSON {
		e := json.NewEncoder(out)
		return func(r R) error { return e.Encode(r) }
	}
	fmt.Fprint(out, head)
	return func(r R) error {
		_, err := io.WriteString(out, line(r))
		return err
	}
}

// command is the command of an entry.
func (b benchOf[R]) command() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   b.name + " [flags]",
		Short: b.short,
		Long:  b.long,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			out := c.OutOrStdout()
			if b.child != nil {
				if is, err := b.child(c.Context(), c.InOrStdin(), out); is {
					return err
				}
			}
			if b.check != nil {
				if err := b.check(c.Flags()); err != nil {
					return err
				}
			}
			if b.self != nil {
				if *b.self, err = os.Executable(); err != nil {
					return err
				}
			}
			if b.spoilt {
				warn(c)
			}
			head := ""
			if b.each != "" {
				head = b.head()
			}
			return b.run(c.Context(), c.ErrOrStderr(), printer(out, asJSON, head, b.line))
		},
	}
	b.flags(c.Flags())
	what := "print one JSON object"
	if b.each != "" {
		what += " for each " + b.each
	}
	c.Flags().BoolVar(&asJSON, "json", false, what)
	for _, name := range b.hidden {
		c.Flags().Lookup(name).Hidden = true
	}
	return c
}
