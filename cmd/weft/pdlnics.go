package main

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/sim"
)

// A pdlNIC is one of the NICs of weft pdl run: an engine of a simulated fabric.
type pdlNIC struct {
	id       uint64
	name     string // by which AT finds it; empty: none
	host     int    // its number in the fabric
	programs *program.Table
	segments map[uint32][]byte
	before   map[vm.ID]uint64 // instructions of a program at the last print

	displayed []displayedValue // since the last print, as the next two
	sent      []sentMessage
	delivered []deliveredBytes
	flags     string // at the last print
}

// Effects of a program.
type (
	displayedValue struct {
		program vm.ID
		value   int64
	}
	sentMessage struct {
		from    vm.ID
		to      vm.Destination
		payload []byte
		taken   bool // by the NIC
	}
	deliveredBytes struct {
		vm.Transfer
		data []byte
	}
)

func (n *pdlNIC) instructions(id vm.ID) uint64 {
	info, _ := n.programs.Info(id)
	return info.Profile.Instructions
}

// has reports whether a program is loaded. name is a number, or a name in small letters.
func (n *pdlNIC) has(name string) (vm.ID, bool) {
	if number, err := strconv.ParseUint(name, 10, 32); err == nil {
		_, ok := n.programs.Info(vm.ID(number))
		return vm.ID(number), ok
	}
	id, ok := n.programs.Lookup(prog.ProgramName, name, 0)
	return vm.ID(id), ok
}

// setFlags lists the flags that are set in the segments of the NIC, by their numbers in PDL.
func (n *pdlNIC) setFlags() (all []int64) {
	for _, id := range slices.Sorted(maps.Keys(n.segments)) {
		_, flags := program.SegmentSync(n.segments[id])
		for i, flag := range flags {
			if flag != 0 {
				all = append(all, int64(id)*limits.SegmentWords+int64(i))
			}
		}
	}
	return all
}

// A pdlFile is FILE[=ID][@NIC] after parsing.
type pdlFile struct {
	module *prog.Module
	id     vm.ID  // 0: any free id
	at     string // the NIC as given; empty: that of --nic
	nic    *pdlNIC
}

// place matches the NIC at the end of an argument. A file's name may also contain an @.
var place = regexp.MustCompile(`^(.+)@([0-9A-Za-z_-]+|[0-9]+(?::[0-9]+){7})$`)

// programArgument parses FILE[=ID][@NIC].
func programArgument(arg string) (f pdlFile, err error) {
	file := arg
	if m := place.FindStringSubmatch(arg); m != nil {
		file, f.at = m[1], m[2]
	}
	file, number, given := strings.Cut(file, "=")
	if given {
		id, err := strconv.ParseUint(number, 10, 32)
		if err != nil || id == 0 || vm.ID(id)&program.ProcessBit != 0 {
			return f, usagef("%q: expected FILE=ID, with a number from 1 to %d", arg, program.ProcessBit-1)
		}
		f.id = vm.ID(id)
	}
	f.module, _, err = readModule(file)
	return f, err
}

// defaultNIC is the name of the NIC of --nic.
const defaultNIC = "nic"

// number parses the NIC after an @: eight octets, one number, or nothing. Anything else is a
// name.
func (r *pdlRun) number(nic string) (id uint64, ok bool, err error) {
	switch {
	case nic == "" || nic == defaultNIC:
		return uint64(r.pdlRunFlags.nic), true, nil
	case strings.Contains(nic, ":"):
		id, err := registry.ParseNICID(nic)
		return uint64(id), err == nil, err
	case strings.Trim(nic, "0123456789") != "":
		return 0, false, nil
	}
	if id, err = strconv.ParseUint(nic, 10, 64); err != nil || id == 0 {
		return 0, false, usagef("@%s: expected the number of a NIC, from 1 on", nic)
	}
	return id, true, nil
}

// choose finds the NICs for the files. NICs with a number come first, since a name gets a free
// number.
func (r *pdlRun) choose(files []pdlFile) error {
	for i := range files {
		id, ok, err := r.number(files[i].at)
		if err != nil {
			return err
		}
		if ok {
			files[i].nic = r.add(id, "")
		}
	}
	for i := range files {
		f := &files[i]
		if f.nic != nil {
			continue
		}
		if f.nic = r.find(f.at); f.nic != nil {
			continue
		}
		id := uint64(1)
		for r.at(id) != nil || id == uint64(r.pdlRunFlags.nic) {
			id++
		}
		f.nic = r.add(id, f.at)
	}
	return nil
}

// add returns the NIC with an id. It adds the NIC if there is none.
func (r *pdlRun) add(id uint64, name string) *pdlNIC {
	if n := r.at(id); n != nil {
		return n
	}
	if id == uint64(r.pdlRunFlags.nic) {
		name = defaultNIC
	}
	n := &pdlNIC{id: id, name: name, host: len(r.nics), segments: make(map[uint32][]byte),
		before: make(map[vm.ID]uint64)}
	r.nics = append(r.nics, n)
	return n
}

// begin starts the engines of all NICs, and observes them.
func (r *pdlRun) begin() {
	var ids []uint64
	for _, n := range r.nics {
		ids = append(ids, n.id)
	}
	r.fabric = sim.New(simulated.Hooked(sim.Config{Seed: 1, NICs: len(r.nics)}, simulated.Hooks{IDs: ids}))
	for _, n := range r.nics {
		n.programs = simulated.Engine(r.fabric, n.host).Programs()
		n.programs.SetBudget(r.budget)
		n.programs.Observe(r.observer(n))
		for _, other := range r.nics {
			if other.name != "" {
				n.programs.NameNode(other.name, other.id, netip.AddrPort{})
			}
		}
	}
}

// at returns the NIC with an id; nil if there is none.
func (r *pdlRun) at(id uint64) *pdlNIC {
	for _, n := range r.nics {
		if n.id == id {
			return n
		}
	}
	return nil
}

// find returns the NIC that a name or number means; nil if there is none.
func (r *pdlRun) find(nic string) *pdlNIC {
	if id, ok, _ := r.number(nic); ok {
		return r.at(id)
	}
	for _, n := range r.nics {
		if strings.EqualFold(n.name, nic) { // as AT does
			return n
		}
	}
	return nil
}

// receiver finds the NIC and the program of a message.
func (r *pdlRun) receiver(m givenMessage, first pdlFile) (*pdlNIC, vm.ID, error) {
	if m.program == "" {
		return first.nic, first.id, handles(first.module, m)
	}
	among := r.nics
	if m.nic != "" {
		n := r.find(m.nic)
		if n == nil {
			return nil, 0, usagef("message %q: there is no NIC %s", m.spec, m.nic)
		}
		among = []*pdlNIC{n}
	}
	name := strings.ToLower(m.program)
	var found *pdlNIC
	var id vm.ID
	for _, n := range among {
		switch at, ok := n.has(name); {
		case ok && found != nil:
			return nil, 0, usagef("message %q: several NICs have a program %s, expected PROGRAM@NIC/TRIGGER",
				m.spec, m.program)
		case ok:
			found, id = n, at
		}
	}
	if found == nil {
		return nil, 0, usagef("message %q: there is no program %s", m.spec, m.program)
	}
	info, _ := found.programs.Info(id)
	return found, id, handles(info.Module, m)
}

// handles returns an error if a program does not have a message's trigger.
func handles(module *prog.Module, m givenMessage) error {
	var have []string
	for _, t := range module.Triggers {
		if t.Number == m.trigger {
			return nil
		}
		have = append(have, strconv.FormatUint(uint64(t.Number), 10))
	}
	if len(have) == 0 {
		return usagef("message %q: program %s has no triggers", m.spec, module.Name)
	}
	return usagef("message %q: program %s has no trigger %d, expected one of %s",
		m.spec, module.Name, m.trigger, strings.Join(have, ", "))
}
