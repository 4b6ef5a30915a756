package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/pdl/prog"
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
		Use:   "run FILE[=ID]...",
		Short: "Run programs without a NIC, with messages that are given",
		Long: `Run sources or modules on a NIC that does nothing else, in memory and on virtual time. Programs get the
numbers 1, 2, … or those given. Each is started, then the messages are handled in their order, with those that
the programs send one another; what becomes of each is printed, with the instructions that it took.

A message is [PROGRAM/]TRIGGER[:PART,PART…], where PROGRAM is a number or name, by default that of the first
file. A part is a number, which is a word of 64 bits, or text:…, hex:…, or zero:N for N bytes of zero.`,
		Example: `  weft pdl run counter.pdl --send 1 --send 1 --send 2:9,5
  weft pdl run ping.pdl pong.pdl=415 --nic 0:0:0:96:221:127:255:140
  printf '1:text:hello\n1:hex:00ff\n' | weft pdl run filter.pdl --send -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			r := &pdlRun{pdlRunFlags: &f, out: c.OutOrStdout(), names: make(map[string]vm.ID), before: make(map[vm.ID]uint64)}
			return show(c, r.run(files, c.InOrStdin()))
		},
	}
	c.Flags().StringArrayVar(&f.send, "send", nil, "send this message; - reads messages from standard input, one a line")
	c.Flags().StringArrayVar(&f.segments, "segment", nil, "have a segment: ID=BYTES, of zeros, or ID=text:… or ID=hex:…")
	c.Flags().Int64SliceVar(&f.locks, "lock", nil, "have these locks set")
	c.Flags().TextVar(&f.nic, "nic", f.nic, "the `id` of the NIC")
	intFlag(c.Flags(), &f.budget, "budget", 100_000, 1, 1<<30, "instructions that an activation may execute")
	intFlag(c.Flags(), &f.messages, "messages", 10_000, 1, 1<<30, "handle at most so many messages")
	c.Flags().BoolVar(&f.late, "late", false, "have DELIVER and GET end as late as they can")
	return c
}

// A pdlRun is one call of weft pdl run.
type pdlRun struct {
	*pdlRunFlags
	out    io.Writer
	fabric *mem.Fabric
	nic    *mem.NIC
	first  vm.ID
	names  map[string]vm.ID

	displayed, sent, delivered int              // how much of each has been printed
	flags                      string           // as printed last
	before                     map[vm.ID]uint64 // instructions of a program, as printed last
	aborted                    int
}

func (r *pdlRun) run(files []string, in io.Reader) error {
	modules := make([]*prog.Module, len(files))
	ids := make([]vm.ID, len(files))
	cfg := vm.Config{Programs: len(files), Budget: r.budget}
	for i, file := range files {
		var err error
		if modules[i], ids[i], err = programArgument(file); err != nil {
			return err
		}
		cfg.CodeWords += len(modules[i].Code)
		cfg.DataWords += modules[i].DataWords
	}
	r.fabric = mem.NewFabric()
	r.fabric.Late = r.late
	r.fabric.Observe = func(_ *mem.NIC, m vm.Message, o vm.Outcome) { r.observe(m, o) }
	var err error
	if r.nic, err = r.fabric.Add(uint64(r.pdlRunFlags.nic), "nic", cfg); err != nil {
		return err
	}
	if err := r.prepare(); err != nil {
		return err
	}
	messages, err := r.collect(in)
	if err != nil {
		return err
	}
	if err := r.load(modules, ids); err != nil {
		return err
	}
	for _, spec := range messages {
		if err := r.post(spec); err != nil {
			return err
		}
	}
	if n := r.fabric.Run(r.messages); n == r.messages {
		fmt.Fprintf(r.out, "%d messages were handled, and no more are: --messages\n", n)
	}
	r.profile()
	if r.aborted > 0 {
		return fmt.Errorf("%d activations were aborted", r.aborted)
	}
	return nil
}

// programArgument reads FILE or FILE=ID.
func programArgument(arg string) (*prog.Module, vm.ID, error) {
	file, number, given := strings.Cut(arg, "=")
	id := uint64(0)
	if given {
		var err error
		if id, err = strconv.ParseUint(number, 10, 32); err != nil || id == 0 {
			return nil, 0, usagef("%q: expected FILE=ID, with a number from 1 to 4294967295", arg)
		}
	}
	m, _, err := readModule(file)
	return m, vm.ID(id), err
}

// prepare makes what the programs find.
func (r *pdlRun) prepare() error {
	for _, s := range r.segments {
		number, content, ok := strings.Cut(s, "=")
		id, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil {
			return usagef("--segment %q: expected ID=BYTES, ID=text:… or ID=hex:…", s)
		}
		if size, err := strconv.Atoi(content); err == nil && size >= 0 && size <= 1<<30 {
			r.nic.Segment(id, size)
			continue
		}
		b, err := part(content)
		if err != nil {
			return usagef("--segment %q: %v", s, err)
		}
		copy(r.nic.Segment(id, len(b)), b)
	}
	for _, n := range r.locks {
		r.nic.SetLock(n)
	}
	return nil
}

// collect lists the messages that are given.
func (r *pdlRun) collect(in io.Reader) (messages []string, err error) {
	for _, s := range r.send {
		if s != "-" {
			messages = append(messages, s)
			continue
		}
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if line := strings.TrimSpace(lines.Text()); line != "" {
				messages = append(messages, line)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("read messages: %w", err)
		}
	}
	return messages, nil
}

// load loads all programs before it starts the first, so that they find one another.
func (r *pdlRun) load(modules []*prog.Module, ids []vm.ID) error {
	for _, given := range []bool{true, false} {
		for i, m := range modules {
			if (ids[i] != 0) != given {
				continue
			}
			id, err := r.nic.Machine.Load(ids[i], m)
			if err != nil {
				return err
			}
			ids[i], r.names[m.Name] = id, id
		}
	}
	r.first = ids[0]
	for _, id := range ids {
		before := r.instructions(id)
		o := r.nic.Machine.Start(id)
		r.tell(fmt.Sprintf("start of %s", r.name(id)), id, o, before)
	}
	return nil
}

// name is how a program is called in what is printed.
func (r *pdlRun) name(id vm.ID) string {
	info, ok := r.nic.Machine.Info(id)
	if !ok {
		return fmt.Sprintf("program %d", id)
	}
	return fmt.Sprintf("%s (%d)", info.Module.Name, id)
}

func (r *pdlRun) instructions(id vm.ID) uint64 {
	info, _ := r.nic.Machine.Info(id)
	return info.Profile.Instructions
}

// post puts a given message into the queue.
func (r *pdlRun) post(spec string) error {
	to, content, _ := strings.Cut(spec, ":")
	id, trigger := r.first, to
	if program, t, ok := strings.Cut(to, "/"); ok {
		trigger = t
		if n, err := strconv.ParseUint(program, 10, 32); err == nil {
			id = vm.ID(n)
		} else if id, ok = r.names[strings.ToLower(program)]; !ok {
			return usagef("message %q: there is no program %s", spec, program)
		}
	}
	n, err := strconv.ParseUint(trigger, 10, 32)
	if err != nil {
		return usagef("message %q: expected [PROGRAM/]TRIGGER[:PART,PART…], with a number for the trigger", spec)
	}
	var payload []byte
	if content != "" {
		for s := range strings.SplitSeq(content, ",") {
			b, err := part(s)
			if err != nil {
				return usagef("message %q: %v", spec, err)
			}
			payload = append(payload, b...)
		}
	}
	if len(payload) > prog.MaxMessage {
		return usagef("message %q: %d bytes, at most %d are allowed", spec, len(payload), prog.MaxMessage)
	}
	r.nic.Post(id, uint32(n), payload)
	return nil
}

// part reads one part of a message's contents.
func part(s string) ([]byte, error) {
	kind, rest, named := strings.Cut(s, ":")
	switch {
	case !named:
		n, err := strconv.ParseInt(s, 0, 64)
		if u, errU := strconv.ParseUint(s, 0, 64); err != nil && errU == nil {
			n, err = int64(u), nil
		}
		if err == nil {
			return binary.LittleEndian.AppendUint64(nil, uint64(n)), nil
		}
	case kind == "text":
		return []byte(rest), nil
	case kind == "hex":
		if b, err := hex.DecodeString(rest); err == nil {
			return b, nil
		}
	case kind == "zero":
		if n, err := strconv.Atoi(rest); err == nil && n >= 0 && n <= prog.MaxMessage {
			return make([]byte, n), nil
		}
	}
	return nil, fmt.Errorf("%q: expected a number, text:…, hex:… or zero:N", s)
}
