package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

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

// errorsShown returns the error of a command that has printed its problems, in the form
// FILE:LINE:COL: message.
func errorsShown() error { return &exitError{status: exitFailed} }

// show prints errors of a source unchanged, and returns others.
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
		Short: "Report errors and warnings in sources",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			if target != "vm" && target != "xdp" {
				return &exitError{exitUsage, fmt.Errorf(
					"--target %q: expected vm, the virtual machine of a NIC, or xdp, the kernel's driver", target)}
			}
			return eachFile(c, files, func(file string) error {
				src, err := readSource(file)
				if err != nil {
					return err
				}
				warnings, err := pdl.Check(file, src)
				if len(warnings) > 0 {
					fmt.Fprintln(c.ErrOrStderr(), warnings)
				}
				if err != nil || target == "vm" {
					return err
				}
				m, err := pdl.Compile(file, src)
				if err != nil {
					return err
				}
				return resides(file, string(src), m)
			})
		},
	}
	c.Flags().StringVar(&target, "target", "vm",
		"check for this target, `vm|xdp`; xdp also reports why a program cannot reside in the kernel's driver")
	return c
}

// resides returns the reasons why a program cannot reside in the driver, each with its line of
// the source. It returns nil if the program can. A module's table of lines has no columns.
func resides(file, source string, m *prog.Module) error {
	lines := strings.Split(source, "\n")
	var list pdl.Errors
	for _, r := range ebpf.Check(m) {
		text := ""
		if r.Line >= 1 && r.Line <= len(lines) {
			text = lines[r.Line-1]
		}
		list = append(list, pdl.OfLine(file, r.Line, text, "cannot reside in the driver: "+r.Why))
	}
	if len(list) > 0 {
		return list
	}
	return nil
}

func newPDLFormatCommand() *cobra.Command {
	var write bool
	c := &cobra.Command{
		Use:   "fmt [-w] FILE...",
		Short: "Format sources",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			return eachFile(c, files, func(file string) error {
				src, err := readSource(file)
				if err != nil {
					return err
				}
				formatted, err := pdl.Format(file, src)
				switch {
				case err != nil:
				case !write:
					_, err = c.OutOrStdout().Write(formatted)
				case string(formatted) != string(src):
					err = replaceFile(file, formatted)
				}
				return err
			})
		},
	}
	c.Flags().BoolVarP(&write, "write", "w", false, "write each file back instead of printing it")
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
			src, err := readSource(args[0])
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
			if sameFile(args[0], out) {
				return usagef("%s is the source: expected -o OUT with another file for the module", out)
			}
			if err := os.WriteFile(out, m.Encode(), 0o644); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: program %s, %d instructions, %d words of data, %d triggers\n",
				out, m.Name, len(m.Code), m.DataWords, len(m.Triggers))
			return err
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "",
		"write the module to `FILE` (default: the source's name with .pdlm)")
	return c
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
			_, err = io.WriteString(c.OutOrStdout(), m.Disassemble(shownSource(source)))
			return err
		},
	}
}

// shownSource returns a source that is safe for a terminal: characters that cannot be printed
// are replaced.
func shownSource(source string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return -1
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			return r
		}
		return unicode.ReplacementChar
	}, source)
}
