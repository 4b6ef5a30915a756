package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/version"
)

// The exit statuses of weft itself.
const (
	exitFailed = 1 // the work failed
	exitUsage  = 2 // weft was called wrongly
)

// constructors make the subcommands. Each file of a subcommand adds its own:
//
//	func init() { register(newDemoCommand) }
//
// It holds constructors and not commands, so that every run, and every test, starts from flags
// at their defaults.
var constructors []func() *cobra.Command

// register adds a subcommand to weft.
func register(c func() *cobra.Command) { constructors = append(constructors, c) }

// frequent are the subcommands that start often, or whose start others wait for. If a command
// line begins with the name of one, only that command is made: the whole tree takes a
// millisecond.
var frequent = map[string]func() *cobra.Command{}

// registerFrequent adds a frequent subcommand to weft.
func registerFrequent(name string, c func() *cobra.Command) {
	register(c)
	frequent[name] = c
}

// exitError ends weft with a status. Its message is printed unless it is empty: a status that is
// passed on from another program needs no message of weft.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usagef returns an error of the caller, which exits 2. The text names the flag or argument, the
// given value, and the expected values.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// newRoot builds the command tree for a command line. It sets begun once the command line has
// been parsed and a command starts.
func newRoot(begun *bool, args ...string) *cobra.Command {
	root := newGroup("weft", "A reliable fabric between processes, with the NIC in software")
	root.Long = root.Short + `.

The exit status is 0 if the command succeeded and 1 if its work failed. It is 2 if the command
line or a configuration is wrong, for example because of an unknown subcommand, an unknown flag,
or an invalid value. A subcommand that runs another program returns the status of that program.`
	root.SilenceErrors, root.SilenceUsage = true, true // run prints them, in one form
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(newHelpCommand())
	root.Version = version.Text()
	root.SetVersionTemplate("{{.Version}}\n")
	fitHelp(root, helpColumns)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		// cobra checks these only when the command has begun
		if err := c.ValidateRequiredFlags(); err != nil {
			return err
		}
		if err := c.ValidateFlagGroups(); err != nil {
			return err
		}
		*begun = true
		return nil
	}
	all := constructors
	if len(args) > 0 && frequent[args[0]] != nil {
		all = []func() *cobra.Command{frequent[args[0]]}
	}
	for _, c := range all {
		root.AddCommand(c())
	}
	sayArguments(root)
	return root
}

// newGroup returns a command that only holds others. Cobra answers a wrong subcommand of a group
// with help and status 0; here it is an error.
func newGroup(use, short string, sub ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return usagef("%s needs a subcommand: %s", c.CommandPath(), strings.Join(subcommands(c), ", "))
		},
	}
	c.AddCommand(sub...)
	return c
}

// run is weft without its process: it runs one command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runOn(ctx, args, os.Stdin, stdout, stderr)
}

// runOn is run with another standard input.
func runOn(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var begun bool
	root := newRoot(&begun, args...)
	var unknown error
	refuseHelpOfUnknown(root, &unknown)
	root.SetArgs(args)
	root.SetIn(stdin)
	out := &printed{to: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = unknown
	}
	if lost := out.lost(); err == nil || lost != nil && errors.Is(err, lost) {
		err, begun = lost, true
	}
	if err == nil {
		return 0
	}
	status := exitFailed
	if e := (*exitError)(nil); errors.As(err, &e) {
		status = e.status
	} else if !begun {
		status = exitUsage // cobra did not understand the command line
	}
	if err.Error() != "" {
		// the library's errors have this prefix, too
		fmt.Fprintf(stderr, "weft: %s\n", strings.TrimPrefix(err.Error(), "weft: "))
		if status == exitUsage {
			fmt.Fprintf(stderr, "See '%s --help'.\n", c.CommandPath())
		}
	}
	return status
}
