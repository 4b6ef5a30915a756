package daemon

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
)

// machines holds the definitions of parallel machines that users of this host have made. Every
// user that may attach may read and use each of them. Only its creator and root may change or
// delete it.
//
// They are in the file machines.json of the state directory. A change is written to the file
// before it is answered.
type machines struct {
	path string

	mu  sync.Mutex
	all map[string]ctl.Machine // by name
}

// machinesFile is the format of the file.
type machinesFile struct {
	Version  int           `json:"version"`
	Machines []ctl.Machine `json:"machines"`
}

const machinesVersion = 1

// openMachines reads the file, if there is one.
func openMachines(dir string) (*machines, error) {
	m := &machines{path: filepath.Join(dir, "machines.json"), all: make(map[string]ctl.Machine)}
	b, err := os.ReadFile(m.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return m, nil
	case err != nil:
		return nil, fmt.Errorf("machines: %w", err)
	}
	var f machinesFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("machines: %s: %w; move the file away to start without machines", m.path, err)
	}
	if f.Version != machinesVersion {
		return nil, fmt.Errorf("machines: %s has version %d; expected %d; move the file away to start without machines",
			m.path, f.Version, machinesVersion)
	}
	for _, one := range f.Machines {
		m.all[one.Name] = one
	}
	return m, nil
}

// sorted lists the machines by name. The caller holds the lock.
func (m *machines) sorted() []ctl.Machine {
	l := make([]ctl.Machine, 0, len(m.all))
	for _, one := range m.all {
		l = append(l, one)
	}
	slices.SortFunc(l, func(a, b ctl.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return l
}

// list returns all machines.
func (m *machines) list() []ctl.Machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sorted()
}

// get returns one machine.
func (m *machines) get(name string) (ctl.Machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one, ok := m.all[name]
	if !ok {
		return one, fmt.Errorf("%w: %q; `weft machine list` shows those that this daemon keeps", ctl.ErrNoMachine, name)
	}
	return one, nil
}

// set makes or replaces a machine for an asker.
func (m *machines) set(a deploy.Asker, one ctl.Machine) error {
	one.User = a.User
	m.mu.Lock()
	defer m.mu.Unlock()
	old, replaces := m.all[one.Name]
	if replaces {
		if err := mayChange(a, old); err != nil {
			return err
		}
		one.User = old.User
	} else if err := m.room(a.User); err != nil {
		return err
	}
	m.all[one.Name] = one
	err := m.write()
	if err != nil { // memory and file stay equal
		if delete(m.all, one.Name); replaces {
			m.all[one.Name] = old
		}
	}
	return err
}

// room returns an error if there is no room for one more machine of a user. The caller holds the
// lock.
func (m *machines) room(user string) error {
	own := 0
	for _, one := range m.all {
		if one.User == user {
			own++
		}
	}
	switch {
	case own >= limits.MachinesPerUser:
		return fmt.Errorf("%w: user %s has %d machines; delete one first", ctl.ErrRefused, user, own)
	case len(m.all) >= limits.Machines:
		return fmt.Errorf("%w: this daemon keeps %d machines; delete one first", ctl.ErrRefused, len(m.all))
	}
	return nil
}

// delete removes a machine for an asker, unless jobs use it.
func (m *machines) delete(a deploy.Asker, name string, using []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.all[name]
	if !ok {
		return fmt.Errorf("%w: %q", ctl.ErrNoMachine, name)
	}
	if err := mayChange(a, old); err != nil {
		return err
	}
	if len(using) > 0 {
		return fmt.Errorf("%w: machine %s: %s; `weft job kill` ends a job", ctl.ErrInUse, name,
			strings.Join(using, ", "))
	}
	delete(m.all, name)
	err := m.write()
	if err != nil {
		m.all[name] = old
	}
	return err
}

// mayChange returns an error unless the asker is the creator of the machine or root.
func mayChange(a deploy.Asker, m ctl.Machine) error {
	if a.UID == 0 || a.User == m.User {
		return nil
	}
	return fmt.Errorf("%w: machine %s is user %s's; only that user and root may change it",
		ctl.ErrRefused, m.Name, m.User)
}

// write replaces the file. The caller holds the lock.
func (m *machines) write() error {
	b, err := json.MarshalIndent(machinesFile{machinesVersion, m.sorted()}, "", "  ")
	if err == nil {
		err = replaceFile(m.path, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("machines: %w", err)
	}
	return nil
}

// machineAnswer answers a request about machines of a user of this host.
func (j *jobs) machineAnswer(a deploy.Asker, r *ctl.Request) (*ctl.JobReply, int, error) {
	reply := &ctl.JobReply{NIC: j.d.id}
	m := j.d.machines
	switch r.Job.What {
	case ctl.JobMachineList:
		page, next := ctl.Page(m.list(), r.From)
		reply.Machines = page
		return reply, next, nil
	case ctl.JobMachineDelete:
		name := r.Job.Machine.Name
		return reply, 0, m.delete(a, name, j.using(name))
	case ctl.JobMachineSet:
		if err := j.setMachine(a, r.Job.Machine); err != nil {
			return nil, 0, err
		}
	}
	one, err := m.get(r.Job.Machine.Name)
	reply.Machines = []ctl.Machine{one}
	return reply, 0, err
}

// setMachine keeps a machine. Its nodes are those of the link that it names, or of the link of
// the request.
func (j *jobs) setMachine(a deploy.Asker, m *ctl.Machine) error {
	of, err := j.d, error(nil)
	if m.Link != "" {
		of, err = j.d.called(m.Link)
	}
	if err != nil {
		return fmt.Errorf("machine %s: %w", m.Name, err)
	}
	one, err := of.resolve(*m)
	if err != nil {
		return err
	}
	return j.d.machines.set(a, one)
}

// mostUnknown bounds the hosts that an error names.
const mostUnknown = 16

// resolve finds the NIC of each node given by name, and the name of each node given by NIC. The
// error names the first nodes that are not known, and those that are.
func (d *Daemon) resolve(m ctl.Machine) (ctl.Machine, error) {
	if len(m.Nodes) == 0 {
		return m, fmt.Errorf("%w: machine %s has no nodes; expected one at least", ctl.ErrBadRequest, m.Name)
	}
	own, known := d.host(), d.nodes()
	ids, names := map[string]registry.NICID{strings.ToLower(own): d.id}, map[registry.NICID]string{d.id: own}
	for _, n := range known {
		if n.Name != "" && n.ID != 0 {
			ids[strings.ToLower(n.Name)], names[n.ID] = n.ID, n.Name
		}
	}
	var unknown []string
	seen := make(map[registry.NICID]bool)
	m.Nodes = slices.Clone(m.Nodes)
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if n.NIC == 0 {
			n.NIC = ids[strings.ToLower(n.Name)]
		}
		if n.Name == "" {
			n.Name = names[n.NIC]
		}
		if n.NIC == 0 {
			unknown = append(unknown, n.Name)
		} else if seen[n.NIC] {
			return m, fmt.Errorf("%w: machine %s has node %s twice", ctl.ErrBadRequest, m.Name,
				cmp.Or(n.Name, n.NIC.String()))
		}
		seen[n.NIC] = true
	}
	if len(unknown) > 0 {
		unknown = unknown[:min(len(unknown), mostUnknown)]
		return m, fmt.Errorf("%w: machine %s: this NIC knows no host %s; it knows %s; "+
			"expected names that `weft nodes` shows, or the ids of NICs",
			ctl.ErrNoNIC, m.Name, strings.Join(unknown, ", "), ctl.KnownHosts(own, known))
	}
	return m, nil
}
