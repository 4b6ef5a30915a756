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
	return newGroup("program", "Load programs into NICs, send them messages, and inspect them",
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
	c.Flags().StringVar(&w.nic, "nic", "", "ask another NIC, by its `ID` or name, through the NIC of this host")
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
		Short: "Load a source or module into one NIC or into all, and start it",
		Long: `Loads a program, a source in PDL or a module, into a NIC. The NIC verifies the program,
installs it, and starts it.

With --all, the command loads the program into every NIC that this one knows, or into none:

  prepare    Each NIC verifies the program and reserves memory for it. If one cannot, the
             command names it, and loads the program nowhere.
  commit     Each NIC installs and starts the program. If one fails or does not answer, the
             command names it, and asks all NICs to roll back.
  roll back  Each NIC removes the program, and restores the one that it replaced. If the
             command cannot reach a NIC, it names the NIC. An installed program stays
             there; a prepared one is dropped within ` + limits.PrepareWithin.String() + `.

Without --id, the program gets a free number, with --all the same on all NICs.

--replace replaces another program, between two activations:

  --replace           Replaces the program of the same name. With --all, each NIC selects it
                      by the name, and keeps its number there. A NIC never replaces a
                      program of another name. A NIC without a program of this name loads
                      it under its number on the other NICs, if that number is free.
  --replace --id N    Replaces the program with number N, whatever its name.

If the variables are the same and the old program runs, the new one continues with its data.
Otherwise the new program starts with new data.

With --guard NAME, the program judges every message for the process NAME. With --outgoing, it
judges the messages that the process sends, and can delay or refuse them. For example, a token
bucket limits the rate of a tenant. A process has at most one guard for each direction.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("trigger") && o.Guards == "" {
				return usagef("--trigger %d: expected --guard NAME, too, "+
					"the process whose messages the program judges by that trigger",
					trigger)
			}
			if o.Outgoing && o.Guards == "" {
				return usagef(
					"--outgoing: expected --guard NAME, too, the process whose outgoing messages the program judges")
			}
			m, _, err := readModule(args[0])
			if err != nil {
				return show(c, err)
			}
			o.ID, o.Trigger, o.Start = uint32(id), uint32(trigger), !noStart
			if o.Guards != "" && !c.Flags().Changed("trigger") {
				if len(m.Triggers) != 1 {
					return usagef("--guard %s: %s has %d triggers; expected --trigger N, too, "+
						"the trigger that judges the messages",
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
	intFlag(c.Flags(), &id, "id", 0, 0, 1<<31-1, "set the number of the program; 0: a free one, the same on all NICs")
	c.Flags().BoolVar(&o.Replace, "replace", false,
		"replace the program with number --id, or without --id the program of the same name, between two "+
			"activations; keep its data if the layout is the same")
	c.Flags().BoolVar(&noStart, "no-start", false, "load the program without starting it")
	choiceFlag(c.Flags(), &o.Resident, "resident", "", []string{ctl.ResidentAuto, ctl.ResidentVM, ctl.ResidentXDP},
		"announce the program as resident: other NICs send it datagrams, which may be lost; it runs in the driver "+
			"of the link (xdp), in the virtual machine (vm), or in the driver if possible (auto)")
	c.Flags().StringVar(&o.Guards, "guard", "",
		"let the program judge every message for the process `NAME`, such as app/3")
	c.Flags().BoolVar(&o.Outgoing, "outgoing", false,
		"with --guard: judge the outgoing messages of the process instead; the program can delay them")
	intFlag(c.Flags(), &trigger, "trigger", 0, 0, 1<<32-1, "with --guard: judge messages by trigger N (default: the "+
		"only one)")
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
		return ", with the data of the replaced program"
	}
	return ", with new data"
}

// programTarget parses the argument that names a program: its number, or its name.
func programTarget(arg string) (id uint32, name string, err error) {
	if arg == "" {
		return 0, "", usagef("the program is empty: expected its number or name")
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
	return newProgramChangeCommand("unload", "Unload a program from a NIC", ctl.ProgramUnload, "is unloaded")
}

func newProgramStartCommand() *cobra.Command {
	return newProgramChangeCommand("start", "Start a program that was loaded with --no-start", ctl.ProgramStart,
		"is started")
}

func newProgramSendCommand() *cobra.Command {
	var w whichNICs
	c := &cobra.Command{
		Use:   "send PROGRAM TRIGGER [WORD...]",
		Short: "Send a message to a program",
		Long: `Sends a message to a trigger of a program.

A WORD is a number of 64 bits, signed or unsigned, in decimal, or with the prefix 0x, 0o or 0b.
As with weft pdl run, it may also be text:WORDS, hex:BYTES, or zero:N for N zero bytes. If a
word is negative, put all words after --, and all flags before it.`,
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
				"-%[1]s looks like a flag: expected negative words after --, as in %[2]s PROGRAM TRIGGER -- -%[1]s",
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
		return nil, usagef("the message has %d bytes: expected at most %d", len(b), ctl.ProgramPiece)
	}
	return b, nil
}

func newProgramLogCommand() *cobra.Command {
	var w whichNICs
	var from int
	c := &cobra.Command{
		Use:   "log PROGRAM",
		Short: "Print the values that a program has displayed, one a line",
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
	w.flags(c, "print those of every NIC that this one knows, each after its NIC")
	intFlag(c.Flags(), &from, "from", 0, 0, 1<<62,
		"begin with value N, counted from 0 since the program was loaded")
	return c
}

// printLog prints one value per line, each after the same prefix.
func printLog(out, errs io.Writer, before string, values []int64, first, from uint64) error {
	if first > from {
		fmt.Fprintf(errs, before+"the first %d values are no longer kept\n", first)
	}
	for _, v := range values {
		if _, err := fmt.Fprintf(out, "%s%d\n", before, v); err != nil {
			return err
		}
	}
	return nil
}
