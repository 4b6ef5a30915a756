package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The width of the help on flags, in columns.
const (
	helpColumns   = 96
	screenColumns = 80 // of the commands whose help fits a terminal of this width
)

func init() { cobra.AddTemplateFunc("flagUsages", flagUsages) }

// fitHelp wraps the help on the flags of a command and its subcommands.
func fitHelp(c *cobra.Command, columns int) {
	template := c.UsageTemplate()
	for _, flags := range []string{".LocalFlags", ".InheritedFlags"} {
		template = strings.ReplaceAll(template, flags+".FlagUsages ", fmt.Sprintf("flagUsages %s %d ", flags, columns))
	}
	c.SetUsageTemplate(template)
}

// ellipsis is the only character of more than one byte in the names of values.
const (
	ellipsis = "…"
	oneByte  = "\x01" // replaces it while pflag counts
)

// flagUsages returns the help on flags, wrapped and in two columns. pflag pads by bytes, and so
// indents the usage of a flag with a value such as N,… too little.
func flagUsages(flags *pflag.FlagSet, columns int) string {
	narrow := pflag.NewFlagSet("", pflag.ContinueOnError)
	narrow.SortFlags = flags.SortFlags
	flags.VisitAll(func(f *pflag.Flag) {
		n := *f
		n.Usage = strings.ReplaceAll(f.Usage, ellipsis, oneByte)
		// pflag knows its own values by their types, so they are not wrapped
		if strings.Contains(f.Value.Type(), ellipsis) {
			n.Value = narrowValue{f.Value}
		}
		narrow.AddFlag(&n)
	})
	return strings.ReplaceAll(narrow.FlagUsagesWrapped(columns), oneByte, ellipsis)
}

// narrowValue is a value whose type has one byte for each character.
type narrowValue struct{ pflag.Value }

func (v narrowValue) Type() string { return strings.ReplaceAll(v.Value.Type(), ellipsis, oneByte) }
