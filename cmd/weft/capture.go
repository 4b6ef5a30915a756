package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/link/capture"
)

func init() {
	register(func() *cobra.Command {
		return newGroup("capture", "Process captures of frames that weft nic --capture writes",
			newCaptureDecryptCommand())
	})
}

func newCaptureDecryptCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "decrypt IN OUT",
		Short: "Copy a capture with its sealed frames decrypted by the keys in it",
		Long: `Copies the capture IN to OUT, and decrypts each sealed frame whose key is in IN. Wireshark
opens both files. IN has keys if the NIC recorded them:

  weft nic --capture nic.pcapng --capture-secrets
  weft capture decrypt nic.pcapng plain.pcapng

In a decrypted frame, the plaintext replaces the ciphertext, between the outer header and the
tag, and a comment names the cipher. Frames without a key stay unchanged. The command prints
the number of packets of each kind.

OUT must not exist. It is created without keys, and readable only by its owner. IN may be the
file of a NIC that still runs. OUT then has the frames that the NIC has written so far.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := decryptCapture(args[0], args[1])
			if err != nil {
				return err
			}
			printDecrypted(c.OutOrStdout(), args[1], n)
			if n.Torn {
				fmt.Fprintf(c.ErrOrStderr(),
					"weft: %s ends within a block: its NIC still runs, or was killed\n", args[0])
			}
			if n.BadKeys > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "weft: %s has %d lines among its secrets that are not keys\n",
					args[0], n.BadKeys)
			}
			return nil
		},
	}
}

func printDecrypted(to io.Writer, path string, n capture.Decrypted) {
	fmt.Fprintf(to, "%s: %d packets, %d keys\n", path, n.Packets, n.Keys)
	for _, l := range []struct {
		n    uint64
		what string
	}{
		{n.Opened, "sealed frames, decrypted"},
		{n.NoKey, "sealed frames without a key, unchanged"},
		{n.Cut, "truncated sealed frames, unchanged"},
		{n.Handshake, "handshake frames"},
		{n.Unsealed, "unsealed frames"},
		{n.Foreign, "other packets"},
	} {
		fmt.Fprintf(to, "%10d %s\n", l.n, l.what)
	}
}

// decryptCapture decrypts a capture to a new file. After an error, no new file remains.
func decryptCapture(from, to string) (n capture.Decrypted, err error) {
	switch info, err := os.Stat(from); { // before Open, which waits for the writer of a pipe
	case err != nil:
		return n, err
	case !info.Mode().IsRegular():
		return n, fmt.Errorf("%s is no regular file; expected one, since it is read twice", from)
	}
	in, err := os.Open(from)
	if err != nil {
		return n, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return n, fmt.Errorf("%s exists; expected the name of a new file", to)
	}
	if err != nil {
		return n, err
	}
	if n, err = capture.Decrypt(in, out); err != nil {
		err = fmt.Errorf("%s: %w", from, err)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		err = errors.Join(err, os.Remove(to))
	}
	return n, err
}
