package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/ebpf"
	"github.com/weftnet/weft/pdl/prog"
)

func init() { register(newPDLCommand) }

func newPDLCommand() *cobra.Command {
	return newGroup("pdl", "Check, format, compile and try programs for the NIC",
		newPDLCheckCommand(), newPDLFormatCommand(), newPDLBuildCommand(), newPDLDisCommand(), newPDLRunCommand())
}

// errorsShown is returned when what is wrong has been printed, in the form FILE:LINE:COL: message.
func errorsShown() error { return &exitError{status: exitFailed} }

// show prints errors of a source as they are, and passes others on.
func show(c *cobra.Command, err error) error {
	if l := (pdl.Errors)(nil); errors.As(err, &l) {
		fmt.Fprintln(c.ErrOrStderr(), l)
		return errorsShown()
	}
	return err
}

func newPDLCheckCommand() *cobra.Command {
	var target string
	c := &cobra.Command{
		Use:   "check [--target vm|xdp] FILE...",
		Short: "Say what is wrong with sources, and what is odd",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			if target != "vm" && target != "xdp" {
				return &exitError{exitUsage, fmt.Errorf("--target %q: expected vm, the virtual machine of a NIC, or xdp, the kernel's driver", target)}
			}
			bad := false
			for _, file := range files {
				src, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				warnings, err := pdl.Check(file, src)
				for _, w := range warnings {
					fmt.Fprintln(c.ErrOrStderr(), w)
				}
				if err != nil {
					fmt.Fprintln(c.ErrOrStderr(), err)
					bad = true
				} else if target == "xdp" {
					m, err := pdl.Compile(file, src)
					if err != nil {
						return show(c, err)
					}
					bad = !resides(c.ErrOrStderr(), file, string(src), m) || bad
				}
			}
			if bad {
				return errorsShown()
			}
			return nil
		},
	}
	c.Flags().StringVar(&target, "target", "vm", "vm, or xdp: also say why a program cannot reside in the kernel's driver")
	return c
}

// resides prints why a program cannot reside in the driver, each reason with its line of the source. It reports whether there is none.
func resides(w io.Writer, file, source string, m *prog.Module) bool {
	reasons := ebpf.Check(m)
	lines := strings.Split(source, "\n")
	for _, r := range reasons {
		if r.Line < 1 || r.Line > len(lines) {
			fmt.Fprintf(w, "%s: cannot reside in the driver: %s\n", file, r.Why)
			continue
		}
		fmt.Fprintf(w, "%s:%d: cannot reside in the driver: %s\n    %s\n", file, r.Line, r.Why, strings.TrimRight(lines[r.Line-1], " \t\r"))
	}
	return len(reasons) == 0
}

func newPDLFormatCommand() *cobra.Command {
	var write bool
	c := &cobra.Command{
		Use:   "fmt [-w] FILE...",
		Short: "Print sources in their one form, or write them back",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			for _, file := range files {
				src, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				formatted, err := pdl.Format(file, src)
				switch {
				case err != nil:
					return show(c, err)
				case !write:
					_, err = c.OutOrStdout().Write(formatted)
				case string(formatted) != string(src):
					err = os.WriteFile(file, formatted, 0o644)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&write, "write", "w", false, "write each file back in place of printing it")
	return c
}

func newPDLBuildCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:     "build FILE [-o OUT]",
		Aliases: []string{"compile"},
		Short:   "Compile a source to a module",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			src, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			m, err := pdl.Compile(args[0], src)
			if err != nil {
				return show(c, err)
			}
			if out == "" {
				out = strings.TrimSuffix(args[0], filepath.Ext(args[0])) + ".pdlm"
			}
			if err := os.WriteFile(out, m.Encode(), 0o644); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: program %s, %d instructions, %d words of data, %d triggers\n",
				out, m.Name, len(m.Code), m.DataWords, len(m.Triggers))
			return err
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "write the module to this file; by default the source's name with .pdlm")
	return c
}

// readModule reads a module, or compiles a source: what begins as a module does is one. source is what it was compiled from,
// if it was.
func readModule(file string) (m *prog.Module, source string, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	m, err = prog.Decode(b)
	switch {
	case errors.Is(err, prog.ErrNotModule):
		m, err = pdl.Compile(file, b)
		return m, string(b), err
	case err != nil:
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	if err := m.Verify(); err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	return m, "", nil
}

func newPDLDisCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "dis FILE",
		Aliases: []string{"disasm"},
		Short:   "Show the instructions of a source or module",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			m, source, err := readModule(args[0])
			if err != nil {
				return show(c, err)
			}
			_, err = io.WriteString(c.OutOrStdout(), m.Disassemble(source))
			return err
		},
	}
}
