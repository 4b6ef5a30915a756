package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
)

// benchOf is a kind of measurement that has options of its own: `weft bench NAME`. O are its options, and R is its row, whose fields are those
// of JSON. All that such commands have in common is in command; an entry says what is its own.
type benchOf[O, R any] struct {
	name, short, long string
	example           string
	use               string               // its argument, in a word,
	argument          cobra.PositionalArgs // and how many there may be; nil: none
	each              string               // what has a row of its own, in words; empty: there is one row
	o                 *O
	self              *string // where the options have the path of this program; nil: it starts none
	flags             func(fs *pflag.FlagSet)
	check             func(c *cobra.Command, args []string) error   // what no flag can check alone; may be nil
	instead           func(c *cobra.Command) (done bool, err error) // what it may do in place of measuring; may be nil
	spoilt            bool                                          // by what bench.Spoils finds
	sealing           *bench.Sealing                                // where the options have whether links are sealed; nil: there are no links, or flags says it
	run               func(ctx context.Context, o O, row func(R) error) error
	head              func() string // above the rows, for people; of one row it is told with it
	line              func(r R) string
}

// single has a measurement of one row hand it over.
func single[O, R any](run func(ctx context.Context, o O) (R, error)) func(context.Context, O, func(R) error) error {
	return func(ctx context.Context, o O, row func(R) error) error {
		r, err := run(ctx, o)
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
func (b benchOf[O, R]) command() *cobra.Command {
	var asJSON bool
	var child string
	var seal sealedFlags
	c := &cobra.Command{
		Use:     b.name + " [flags]" + b.use,
		Short:   b.short,
		Long:    b.long,
		Example: b.example,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) (err error) {
			out := c.OutOrStdout()
			if child != "" {
				return bench.Child(c.Context(), b.name, child, c.InOrStdin(), out)
			}
			if b.check != nil {
				if err := b.check(c, args); err != nil {
					return err
				}
			}
			if b.self != nil {
				if *b.self, err = os.Executable(); err != nil {
					return err
				}
			}
			if b.instead != nil {
				if done, err := b.instead(c); done {
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
			row := printer(out, asJSON, head, b.line)
			if b.sealing != nil {
				return oneByOne(&seal, b.o, b.sealing, b.run)(c.Context(), row)
			}
			return b.run(c.Context(), *b.o, row)
		},
	}
	if b.argument != nil {
		c.Args = b.argument
	}
	b.flags(c.Flags())
	if b.sealing != nil {
		seal.define(c.Flags(), "on,off measures both, one after the other")
	}
	what := "print one JSON object"
	if b.each != "" {
		what += " for each " + b.each
	}
	c.Flags().BoolVar(&asJSON, "json", false, what)
	if c.Flags().Lookup("child") == nil {
		c.Flags().StringVar(&child, "child", "", "be a process of a measurement that another weft makes: what this says")
	}
	c.Flags().Lookup("child").Hidden = true
	return c
}
