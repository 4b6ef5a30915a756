package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/proxy"
)

func newProxyPassword() *cobra.Command {
	return &cobra.Command{
		Use:   "password USER",
		Short: "Print a user's line for the file of weft proxy --auth",
		Long: `Reads a password, one line, from standard input, and prints USER and a hash of the password in
the form that weft proxy --auth FILE expects. The mode of FILE must be 0600.`,
		Example: `  (umask 077; weft proxy password alice < password.txt >> users)
  weft proxy --from 10.0.0.1:1080 --to fabric --auth users`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			// PasswordLine refuses a longer line by its length.
			said, err := bufio.NewReader(io.LimitReader(c.InOrStdin(), 4096)).ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("standard input: %w", err)
			}
			line, err := proxy.PasswordLine(args[0], strings.TrimRight(said, "\r\n"))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), line)
			return err
		},
	}
}
