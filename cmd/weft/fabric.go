package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/trust"
)

func init() { register(newFabricCommand) }

func newFabricCommand() *cobra.Command {
	c := newGroup("fabric", "Manage the key of a fabric, certificates and roles",
		newFabricInitCommand(), newFabricShowCommand(), newFabricJoinCommand(), newFabricRotateCommand(),
		newFabricKeyCommand(), newFabricCACommand(), newFabricGrantCommand())
	c.Long = c.Short + `.

NICs of one fabric share a fabric key. The key is in the file that --file or
$` + fabric.FileVariable + ` names, or in the user's configuration directory, where the first use
creates it. The key of root is in /var/lib/weft/` + fabric.FileName + `.

Two hosts:
  host A:  weft fabric show                # prints the join string, which is a secret
  host B:  weft fabric join                # reads the join string from standard input`
	return c
}

// fabricFileFlag defines --file.
func fabricFileFlag(c *cobra.Command, p *string) {
	c.Flags().StringVar(p, "file", "", "use the fabric key in `FILE` (default: $"+fabric.FileVariable+", or by user)")
}

// fabricFile returns the path of the key file that a command uses.
func fabricFile(flag string) (string, error) {
	if path := cmp.Or(flag, os.Getenv(fabric.FileVariable)); path != "" {
		return path, nil
	}
	path, err := fabric.DefaultFile()
	if err != nil {
		return "", fmt.Errorf("%w; give --file FILE", err)
	}
	return path, nil
}

func newFabricInitCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "init [--file FILE]",
		Short: "Create a fabric key in a new file",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			path, err := fabricFile(file)
			if err != nil {
				return err
			}
			k, err := fabric.Init(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: new fabric key %s\n", path, k.Fingerprint())
			return nil
		},
	}
	fabricFileFlag(c, &file)
	return c
}

func newFabricShowCommand() *cobra.Command {
	var file string
	var fingerprint bool
	c := &cobra.Command{
		Use:   "show [--file FILE] [--fingerprint]",
		Short: "Print the join string of the fabric: one line, and a secret",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			keys, _, note, err := fabric.Load(file)
			switch {
			case err != nil:
				return err
			case note != "":
				return errors.New(note)
			case fingerprint:
				fmt.Fprintln(c.OutOrStdout(), keys[0].Fingerprint())
			default:
				fmt.Fprintln(c.OutOrStdout(), keys[0].Text())
			}
			return nil
		},
	}
	fabricFileFlag(c, &file)
	c.Flags().BoolVar(&fingerprint, "fingerprint", false,
		"print the fingerprint of the key, which is no secret; hosts of one fabric print the same")
	return c
}

func newFabricJoinCommand() *cobra.Command {
	var file string
	var replace bool
	c := &cobra.Command{
		Use:   "join [--file FILE] [--replace]",
		Short: "Read the join string of a fabric from standard input, and store its key",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("join takes no arguments: the shell's history and ps show them; " +
					"expected the join string on standard input")
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			path, err := fabricFile(file)
			if err != nil {
				return err
			}
			k, err := readJoinString(c)
			if err != nil {
				return err
			}
			changed, err := fabric.Join(path, k, replace)
			if err != nil {
				return err
			}
			if changed {
				fmt.Fprintf(c.OutOrStdout(), "%s: joined fabric %s\n", path, k.Fingerprint())
			} else {
				fmt.Fprintf(c.OutOrStdout(), "%s: had fabric %s already\n", path, k.Fingerprint())
			}
			return nil
		},
	}
	fabricFileFlag(c, &file)
	c.Flags().BoolVar(&replace, "replace", false, "replace another key; this host then leaves the fabric of that key")
	return c
}

// mostJoinBytes bounds the input of join: a join string has 64 bytes.
const mostJoinBytes = 4096

func readJoinString(c *cobra.Command) (k trust.FabricKey, err error) {
	if f, ok := c.InOrStdin().(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
			fmt.Fprintln(c.ErrOrStderr(), "Paste the join string of weft fabric show, then press Enter and Ctrl-D.")
		}
	}
	b, err := io.ReadAll(io.LimitReader(c.InOrStdin(), mostJoinBytes))
	if err != nil {
		return k, fmt.Errorf("standard input: %w", err)
	}
	if k, err = trust.ParseFabricKey(string(b)); err != nil {
		return k, fmt.Errorf("standard input: %w", err)
	}
	return k, nil
}

func newFabricRotateCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "rotate [--file FILE]",
		Short: "Create a new fabric key, and print the steps to replace the old one",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			path, err := fabricFile(file)
			if err != nil {
				return err
			}
			newPath, k, err := fabric.Rotate(path)
			if err != nil {
				return err
			}
			fmt.Fprint(c.OutOrStdout(), rotation(path, newPath, k.Fingerprint()))
			return nil
		},
	}
	fabricFileFlag(c, &file)
	return c
}

// rotation returns instructions for replacing a key. A NIC calls with its first key and answers
// to all keys. So every host must know the new key before one calls with it.
func rotation(old, new, fingerprint string) string {
	return strings.NewReplacer("OLD", old, "NEW", new, "KEY", fingerprint).Replace(`NEW: new fabric key KEY

Do each step on all hosts before the next one. Run 'weft nic reload' after each change of a configuration.
1. Copy the new key to the host, and let its NIC answer to both keys:
     weft fabric show --file NEW | ssh HOST weft fabric join --file NEW
     key_files = ["OLD", "NEW"]
2. Let the NIC call with the new key:
     key_files = ["NEW", "OLD"]
3. End the overlap: put the new key in the place of the old one, and remove key_files from the configuration:
     mv NEW OLD
A process with an embedded NIC has no key_files. It reads OLD, which may hold both keys, one a line, in the same order.
`)
}

func newFabricKeyCommand() *cobra.Command {
	var stateDir, file string
	c := &cobra.Command{
		Use:   "key [--state-dir DIRECTORY | --file FILE]",
		Short: "Print the public key of a NIC, and the id derived from it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			k, err := staticKey(stateDir, file)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%v %v\n", k.Public(), k.Public().ID())
			return nil
		},
	}
	c.Flags().StringVar(&stateDir, "state-dir", "",
		"use the daemon's state `DIRECTORY` (default: by user); the first use creates a key there")
	c.Flags().StringVar(&file, "file", "", "read the static key from `FILE`")
	atMostOne(c, "state-dir", "file")
	return c
}

func staticKey(stateDir, file string) (trust.PrivateKey, error) {
	if file != "" {
		return fabric.StaticKeyFile(file)
	}
	if stateDir == "" {
		var err error
		if stateDir, err = fabric.StateDir(); err != nil {
			return trust.PrivateKey{}, err
		}
	}
	return fabric.StaticKey(stateDir)
}
