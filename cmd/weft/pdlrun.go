package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/sweep"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/sim"
)

type pdlRunFlags struct {
	send     []string
	segments []string
	locks    []int64
	nic      registry.NICID
	budget   int
	messages int
}

func newPDLRunCommand() *cobra.Command {
	f := pdlRunFlags{nic: 1}
	c := &cobra.Command{
		Use:   "run FILE[=ID][@NIC]...",
		Short: "Run programs without a NIC, with given messages",
		Long: `Runs sources or modules on simulated NICs, in memory and on virtual time. Programs get the
numbers 1, 2, … or the given ones. The command starts each program, and then delivers the given
messages in their order, and the messages that programs send one another. For each message, it
prints the outcome and the number of executed instructions.

The simulated NICs run the code of real NICs, with the same limits and errors. For example, a
program that sends to itself without end stops with "recursion" after ` + fmt.Sprint(limits.ProgramChain) + ` messages.

All programs are on one NIC, or on the given NICs: @NIC is a number, eight octets, or a name,
which AT finds, too. Between NICs, no message is lost, repeated or overtaken. Package sim tests
programs on worse networks. Each NIC has the given segments and locks. A lock or flag belongs
to a segment: lock 256 is lock 0 of segment 1.

A message is [PROGRAM[@NIC]/]TRIGGER[:PART,PART…]. PROGRAM is a number or a name, by default
that of the first file. A PART is a number, which is a word of 64 bits, or text:…, hex:…, or
zero:N for N zero bytes.`,
		Example: `  weft pdl run counter.pdl --send 1 --send 1 --send 2:9,5
  weft pdl run ping.pdl=416@1 pong.pdl=415@2 --send ping/1:2
  printf '1:text:hello\n1:hex:00ff\n' | weft pdl run filter.pdl --send -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			r := &pdlRun{pdlRunFlags: &f, out: c.OutOrStdout()}
			return show(c, r.run(files, c.InOrStdin()))
		},
	}
	c.Flags().StringArrayVar(&f.send, "send", nil,
		"send `MESSAGE`; - reads messages from standard input, one a line")
	c.Flags().StringArrayVar(&f.segments, "segment", nil,
		"create a `SEGMENT`: ID=BYTES for zeros, ID=text:… or ID=hex:…")
	locksFlag(c.Flags(), &f.locks, "lock", "set these locks, each in a segment of --segment")
	c.Flags().TextVar(&f.nic, "nic", f.nic, "set the `ID` of the NIC of programs without @NIC")
	intFlag(c.Flags(), &f.budget, "budget", limits.ProgramBudget, 1, 1<<30,
		"limit an activation to N instructions, as a NIC does")
	intFlag(c.Flags(), &f.messages, "messages", 10*limits.ProgramChain, 1, 1<<30, "end after N messages")
	return c
}

// A pdlRun is one call of weft pdl run.
type pdlRun struct {
	*pdlRunFlags
	out     io.Writer
	fabric  *sim.Fabric
	nics    []*pdlNIC
	handled int // messages
	aborted int // activations
	refused int // messages from the flags
}

func (r *pdlRun) run(args []string, in io.Reader) error {
	files := make([]pdlFile, len(args))
	for i, arg := range args {
		var err error
		if files[i], err = programArgument(arg); err != nil {
			return err
		}
	}
	segments, messages, err := r.given(in)
	if err != nil {
		return err
	}
	if err := r.choose(files); err != nil {
		return err
	}
	r.begin()
	if err := r.prepare(segments); err != nil {
		return err
	}
	if err := r.loadAll(files); err != nil {
		return err
	}
	posts, err := r.posts(messages, files[0])
	if err != nil {
		return err
	}
	for _, f := range files {
		before := f.nic.instructions(f.id)
		o := f.nic.programs.Start(f.id)
		simulated.Turn(r.fabric, f.nic.host)
		r.tell(f.nic, fmt.Sprintf("start of %s", r.name(f.nic, f.id)), f.id, o, before)
	}
	if err := r.exchange(posts); err != nil {
		return err
	}
	if r.handled == r.messages {
		fmt.Fprintf(r.out, "ended after %d messages, the limit of --messages\n", r.handled)
	}
	r.profile()
	switch {
	case r.aborted > 0:
		return fmt.Errorf("aborted: %s", sweep.Plural(r.aborted, "activation"))
	case r.refused > 0:
		return fmt.Errorf("refused: %s", sweep.Plural(r.refused, "message"))
	}
	return nil
}

// given parses the segments and messages that the flags give the programs.
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

// A post is a given message with its receiver.
type post struct {
	nic     *pdlNIC
	program vm.ID
	givenMessage
}

// posts finds the receivers of the messages, before any program runs.
func (r *pdlRun) posts(messages []givenMessage, first pdlFile) (posts []post, err error) {
	for _, m := range messages {
		n, id, err := r.receiver(m, first)
		if err != nil {
			return nil, err
		}
		posts = append(posts, post{n, id, m})
	}
	return posts, nil
}

// exchangeStep is the virtual time between two looks at the NICs.
const exchangeStep = 100 * time.Microsecond

// exchange gives the NICs the messages, in order, and ends when no message waits.
func (r *pdlRun) exchange(posts []post) error {
	for {
		for len(posts) > 0 && r.post(&posts[0]) {
			posts = posts[1:]
		}
		if r.handled == r.messages || len(posts) == 0 && r.quiet() {
			return nil
		}
		if err := r.fabric.Settle(exchangeStep); err != nil {
			return err
		}
	}
}

// post gives a NIC a message. It returns false if the message must wait for room in the queue.
func (r *pdlRun) post(p *post) bool {
	err := p.nic.programs.Post(p.program, p.trigger, p.payload)
	simulated.Turn(r.fabric, p.nic.host)
	if errors.Is(err, program.ErrNoRoom) {
		return false
	}
	if err != nil {
		r.refused++
		fmt.Fprintf(r.out, "message %q: %v\n", p.spec, err)
	}
	return true
}

// quiet reports whether no message waits in a NIC or is in flight between two.
func (r *pdlRun) quiet() bool {
	for _, n := range r.nics {
		if !n.programs.Quiet() || n.programs.Unsent() {
			return false
		}
		for _, other := range r.nics {
			taken, _ := n.programs.Room(other.id)
			if _, owed := other.programs.Room(n.id); taken != owed {
				return false
			}
		}
	}
	return true
}

// prepare makes the segments of each NIC, and sets the locks.
func (r *pdlRun) prepare(segments []givenSegment) error {
	for _, n := range r.nics {
		for _, s := range segments {
			mem := vni.AlignedBytes((s.size+7)/8*8 + program.SegmentTail)
			if err := n.programs.AddSegment(s.id, mem); err != nil {
				return usagef("--segment %d=…: %v", s.id, err)
			}
			copy(mem, s.contents)
			n.segments[s.id] = mem
		}
		for _, lock := range r.locks {
			id := uint32(lock / limits.SegmentWords)
			mem := n.segments[id]
			if mem == nil {
				return usagef("--lock %d: expected --segment %d=BYTES too, the segment of this lock", lock, id)
			}
			locks, _ := program.SegmentSync(mem)
			locks[lock%limits.SegmentWords] = 1
		}
	}
	return nil
}

// tellTime bounds how long the NICs take to announce their programs to one another.
const tellTime = time.Second

// loadAll loads all programs before it starts the first, so they find one another. Programs with
// a number come first, since the others get a free one.
func (r *pdlRun) loadAll(files []pdlFile) error {
	for _, given := range []bool{true, false} {
		for i := range files {
			f := &files[i]
			if (f.id != 0) != given {
				continue
			}
			id, _, err := f.nic.programs.Load(program.Spec{Module: f.module, ID: f.id})
			if err != nil {
				return err
			}
			f.id = id
			simulated.Turn(r.fabric, f.nic.host)
		}
	}
	if len(r.nics) == 1 {
		return nil
	}
	return r.fabric.Settle(tellTime)
}

// name returns the name of a program for output.
func (r *pdlRun) name(n *pdlNIC, id vm.ID) string {
	name := fmt.Sprintf("program %d", id)
	if info, ok := n.programs.Info(id); ok {
		name = fmt.Sprintf("%s (%d)", info.Module.Name, id)
	}
	if len(r.nics) > 1 {
		name += " at " + registry.NICID(n.id).String()
	}
	return name
}
