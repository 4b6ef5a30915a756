package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/sweep"
)

func init() { register(newSegmentCommand) }

func newSegmentCommand() *cobra.Command {
	c := newGroup("segment", "Create, read and write memory that programs in the NIC share with processes",
		newSegmentCreateCommand(), newSegmentListCommand(), newSegmentReadCommand(), newSegmentWriteCommand(),
		newSegmentDeleteCommand())
	c.Long = `A segment is memory that programs in a NIC share with processes of its host. It has a number,
ID, 256 locks and 256 flags. Programs write to it with DELIVER and read it with GET. Go
programs open it with Process.SharedSegment(ID, SIZE).

A segment that a process creates ends with the last process that has it open. A segment of
"weft segment create" stays until "weft segment delete", or until the daemon ends. It belongs
to the user who created it. That user, root and the user of the daemon may read, write and
delete the segment. --others grants access to other users of the host.`
	c.Example = `  weft segment create 1 4KiB
  weft program load delivertest.pdl --id 413
  weft program send delivertest 1
  weft segment read 1 --length 8 --as words
  weft segment delete 1`
	return c
}

// segmentNumber reads the number of a segment.
func segmentNumber(arg string) (uint32, error) {
	n, err := strconv.ParseUint(arg, baseOf(arg), 32)
	if err != nil {
		return 0, usagef("segment %q: expected a number from 0 to %d", arg, uint32(1<<32-1))
	}
	return uint32(n), nil
}

// withDaemon calls f with a connection to the daemon, and bounds the time that f takes.
func withDaemon(c *cobra.Command, socket string, f func(ctx context.Context, conn *ctl.Conn) error) error {
	ctx, cancel := context.WithTimeout(c.Context(), segmentWithin)
	defer cancel()
	conn, err := ctl.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(ctx, conn)
}

// segmentWithin bounds a command about segments. The largest segment comes in 8,192 pieces.
const segmentWithin = loadWithin

func newSegmentCreateCommand() *cobra.Command {
	var socket, others string
	c := &cobra.Command{
		Use:   "create ID SIZE",
		Short: "Make a segment that stays without a process",
		Long: fmt.Sprintf(`Creates a segment of SIZE zero bytes, 1 to 64MiB. SIZE may have a unit, such as 4KiB, and is
rounded up to a multiple of 8. A user keeps at most %d segments, and in them at most
region_bytes of the daemon. A process opens the segment with the same size.`, limits.SegmentsKept),
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := segmentNumber(args[0])
			if err != nil {
				return err
			}
			size, ok := parseBytes(args[1])
			if !ok || size < 1 || size > limits.SegmentBytes {
				return usagef("size %q: expected 1 to %d bytes, such as 4096 or 4KiB", args[1], limits.SegmentBytes)
			}
			return withDaemon(c, socket, func(ctx context.Context, conn *ctl.Conn) error {
				s, err := conn.CreateSegment(ctx, id, size, others)
				if err == nil {
					fmt.Fprintf(c.OutOrStdout(), "segment %d has %d bytes\n", s.ID, s.Bytes)
				}
				return err
			})
		},
	}
	socketFlag(c, &socket)
	choiceFlag(c.Flags(), &others, "others", ctl.OthersNone, []string{ctl.OthersNone, ctl.OthersRead, ctl.OthersWrite},
		"grant other users of the host this access; with write, their processes may open the segment, too")
	return c
}

func newSegmentListCommand() *cobra.Command {
	var socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the segments of the NIC of this host",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withDaemon(c, socket, func(ctx context.Context, conn *ctl.Conn) error {
				all, err := conn.Segments(ctx)
				switch {
				case err != nil:
					return err
				case asJSON:
					return printLines(c.OutOrStdout(), all)
				}
				return printSegments(c.OutOrStdout(), all)
			})
		},
	}
	socketFlag(c, &socket)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line, and nothing for an empty list")
	return c
}

func printSegments(out io.Writer, all []ctl.SegmentInfo) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tBYTES\tOWNER\tOTHERS\tKEPT\tPROCESSES\tLOCKS\tFLAGS")
	for _, s := range all {
		kept := "no"
		if s.Kept {
			kept = "yes"
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%d\t%d\t%d\n",
			s.ID, s.Bytes, s.User, s.Others, kept, s.Processes, s.Locks, s.Flags)
	}
	return w.Flush()
}

func newSegmentReadCommand() *cobra.Command {
	var socket, as string
	var offset, length int
	c := &cobra.Command{
		Use:   "read ID",
		Short: "Print bytes of a segment",
		Long: `Prints bytes of a segment: as hex, sixteen a line after their offset; as words of 64 bits, one
a line; or raw. The command reads pieces of 8 KiB, and programs may write to the segment in
between.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := segmentNumber(args[0])
			if err != nil {
				return err
			}
			if as == "words" && length > 0 && length%8 != 0 {
				return usagef("--length %d with --as words: expected a multiple of 8", length)
			}
			return withDaemon(c, socket, func(ctx context.Context, conn *ctl.Conn) error {
				data, err := conn.ReadSegment(ctx, id, int64(offset), int64(length))
				if err != nil {
					return err
				}
				return printBytes(c.OutOrStdout(), data, offset, as)
			})
		},
	}
	socketFlag(c, &socket)
	intFlag(c.Flags(), &offset, "offset", 0, 0, limits.SegmentBytes, "read from byte N on")
	intFlag(c.Flags(), &length, "length", -1, 0, limits.SegmentBytes, "read N bytes (default: to the end)")
	c.Flags().Lookup("length").DefValue = "" // -1 is internal
	choiceFlag(c.Flags(), &as, "as", "hex", []string{"hex", "words", "raw"}, "print the bytes in this form")
	return c
}

func newSegmentWriteCommand() *cobra.Command {
	var socket, file string
	var offset int
	c := &cobra.Command{
		Use:   "write ID [WORD...]",
		Short: "Write words or a file into a segment",
		Long: `Writes words, or a file with --file, into a segment. If the bytes do not fit, the command writes
none of them. It writes pieces of 8 KiB, and programs may read the segment in between.

A WORD is as in weft program send: a number of 64 bits, text:WORDS, hex:BYTES, or zero:N. If a
word is negative, put all words after --, and all flags before it.`,
		Example: `  weft segment write 1 --offset 8 5 text:hello
  weft segment write 1 --file pages.bin
  weft segment write 1 -- -1`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := segmentNumber(args[0])
			if err != nil {
				return err
			}
			data, err := segmentData(args[1:], file, c.InOrStdin())
			if err != nil {
				return err
			}
			return withDaemon(c, socket, func(ctx context.Context, conn *ctl.Conn) error {
				err := conn.WriteSegment(ctx, id, int64(offset), data)
				if err == nil {
					fmt.Fprintf(c.OutOrStdout(), "%s written to segment %d\n", sweep.Plural(len(data), "byte"), id)
				}
				return err
			})
		},
	}
	socketFlag(c, &socket)
	intFlag(c.Flags(), &offset, "offset", 0, 0, limits.SegmentBytes, "write from byte N on")
	c.Flags().StringVar(&file, "file", "", "write the bytes of `FILE`; -: of standard input")
	return c
}

// segmentData returns the bytes to write: of words, or of a file.
func segmentData(words []string, file string, in io.Reader) (data []byte, err error) {
	if (file == "") == (len(words) == 0) {
		return nil, usagef("no bytes, or two sources of bytes: expected words or --file")
	}
	for _, w := range words {
		b, err := part(w)
		if err != nil {
			return nil, usagef("word %v", err)
		}
		data = append(data, b...)
	}
	if file == "" {
		return data, nil
	}
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err = io.ReadAll(io.LimitReader(in, limits.SegmentBytes+1))
	if err == nil && len(data) > limits.SegmentBytes {
		err = fmt.Errorf("%s has more than %d bytes, the maximum of a segment", file, limits.SegmentBytes)
	}
	if err == nil && len(data) == 0 {
		err = errors.New(file + " is empty; expected at least one byte")
	}
	return data, err
}

func newSegmentDeleteCommand() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a segment that weft segment create made",
		Long: `Deletes a segment that "weft segment create" made. If processes have the segment open, it ends
when the last of them releases it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := segmentNumber(args[0])
			if err != nil {
				return err
			}
			return withDaemon(c, socket, func(ctx context.Context, conn *ctl.Conn) error {
				s, err := conn.DeleteSegment(ctx, id)
				if err != nil {
					return err
				}
				text := "is deleted"
				if s.Processes > 0 {
					text = fmt.Sprintf("goes when its last process releases it; it has %d", s.Processes)
				}
				fmt.Fprintf(c.OutOrStdout(), "segment %d %s\n", id, text)
				return nil
			})
		},
	}
	socketFlag(c, &socket)
	return c
}
