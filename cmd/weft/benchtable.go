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

// benchOf is a kind of measurement that has its own options: `weft bench NAME`. O is the type of
// its options. R is the type of a row; its fields are those of the JSON. The method command
// holds what all such commands have in common, and an entry holds the rest.
type benchOf[O, R any] struct {
	name, short, long string
	example           string
	use               string               // its argument, in a word
	argument          cobra.PositionalArgs // how many arguments there may be; nil: none
	each              string               // what gets a row, in words; empty: there is one row
	o                 *O
	self              *string // where the options keep the path of this program; nil: no child
	flags             func(fs *pflag.FlagSet)
	// checks combinations of flags; may be nil
	check func(c *cobra.Command, args []string) error
	// may run instead of the measurement; reports whether it did; may be nil
	instead func(c *cobra.Command) (done bool, err error)
	spoilt  bool           // by the findings of bench.Spoils
	sealing *bench.Sealing // where the options keep it; nil: no links or flags
	run     func(ctx context.Context, o O, row func(R) error) error
	// printed above the rows for people; a single row prints its own
	head func() string
	line func(r R) string
}

// single adapts a measurement that returns one row.
func single[O, R any](run func(ctx context.Context, o O) (R, error)) func(context.Context, O, func(R) error) error {
	return func(ctx context.Context, o O, row func(R) error) error {
		r, err := run(ctx, o)
		if err != nil {
			return err
		}
		return row(r)
	}
}

// printer returns a function that prints rows as they come: as JSON, or for people below the
// head.
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

// command returns the command of an entry.
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
		c.Flags().StringVar(&child, "child", "",
			"be the process of another weft's measurement that this value describes")
	}
	c.Flags().Lookup("child").Hidden = true
	return c
}
