package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/sweep"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/pdl/vm/mem"
)

type pdlRunFlags struct {
	send     []string
	segments []string
	locks    []int64
	nic      registry.NICID
	budget   int
	messages int
	late     bool
}

func newPDLRunCommand() *cobra.Command {
	f := pdlRunFlags{nic: 1}
	c := &cobra.Command{
		Use:   "run FILE[=ID][@NIC]...",
		Short: "Run programs without a NIC, with messages that are given",
		Long: `Run sources or modules on NICs that do nothing else, in memory and on virtual time. Programs get the numbers
1, 2, … or those given. Each is started, then the messages are handled in their order, with those that the
programs send one another; what becomes of each is printed, with the instructions that it took.

All programs are on one NIC, or on those given: @NIC is a number, eight octets, or a name, which AT finds, too.
Between them nothing is lost, repeated or overtaken; what programs make of that is for tests in the simulator,
package sim. Each NIC has the segments and locks that are given.

A message is [PROGRAM[@NIC]/]TRIGGER[:PART,PART…], where PROGRAM is a number or name, by default that of the
first file. A part is a number, which is a word of 64 bits, or text:…, hex:…, or zero:N for N bytes of zero.`,
		Example: `  weft pdl run counter.pdl --send 1 --send 1 --send 2:9,5
  weft pdl run ping.pdl=416@1 pong.pdl=415@2 --send ping/1:2
  printf '1:text:hello\n1:hex:00ff\n' | weft pdl run filter.pdl --send -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			r := &pdlRun{pdlRunFlags: &f, out: c.OutOrStdout()}
			return show(c, r.run(files, c.InOrStdin()))
		},
	}
	c.Flags().StringArrayVar(&f.send, "send", nil, "send this `MESSAGE`; - reads messages from standard input, one a line")
	c.Flags().StringArrayVar(&f.segments, "segment", nil, "have a `SEGMENT`: ID=BYTES, of zeros, or ID=text:… or ID=hex:…")
	locksFlag(c.Flags(), &f.locks, "lock", "have these locks set")
	c.Flags().TextVar(&f.nic, "nic", f.nic, "the `ID` of the NIC of programs that are given without one")
	intFlag(c.Flags(), &f.budget, "budget", limits.ProgramBudget, 1, 1<<30, "instructions that an activation may execute; by default as many as in a NIC")
	intFlag(c.Flags(), &f.messages, "messages", 10_000, 1, 1<<30, "handle at most so many messages")
	c.Flags().BoolVar(&f.late, "late", false, "have DELIVER and GET end as late as they can")
	return c
}

// A pdlRun is one call of weft pdl run.
type pdlRun struct {
	*pdlRunFlags
	out     io.Writer
	fabric  *mem.Fabric
	nics    []*pdlNIC
	aborted int
}

func (r *pdlRun) run(args []string, in io.Reader) error {
	files := make([]pdlFile, len(args))
	cfg := vm.Config{Programs: len(args), Budget: r.budget}
	for i, arg := range args {
		var err error
		if files[i], err = programArgument(arg); err != nil {
			return err
		}
		cfg.CodeWords += len(files[i].module.Code)
		cfg.DataWords += files[i].module.DataWords
	}
	segments, messages, err := r.given(in)
	if err != nil {
		return err
	}
	r.fabric = mem.NewFabric()
	r.fabric.Late, r.fabric.Sends = r.late, limits.ProgramSends
	r.fabric.Observe = func(n *mem.NIC, m vm.Message, o vm.Outcome) { r.observe(r.at(n.ID), m, o) }
	r.fabric.Ended = func(n *mem.NIC, id vm.ID, o vm.Outcome) { r.ended(r.at(n.ID), id, o) }
	if err := r.build(files, cfg); err != nil {
		return err
	}
	r.prepare(segments)
	if err := loadAll(files); err != nil {
		return err
	}
	posts, err := r.posts(messages, files[0])
	if err != nil {
		return err
	}
	for _, f := range files {
		before := f.nic.instructions(f.id)
		o := f.nic.Start(f.id)
		r.tell(f.nic, fmt.Sprintf("start of %s", r.name(f.nic, f.id)), f.id, o, before)
	}
	for _, post := range posts {
		post()
	}
	if n := r.fabric.Run(r.messages); n == r.messages {
		fmt.Fprintf(r.out, "%d messages were handled, and no more are: --messages\n", n)
	}
	r.profile()
	if r.aborted > 0 {
		return fmt.Errorf("aborted: %s", sweep.Plural(r.aborted, "activation"))
	}
	return nil
}

// given reads what the flags give the programs.
func (r *pdlRun) given(in io.Reader) (segments []givenSegment, messages []givenMessage, err error) {
	for _, text := range r.segments {
		s, err := parseSegment(text)
		if err != nil {
			return nil, nil, err
		}
		segments = append(segments, s)
	}
	messages, err = collect(r.send, in)
	return segments, messages, err
}

// posts returns what puts each message into the queue, once it is known that all have a receiver.
func (r *pdlRun) posts(messages []givenMessage, first pdlFile) (posts []func(), err error) {
	for _, m := range messages {
		n, id, err := r.receiver(m, first)
		if err != nil {
			return nil, err
		}
		posts = append(posts, func() { n.Post(id, m.trigger, m.payload) })
	}
	return posts, nil
}

// prepare makes what the programs find.
func (r *pdlRun) prepare(segments []givenSegment) {
	for _, n := range r.nics {
		for _, s := range segments {
			copy(n.Segment(s.id, s.size), s.contents)
		}
		for _, lock := range r.locks {
			n.SetLock(lock)
		}
	}
}

// loadAll loads the programs, all before the first is started, so that they find one another: those with a number first, since
// the others get one that is free.
func loadAll(files []pdlFile) error {
	for _, given := range []bool{true, false} {
		for i := range files {
			f := &files[i]
			if (f.id != 0) != given {
				continue
			}
			id, err := f.nic.Machine.Load(f.id, f.module)
			if err != nil {
				return err
			}
			f.id = id
			if first, named := f.nic.names[f.module.Name]; !named || id < first { // of several, a NIC takes the one with the lowest number
				f.nic.names[f.module.Name] = id
			}
		}
	}
	return nil
}

// name is how a program is called in what is printed.
func (r *pdlRun) name(n *pdlNIC, id vm.ID) string {
	name := fmt.Sprintf("program %d", id)
	if info, ok := n.Machine.Info(id); ok {
		name = fmt.Sprintf("%s (%d)", info.Module.Name, id)
	}
	if len(r.nics) > 1 {
		name += " at " + registry.NICID(n.ID).String()
	}
	return name
}
