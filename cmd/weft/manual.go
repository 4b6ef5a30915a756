package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/version"
)

// The manual pages and the completion scripts of weft, for packages. A build of a package makes
// them from the commands, so they cannot differ from the help:
//
//	weft help --man DIR --completion DIR
//
// The pages have the texts of the help, so they need no library that reads Markdown.

// manualColumns is the width of the options in a page: that of a terminal, less the indentation.
const manualColumns = 72

// packageFlags adds the hidden flags of `weft help` that write files. It returns the function that
// writes them and reports whether any flag was given.
func packageFlags(c *cobra.Command) (write func(root *cobra.Command) (asked bool, err error)) {
	man := c.Flags().String("man", "", "write the manual pages of all commands to `DIR`")
	completion := c.Flags().String("completion", "", "write the completion scripts of all shells to `DIR`")
	for _, name := range []string{"man", "completion"} {
		if err := c.Flags().MarkHidden(name); err != nil {
			panic(err)
		}
	}
	return func(root *cobra.Command) (bool, error) {
		var errs []error
		if *man != "" {
			errs = append(errs, writeManual(root, *man))
		}
		if *completion != "" {
			errs = append(errs, writeCompletion(root, *completion))
		}
		return *man+*completion != "", errors.Join(errs...)
	}
}

// writeCompletion writes the completion scripts of a command under the names that the shells look
// for, except for weft.bash: a package installs it as weft.
func writeCompletion(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(root.GenBashCompletionFileV2(filepath.Join(dir, "weft.bash"), true),
		root.GenZshCompletionFile(filepath.Join(dir, "_weft")),
		root.GenFishCompletionFile(filepath.Join(dir, "weft.fish"), true))
}

// writeManual writes one page for c and for each of its subcommands.
func writeManual(c *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, pageName(c)+".1"), []byte(manualPage(c)), 0o644); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			if err := writeManual(sub, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// pageName returns the name of the page of a command, such as weft-nic-reload.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manualPage returns the page of a command. It has no date, so two builds of one commit are
// equal.
func manualPage(c *cobra.Command) string {
	var b strings.Builder
	name := pageName(c)
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"weft %s\" \"Weft\"\n", strings.ToUpper(escaped(name)), escaped(version.Release))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escaped(name), escaped(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", escaped(c.UseLine()))
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", paragraphs(long))
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n%s", paragraphs(c.Example))
	}
	c.InitDefaultHelpFlag()
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, ".SH OPTIONS\n%s", verbatim(flagUsages(c.LocalFlags(), manualColumns)))
	}
	var others []string
	if c.HasParent() {
		others = append(others, pageName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			others = append(others, pageName(sub))
		}
	}
	for i, other := range others {
		others[i] = escaped(other) + "(1)"
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(others, ",\n"))
	}
	return b.String()
}

// paragraphs returns a text of the help for troff. A paragraph with an indented line is an example
// or a table, and keeps its lines.
func paragraphs(text string) string {
	var b strings.Builder
	for i, p := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") {
			b.WriteString(verbatim(p))
		} else {
			b.WriteString(escaped(p) + "\n")
		}
	}
	return b.String()
}

// verbatim returns a text that troff does not fill.
func verbatim(text string) string { return ".nf\n" + escaped(strings.Trim(text, "\n")) + "\n.fi\n" }

// escaped returns a text without characters that troff understands. A line that begins with a dot
// or an apostrophe would be a request.
func escaped(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
