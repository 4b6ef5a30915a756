package main

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/pdl/vm/mem"
)

// A pdlNIC is one of the NICs of weft pdl run.
type pdlNIC struct {
	*mem.NIC
	names  map[string]vm.ID
	before map[vm.ID]uint64 // instructions of a program, as printed last

	displayed, sent, delivered int    // how much of each has been printed
	flags                      string // as printed last
}

func (n *pdlNIC) instructions(id vm.ID) uint64 {
	info, _ := n.Machine.Info(id)
	return info.Profile.Instructions
}

// has reports whether a program, a number or a name in small letters, is loaded.
func (n *pdlNIC) has(program string) (vm.ID, bool) {
	if number, err := strconv.ParseUint(program, 10, 32); err == nil {
		_, ok := n.Machine.Info(vm.ID(number))
		return vm.ID(number), ok
	}
	id, ok := n.names[program]
	return id, ok
}

// A pdlFile is FILE[=ID][@NIC], once it is read.
type pdlFile struct {
	module *prog.Module
	id     vm.ID  // 0: one that is free
	at     string // the NIC as it is given; empty: that of --nic
	nic    *pdlNIC
}

// place matches the NIC at the end of an argument: a file's name may have an @, too.
var place = regexp.MustCompile(`^(.+)@([0-9A-Za-z_-]+|[0-9]+(?::[0-9]+){7})$`)

// programArgument reads FILE[=ID][@NIC].
func programArgument(arg string) (f pdlFile, err error) {
	file := arg
	if m := place.FindStringSubmatch(arg); m != nil {
		file, f.at = m[1], m[2]
	}
	file, number, given := strings.Cut(file, "=")
	if given {
		id, err := strconv.ParseUint(number, 10, 32)
		if err != nil || id == 0 {
			return f, usagef("%q: expected FILE=ID, with a number from 1 to 4294967295", arg)
		}
		f.id = vm.ID(id)
	}
	f.module, _, err = readModule(file)
	return f, err
}

// defaultNIC is the name of the NIC of --nic.
const defaultNIC = "nic"

// number reads the NIC behind an @: eight octets, one number, or nothing. What is none of them is a name.
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

// build makes the NICs on which the files are to be: first those with a number, since a name gets one that is free.
func (r *pdlRun) build(files []pdlFile, cfg vm.Config) error {
	for i := range files {
		id, ok, err := r.number(files[i].at)
		if ok {
			files[i].nic, err = r.add(id, "", cfg)
		}
		if err != nil {
			return err
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
		var err error
		if f.nic, err = r.add(id, f.at, cfg); err != nil {
			return err
		}
	}
	return nil
}

// add returns the NIC with an id, which it makes if there is none.
func (r *pdlRun) add(id uint64, name string, cfg vm.Config) (*pdlNIC, error) {
	if n := r.at(id); n != nil {
		return n, nil
	}
	if id == uint64(r.pdlRunFlags.nic) {
		name = defaultNIC
	}
	n, err := r.fabric.Add(id, name, cfg)
	if err != nil {
		return nil, err
	}
	added := &pdlNIC{NIC: n, names: make(map[string]vm.ID), before: make(map[vm.ID]uint64)}
	r.nics = append(r.nics, added)
	return added, nil
}

// at returns the NIC with an id, nil if there is none.
func (r *pdlRun) at(id uint64) *pdlNIC {
	for _, n := range r.nics {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// find returns the NIC that a name or number means, nil if there is none.
func (r *pdlRun) find(nic string) *pdlNIC {
	if id, ok, _ := r.number(nic); ok {
		return r.at(id)
	}
	for _, n := range r.nics {
		if strings.EqualFold(n.Name, nic) { // as AT does
			return n
		}
	}
	return nil
}

// receiver finds the NIC and the program that a message is for.
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
	program := strings.ToLower(m.program)
	var found *pdlNIC
	var id vm.ID
	for _, n := range among {
		switch at, ok := n.has(program); {
		case ok && found != nil:
			return nil, 0, usagef("message %q: several NICs have a program %s, expected PROGRAM@NIC/TRIGGER", m.spec, m.program)
		case ok:
			found, id = n, at
		}
	}
	if found == nil {
		return nil, 0, usagef("message %q: there is no program %s", m.spec, m.program)
	}
	info, _ := found.Machine.Info(id)
	return found, id, handles(info.Module, m)
}

// handles refuses a message for a trigger that a program does not have.
func handles(program *prog.Module, m givenMessage) error {
	var have []string
	for _, t := range program.Triggers {
		if t.Number == m.trigger {
			return nil
		}
		have = append(have, strconv.FormatUint(uint64(t.Number), 10))
	}
	if len(have) == 0 {
		return usagef("message %q: program %s has no triggers", m.spec, program.Name)
	}
	return usagef("message %q: program %s has no trigger %d, expected one of %s", m.spec, program.Name, m.trigger, strings.Join(have, ", "))
}
