package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
)

func init() { register(newProgramCommand) }

func newProgramCommand() *cobra.Command {
	return newGroup("program", "Load programs into NICs, talk to them, and look at them",
		newProgramLoadCommand(), newProgramUnloadCommand(), newProgramStartCommand(), newProgramSendCommand(),
		newProgramListCommand(),
		newProgramLogCommand(), newProgramProfileCommand())
}

// loadWithin bounds the time to load a program into a fabric. Each NIC has answerWithin for each
// of several requests.
const loadWithin = 2 * time.Minute

// whichNICs are the flags that choose the NICs of a command.
type whichNICs struct {
	socket string
	nic    string // its id or name; empty: that of this host
	all    bool
}

func (w *whichNICs) flags(c *cobra.Command, all string) {
	socketFlag(c, &w.socket)
	c.Flags().StringVar(&w.nic, "nic", "", "another NIC, its `ID` or name, by way of that of this host")
	c.Flags().BoolVar(&w.all, "all", false, all)
	atMostOne(c, "nic", "all")
}

// chosen returns the chosen NICs among those that this host's NIC knows; 0 is that NIC itself.
// strange names the chosen ones that have no id yet.
func (w *whichNICs) chosen(nodes []ctl.Node) (nics []registry.NICID, strange []error, err error) {
	if id, err := registry.ParseNICID(w.nic); err == nil && id != 0 {
		return []registry.NICID{id}, nil, nil
	}
	if w.nic != "" {
		id, err := nicNamed(nodes, w.nic)
		return []registry.NICID{id}, nil, err
	}
	nics = []registry.NICID{0}
	for _, n := range nodes {
		switch {
		case n.ID == 0:
			strange = append(strange, neverAnswered(n))
		case w.all:
			nics = append(nics, n.ID)
		}
	}
	return nics, strange, nil
}

// ask calls f with the chosen NICs and the errors of chosen. NIC 0 is that of this host. Each
// request has answerWithin.
func (w *whichNICs) ask(
	c *cobra.Command, f func(ctx context.Context, client *deploy.Client, nics []registry.NICID, strange []error) error,
) error {
	ctx, cancel := context.WithTimeout(c.Context(), loadWithin)
	defer cancel()
	conn, err := ctl.Dial(ctx, w.socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	var nodes []ctl.Node
	if w.all || w.nic != "" {
		if nodes, err = conn.Nodes(ctx); err != nil {
			return err
		}
	}
	nics, strange, err := w.chosen(nodes)
	if err != nil {
		return err
	}
	client := &deploy.Client{Ask: func(ctx context.Context, nic registry.NICID,
		r *ctl.Program) (*ctl.ProgramReply, error) {
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		// NICs are asked concurrently, and a connection carries one request at a time
		own, err := conn.Another(ctx)
		if err != nil {
			return nil, err
		}
		defer own.Close()
		return own.NIC(uint64(nic)).Program(ctx, r)
	}}
	return f(ctx, client, nics, strange)
}

// each calls f for every chosen NIC. It returns an error if one failed.
func (w *whichNICs) each(
	c *cobra.Command, f func(ctx context.Context, client *deploy.Client, nic registry.NICID) error,
) error {
	return w.ask(c, func(ctx context.Context, client *deploy.Client, nics []registry.NICID, strange []error) error {
		failed, all := len(strange), len(nics)+len(strange)
		for _, err := range strange {
			fmt.Fprintln(c.ErrOrStderr(), err)
		}
		for _, nic := range nics {
			err := f(ctx, client, nic)
			if err != nil && all == 1 {
				return err
			}
			if err != nil {
				failed++
				fmt.Fprintln(c.ErrOrStderr(), deploy.At(nic, err))
			}
		}
		if failed > 0 {
			return fmt.Errorf("%d of %d NICs failed", failed, all)
		}
		return nil
	})
}

// placeText returns a NIC's id, or words for that of this host.
func placeText(nic registry.NICID) string {
	if nic == 0 {
		return "of this host"
	}
	return nic.String()
}

func newProgramLoadCommand() *cobra.Command {
	var w whichNICs
	var o deploy.Options
	var id, trigger int
	var noStart bool
	c := &cobra.Command{
		Use:   "load FILE",
		Short: "Load a source or module into a NIC, or into all of the fabric or none, and start it",
		Long: `Load a program, a source in PDL or a module, into a NIC: it is verified there, put in its
place, and started.

With --all it goes into every NIC that this one knows, or into none:

  prepare    each NIC verifies it and takes memory for it; if one cannot, it is named, and
             the program is loaded nowhere
  commit     each puts it in its place, and starts it; if one fails or does not answer, it
             is named, and all are asked to
  roll back  take it out again: what it had replaced is there as before. A NIC that cannot
             be told is named: what it has put in place stays, and what it has only prepared
             it forgets within ` + limits.PrepareWithin.String() + `

Without --id, the number is one that is free, with --all the same on all NICs.

--replace puts it in the place of another, between two activations:

  --replace           of the one that has its name. With --all each NIC goes by the name,
                      and by the number that it has there; a program of another name is
                      never replaced. A NIC that has none of the name loads it anew,
                      by the number that it has elsewhere if that is free there
  --replace --id N    of the one with that number, whatever its name

It goes on with the data of the one before if the variables are the same and that runs;
else it begins anew.

With --guard NAME, the program judges every message for the process NAME. With --outgoing,
it judges what the process sends, and can delay or refuse it: a token bucket limits the
rate of a tenant, for example. A process has one guard for each direction.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("trigger") && o.Guards == "" {
				return usagef("--trigger %d: expected with --guard NAME, the process whose messages come to the program by that "+
					"trigger",
					trigger)
			}
			if o.Outgoing && o.Guards == "" {
				return usagef(
					"--outgoing: expected with --guard NAME, the process whose outgoing messages the program judges")
			}
			m, _, err := readModule(args[0])
			if err != nil {
				return show(c, err)
			}
			o.ID, o.Trigger, o.Start = uint32(id), uint32(trigger), !noStart
			if o.Guards != "" && !c.Flags().Changed("trigger") {
				if len(m.Triggers) != 1 {
					return usagef("--guard %s: %s has %d triggers; expected --trigger, too, with the one that it sees messages by",
						o.Guards, m.Name, len(m.Triggers))
				}
				o.Trigger = m.Triggers[0].Number
			}
			return w.ask(c, func(ctx context.Context, client *deploy.Client, nics []registry.NICID,
				strange []error) error {
				if err := errors.Join(strange...); err != nil {
					return fmt.Errorf("%w; the program is loaded nowhere", err)
				}
				placed, err := client.Load(ctx, nics, m.Encode(), o)
				if err != nil {
					return err
				}
				for _, p := range placed {
					fmt.Fprintf(c.OutOrStdout(), "%s is program %d of the NIC %s%s%s\n",
						m.Name, p.ID, placeText(p.NIC), residentText(&p), keptText(o.Replace, p.Kept))
				}
				return notBegun(placed)
			})
		},
	}
	w.flags(c, "load it into every NIC that this one knows, or into none")
	intFlag(c.Flags(), &id, "id", 0, 0, 1<<31-1, "number of the program; 0: one that is free, the same on all NICs")
	c.Flags().BoolVar(&o.Replace, "replace", false,
		"replace the program of that number, or else the one of its name on each NIC, between two activations; its data "+
			"stays if the layout is the same")
	c.Flags().BoolVar(&noStart, "no-start", false, "do not run the initialisation yet")
	choiceFlag(c.Flags(), &o.Resident, "resident", "", []string{ctl.ResidentAuto, ctl.ResidentVM, ctl.ResidentXDP},
		"announce it as resident: messages of other NICs come as datagrams, and may be lost; they are handled in the "+
			"driver of the link, in the virtual machine, or in the driver if that can be")
	c.Flags().StringVar(&o.Guards, "guard", "",
		"let it judge every message for this process first, a `NAME` such as app/3")
	c.Flags().BoolVar(&o.Outgoing, "outgoing", false,
		"with --guard: judge what the process sends, in place of what it is sent; it can delay that")
	intFlag(c.Flags(), &trigger, "trigger", 0, 0, 1<<32-1, "the trigger by which it sees them; by default its only one")
	return c
}

// notBegun returns the reasons why the placed programs are stopped.
func notBegun(placed []deploy.Placed) (err error) {
	for _, p := range placed {
		if p.Aborted != "" {
			err = errors.Join(err, deploy.At(p.NIC, fmt.Errorf("%w: %s", deploy.ErrBegin, p.Aborted)))
		}
	}
	return err
}

// residentText says where a resident program is. If it is not in the driver, it says why.
func residentText(p *deploy.Placed) string {
	switch {
	case p.Resident == ctl.ResidentXDP:
		return ", in the driver of its link"
	case p.Why != "":
		return ", in the virtual machine, since " + p.Why
	case p.Resident != "":
		return ", in the virtual machine"
	}
	return ""
}

// keptText says whether a replaced program's data was kept.
func keptText(replace, kept bool) string {
	switch {
	case !replace:
		return ""
	case kept:
		return ", with the data of the one before"
	}
	return ", with new data"
}

// programTarget parses the argument that names a program: its number, or its name.
func programTarget(arg string) (id uint32, name string, err error) {
	if arg == "" {
		return 0, "", usagef("a program is expected, by its number or name")
	}
	if arg[0] < '0' || arg[0] > '9' {
		return 0, arg, nil
	}
	n, err := strconv.ParseUint(arg, baseOf(arg), 31)
	if err != nil || n == 0 {
		return 0, "", usagef("program %q: expected a name, or a number from 1 to %d", arg, 1<<31-1)
	}
	return uint32(n), "", nil
}

// newProgramChangeCommand returns a command that does one thing to a program.
func newProgramChangeCommand(use, short, do, done string) *cobra.Command {
	var w whichNICs
	c := &cobra.Command{
		Use:   use + " PROGRAM",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, name, err := programTarget(args[0])
			if err != nil {
				return err
			}
			return w.each(c, func(ctx context.Context, client *deploy.Client, nic registry.NICID) error {
				r, err := client.Ask(ctx, nic, &ctl.Program{Do: do, ID: id, Name: name})
				if err == nil {
					fmt.Fprintf(c.OutOrStdout(), "program %d of the NIC %s %s\n", r.ID, placeText(nic), done)
				}
				return err
			})
		},
	}
	w.flags(c, use+" it on every NIC that this one knows")
	return c
}

func newProgramUnloadCommand() *cobra.Command {
	return newProgramChangeCommand("unload", "Take a program out of a NIC", ctl.ProgramUnload, "is unloaded")
}

func newProgramStartCommand() *cobra.Command {
	return newProgramChangeCommand("start", "Start a program that was loaded and not started", ctl.ProgramStart,
		"is started")
}

func newProgramSendCommand() *cobra.Command {
	var w whichNICs
	c := &cobra.Command{
		Use:   "send PROGRAM TRIGGER [WORD...]",
		Short: "Send a program a message of some words",
		Long: `Send a trigger of a program a message of some words.

A WORD is a number of 64 bits, signed or not, in decimal or 0x… as in PDL, or 0o… or 0b…. As with
weft pdl run it may be text:WORDS, hex:BYTES, or zero:N, N zero bytes, too. Where there is a negative
one, the words stand behind --, and flags before it.`,
		Example: `  weft program send counter 2 9 5
  weft program send counter --nic host-3 2 -- 9 -5`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			id, name, err := programTarget(args[0])
			if err != nil {
				return err
			}
			trigger, err := strconv.ParseUint(args[1], baseOf(args[1]), 32)
			if err != nil {
				return usagef("trigger %q: expected a number from 0 to %d", args[1], uint32(1<<32-1))
			}
			payload, err := words(args[2:])
			if err != nil {
				return err
			}
			return w.each(c, func(ctx context.Context, client *deploy.Client, nic registry.NICID) error {
				_, err := client.Ask(ctx, nic, &ctl.Program{Do: ctl.ProgramSend, ID: id, Name: name,
					Trigger: uint32(trigger), Bytes: payload})
				return err
			})
		},
	}
	w.flags(c, "send to the program on every NIC that this one knows")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		var e *pflag.NotExistError
		if errors.As(err, &e) && strings.Trim(e.GetSpecifiedShortnames(), "0123456789") == "" &&
			e.GetSpecifiedShortnames() != "" {
			return fmt.Errorf(
				"-%[1]s is taken for flags: expected negative words behind --, as in %[2]s PROGRAM TRIGGER -- -%[1]s",
				e.GetSpecifiedShortnames(), c.CommandPath())
		}
		return err
	})
	return c
}

// words makes a message of words, little-endian as programs read them. Each word is written as
// for weft pdl run.
func words(args []string) (b []byte, err error) {
	for _, a := range args {
		w, err := part(a)
		if err != nil {
			return nil, usagef("word %v", err)
		}
		b = append(b, w...)
	}
	if len(b) > ctl.ProgramPiece { // the most that a request carries
		return nil, usagef("a message of %d bytes; at most %d", len(b), ctl.ProgramPiece)
	}
	return b, nil
}

func newProgramLogCommand() *cobra.Command {
	var w whichNICs
	var from int
	c := &cobra.Command{
		Use:   "log PROGRAM",
		Short: "Print what a program has displayed, a value a line",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, name, err := programTarget(args[0])
			if err != nil {
				return err
			}
			return w.each(c, func(ctx context.Context, client *deploy.Client, nic registry.NICID) error {
				values, first, err := client.Log(ctx, nic, id, name, uint64(from))
				if err != nil {
					return err
				}
				before := ""
				if w.all {
					before = placeText(nic) + "\t"
				}
				return printLog(c.OutOrStdout(), c.ErrOrStderr(), before, values, first, uint64(from))
			})
		},
	}
	w.flags(c, "print those of every NIC that this one knows, each with its NIC before it")
	intFlag(c.Flags(), &from, "from", 0, 0, 1<<62,
		"the first value to print, counted from 0 since the program was loaded")
	return c
}

// printLog prints one value per line, each after the same prefix.
func printLog(out, errs io.Writer, before string, values []int64, first, from uint64) error {
	if first > from {
		fmt.Fprintf(errs, before+"the first %d values are not kept any more\n", first)
	}
	for _, v := range values {
		if _, err := fmt.Fprintf(out, "%s%d\n", before, v); err != nil {
			return err
		}
	}
	return nil
}
