package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// sayArguments makes the usage errors of a command and its subcommands name the arguments that
// the command does not take, and those that it does take.
func sayArguments(c *cobra.Command) {
	for _, sub := range c.Commands() {
		sayArguments(sub)
	}
	takes := c.Args
	if takes == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := takes(c, args)
		// an exitError already says so in its own words
		if e := (*exitError)(nil); err == nil || errors.As(err, &e) {
			return err
		}
		if err := unknownCommand(c, args); err != nil {
			return err
		}
		given := "no arguments"
		if len(args) > 0 {
			given = "arguments " + strings.Trim(fmt.Sprintf("%q", args), "[]")
		}
		return fmt.Errorf("%s: expected %s", given, c.UseLine())
	}
}

// unknownCommand returns an error if c holds other commands, and args begin with none of them.
func unknownCommand(c *cobra.Command, args []string) error {
	names := subcommands(c)
	if len(args) == 0 || len(names) == 0 {
		return nil
	}
	return usagef("unknown command %q for %q: expected one of %s", args[0], c.CommandPath(), strings.Join(names, ", "))
}

// refuseHelpOfUnknown sets *unknown if a command line has --help and an unknown command. Cobra
// then prints the help of the group, which a script takes for the help of the command.
func refuseHelpOfUnknown(root *cobra.Command, unknown *error) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if *unknown = unknownCommand(c, c.Flags().Args()); *unknown == nil {
			help(c, args)
		}
	})
}

// newHelpCommand returns the command "weft help". It refuses a word that is no command. Cobra's
// own help command exits with 0 there.
func newHelpCommand() *cobra.Command {
	var write func(*cobra.Command) (bool, error)
	help := &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(c *cobra.Command, args []string) error {
			if asked, err := write(c.Root()); asked {
				return err
			}
			of, rest, err := c.Root().Find(args)
			if err == nil {
				err = unknownCommand(of, rest)
			}
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return usagef("arguments %s: expected the name of a command",
					strings.Trim(fmt.Sprintf("%q", rest), "[]"))
			}
			return of.Help()
		},
	}
	write = packageFlags(help)
	return help
}

// subcommands returns the names of the subcommands that a user may call.
func subcommands(c *cobra.Command) (names []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// atMostOne makes a command refuse more than one of the given flags.
func atMostOne(c *cobra.Command, names ...string) {
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		var given []string
		for _, name := range names {
			if c.Flags().Changed(name) {
				given = append(given, "--"+name)
			}
		}
		if len(given) > 1 {
			return usagef("%s: expected one of them at most", strings.Join(given, " and "))
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
}
