package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
)

func init() { register(newMachineCommand) }

func newMachineCommand() *cobra.Command {
	c := newGroup("machine", "Define parallel machines, which are lists of hosts, for weft run",
		newMachineCreateCommand(), newMachineListCommand(), newMachineShowCommand(), newMachineSetCommand(),
		newMachineDeleteCommand())
	c.Long = c.Short + `.

A machine is a name for a list of hosts. The NIC daemon of the host on which the
machine was created keeps the definition. Each host's own daemon counts its
slots, so machines may share hosts.`
	fitHelp(c, screenColumns)
	c.Example = `  weft machine create lab --nodes h1,h2,h3
  weft run -m lab -n 12 -- ./life`
	return c
}

// machineFlags are the properties of a machine that flags set.
type machineFlags struct {
	socket string
	nodes  []string
	slots  int
	link   string
}

func (f *machineFlags) define(c *cobra.Command) {
	socketFlag(c, &f.socket)
	c.Flags().StringSliceVar(&f.nodes, "nodes", nil,
		"use the hosts in `LIST`, names or ids that weft nodes prints; ranks fill them in this order")
	intFlag(c.Flags(), &f.slots, "slots", 0, 0, limits.SlotsPerHost,
		"allow a job N ranks on each host; 0: as many as the host offers")
	c.Flags().StringVar(&f.link, "link", "",
		"let the ranks use the network `NAME`, from [links.NAME] in the daemons' configuration")
}

// set writes the given flags into m. It looks nothing up: the daemon does.
func (f *machineFlags) set(c *cobra.Command, m *ctl.Machine) error {
	if c.Flags().Changed("nodes") {
		nodes, err := machineNodes(f.nodes)
		if err != nil {
			return err
		}
		m.Nodes = nodes
	}
	if c.Flags().Changed("slots") {
		m.Slots = f.slots
	}
	if c.Flags().Changed("link") {
		m.Link = f.link
	}
	return nil
}

// machineNodes parses a list of nodes. Each is a name or an id, and none may occur twice.
func machineNodes(list []string) (nodes []ctl.MachineNode, err error) {
	seen := make(map[string]bool)
	for _, s := range list {
		s = strings.TrimSpace(s)
		if key := strings.ToLower(s); seen[key] {
			return nil, usagef("--nodes: %s is listed twice; expected each host once", s)
		} else {
			seen[key] = true
		}
		if id, err := registry.ParseNICID(s); err == nil && id != 0 {
			nodes = append(nodes, ctl.MachineNode{NIC: id})
		} else if err := registry.CheckName(s); err != nil {
			return nil, usagef("--nodes: %w", err)
		} else {
			nodes = append(nodes, ctl.MachineNode{Name: s})
		}
	}
	if len(nodes) == 0 {
		return nil, usagef("--nodes is empty: expected at least one host, by a name or id that weft nodes prints")
	}
	if len(nodes) > limits.MachineNodes {
		return nil, usagef("--nodes lists %d hosts: expected at most %d", len(nodes), limits.MachineNodes)
	}
	return nodes, nil
}

// askDaemon calls f with a connection to this host's daemon. All requests of f together have
// answerWithin.
func askDaemon(c *cobra.Command, socket string, f func(ctx context.Context, conn *ctl.Conn) error) error {
	ctx, cancel := context.WithTimeout(c.Context(), answerWithin)
	defer cancel()
	conn, err := ctl.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(ctx, conn)
}

// findMachine returns the machine that this host's daemon keeps under a name. If there is none,
// the error lists the machines that it keeps.
func findMachine(ctx context.Context, conn *ctl.Conn, name string) (*ctl.Machine, error) {
	all, err := conn.NIC(0).Machines(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
		names = append(names, all[i].Name)
	}
	have := "none"
	if len(names) > 0 {
		have = strings.Join(names, ", ")
	}
	return nil, fmt.Errorf("no machine is called %q; this host's daemon keeps %s; weft machine create makes one",
		name, have)
}

// changeMachine sends a request about one machine to this host's daemon.
func changeMachine(ctx context.Context, conn *ctl.Conn, what string, m *ctl.Machine) error {
	_, err := conn.NIC(0).Job(ctx, &ctl.Job{What: what, Machine: m})
	return err
}

func newMachineCreateCommand() *cobra.Command {
	var f machineFlags
	c := &cobra.Command{
		Use:   "create NAME --nodes LIST [flags]",
		Short: "Define a machine as a list of hosts",
		Long: `Defines a machine. The NIC daemon of this host keeps the definition, even across
restarts.

LIST has names that weft nodes prints, and may have the name of this host, which
weft nodes does not print.

The command fails if the daemon knows no host of one of the names, or if a
machine of that name exists. A host may be in several machines. It may be down:
only weft run checks that.`,
		Example: `  weft machine create lab --nodes h1,h2,h3
  weft machine create fast --nodes h1,h2 --slots 4 --link fast0`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := ctl.CheckMachineName(args[0]); err != nil {
				return usagef("%w", err)
			}
			m := &ctl.Machine{Name: args[0]}
			if err := f.set(c, m); err != nil {
				return err
			}
			if len(m.Nodes) == 0 {
				return usagef(
					"--nodes is missing: expected the hosts of the machine, by names or ids that weft nodes prints")
			}
			return askDaemon(c, f.socket, func(ctx context.Context, conn *ctl.Conn) error {
				if _, err := findMachine(ctx, conn, m.Name); err == nil {
					return fmt.Errorf(
						"a machine called %q exists; weft machine set changes it, weft machine delete removes it",
						m.Name)
				}
				if err := changeMachine(ctx, conn, ctl.JobMachineSet, m); err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "machine %s: %s\n", m.Name, machineText(m))
				return nil
			})
		},
	}
	f.define(c)
	return c
}

// machineText describes a machine in one line.
func machineText(m *ctl.Machine) string {
	slots := "as many slots as each host offers"
	if m.Slots > 0 {
		slots = counted(m.Slots, "slot") + " on each"
	}
	text := fmt.Sprintf("%s: %s; %s", counted(len(m.Nodes), "node"), strings.Join(nodeTexts(m.Nodes), ", "), slots)
	if m.Link != "" {
		text += "; network " + m.Link
	}
	return text
}

// counted formats a number with a noun, in the plural unless the number is 1.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func nodeTexts(nodes []ctl.MachineNode) (texts []string) {
	for _, n := range nodes {
		texts = append(texts, nodeText(n))
	}
	return texts
}

// nodeText returns the name of a node, or else its id.
func nodeText(n ctl.MachineNode) string {
	if n.Name != "" {
		return n.Name
	}
	return n.NIC.String()
}

func newMachineListCommand() *cobra.Command {
	var socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the machines that this host's daemon keeps",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return askDaemon(c, socket, func(ctx context.Context, conn *ctl.Conn) error {
				all, err := conn.NIC(0).Machines(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return printLines(c.OutOrStdout(), all)
				}
				w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "MACHINE\tUSER\tSLOTS\tNETWORK\tNODES")
				for _, m := range all {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", m.Name, cmp.Or(m.User, "-"), slotsText(m.Slots),
						cmp.Or(m.Link, "-"), strings.Join(nodeTexts(m.Nodes), ","))
				}
				return w.Flush()
			})
		},
	}
	socketFlag(c, &socket)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line, and nothing for an empty list")
	return c
}

// slotsText formats a machine's limit of slots for each host.
func slotsText(n int) string {
	if n == 0 {
		return "by host"
	}
	return fmt.Sprint(n)
}

// machineHost is a host of a machine as weft machine show prints it.
type machineHost struct {
	Name  string         `json:"name,omitempty"`
	NIC   registry.NICID `json:"nic,omitempty"`
	Slots int            `json:"slots"` // that the host offers
	Free  int            `json:"free"`
	Error string         `json:"error,omitempty"`
}

func newMachineShowCommand() *cobra.Command {
	var socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a machine, and the free slots of each host",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return askDaemon(c, socket, func(ctx context.Context, conn *ctl.Conn) error {
				m, err := findMachine(ctx, conn, args[0])
				if err != nil {
					return err
				}
				if m.Link != "" { // this link's NIC knows the machine's hosts
					on, err := ctl.DialLink(ctx, socket, m.Link)
					if err != nil {
						return err
					}
					defer on.Close()
					conn = on
				}
				return showMachine(c, m, machineHosts(ctx, conn, m), asJSON)
			})
		},
	}
	socketFlag(c, &socket)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// machineHosts asks all hosts of a machine concurrently for their slots.
func machineHosts(ctx context.Context, conn *ctl.Conn, m *ctl.Machine) []machineHost {
	hosts := make([]machineHost, len(m.Nodes))
	var wg sync.WaitGroup
	for i, n := range m.Nodes {
		h := &hosts[i]
		h.Name, h.NIC = n.Name, n.NIC
		wg.Go(func() {
			r, err := askNIC(ctx, conn, n.NIC, &ctl.Job{What: ctl.JobSlots})
			if err != nil {
				h.Error = hostErrorText(err)
				return
			}
			h.Slots, h.Free = r.Slots, r.Free
		})
	}
	wg.Wait()
	return hosts
}

// askNIC sends a NIC a request about jobs over its own connection, so no request waits for
// another.
func askNIC(ctx context.Context, conn *ctl.Conn, nic registry.NICID, j *ctl.Job) (*ctl.JobReply, error) {
	own, err := conn.Another(ctx)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	return own.NIC(uint64(nic)).Job(ctx, j)
}

// hostErrorText returns an error's text without the prefixes of packages, and without the NIC
// that answered with it.
func hostErrorText(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", answerWithin)
	}
	text := err.Error()
	if _, reason, ok := strings.Cut(text, " answers: "); ok { // the caller names the host
		text = reason
	}
	for _, prefix := range []string{"weft: ", "not permitted: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}

func showMachine(c *cobra.Command, m *ctl.Machine, hosts []machineHost, asJSON bool) error {
	out := c.OutOrStdout()
	if asJSON {
		return json.NewEncoder(out).Encode(struct {
			Name  string        `json:"name"`
			User  string        `json:"user,omitempty"`
			Slots int           `json:"slots"`
			Link  string        `json:"link,omitempty"`
			Nodes []machineHost `json:"nodes"`
		}{m.Name, m.User, m.Slots, m.Link, hosts})
	}
	fmt.Fprintf(out, "machine %s of user %s: %s\n\n", m.Name, cmp.Or(m.User, "-"), machineText(m))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tNIC\tSLOTS\tFREE\tNOTE")
	for _, h := range hosts {
		slots, free := fmt.Sprint(h.Slots), fmt.Sprint(h.Free)
		if h.Error != "" {
			slots, free = "-", "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", cmp.Or(h.Name, "-"), nicText(h.NIC), slots, free, cmp.Or(h.Error, "-"))
	}
	return w.Flush()
}

func newMachineSetCommand() *cobra.Command {
	var f machineFlags
	c := &cobra.Command{
		Use:   "set NAME [flags]",
		Short: "Change a machine; running jobs keep their hosts",
		Long: `Changes only the properties that flags name. --nodes replaces the whole list.
The change applies to later jobs. A running job keeps its hosts, slots and
network.`,
		Example: `  weft machine set lab --nodes h1,h2,h3,h4
  weft machine set lab --slots 0                 # as many as each host offers`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("nodes") && !c.Flags().Changed("slots") && !c.Flags().Changed("link") {
				return usagef("nothing to change: expected --nodes, --slots or --link")
			}
			if err := f.set(c, new(ctl.Machine)); err != nil {
				return err
			}
			return askDaemon(c, f.socket, func(ctx context.Context, conn *ctl.Conn) error {
				m, err := findMachine(ctx, conn, args[0])
				if err != nil {
					return err
				}
				if err = f.set(c, m); err == nil {
					err = changeMachine(ctx, conn, ctl.JobMachineSet, m)
				}
				if err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "machine %s: %s\n", m.Name, machineText(m))
				return nil
			})
		},
	}
	f.define(c)
	return c
}

func newMachineDeleteCommand() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a machine on which no job runs",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return askDaemon(c, socket, func(ctx context.Context, conn *ctl.Conn) error {
				m, err := findMachine(ctx, conn, args[0])
				if err != nil {
					return err
				}
				if err := changeMachine(ctx, conn, ctl.JobMachineDelete, &ctl.Machine{Name: m.Name}); err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "machine %s is deleted\n", m.Name)
				return nil
			})
		},
	}
	socketFlag(c, &socket)
	return c
}
