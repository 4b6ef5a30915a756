package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/doctor"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/version"
)

func init() { register(newDoctorCommand) }

type doctorOptions struct {
	socket string
	config string
	peer   string
	json   bool
}

func newDoctorCommand() *cobra.Command {
	o := &doctorOptions{}
	c := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Find the ills of Weft on this host, and print the commands that mend them",
		Long: `Checks the NIC of this host, its limits, its ports and its paths to other NICs. For each ill, it
prints the fault, its cost, and the command that mends it. It does not run these commands.

If no daemon runs, it looks for reasons why a daemon could not start or would be slow. --config
then names the configuration of that daemon. Only root can find some of the ills.

The exit status is 0 if no ill was found, 1 if an ill was found or a check failed to run, and 2
if the command line is wrong.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDoctor(c, o) },
	}
	socketFlag(c, &o.socket)
	f := c.Flags()
	f.StringVar(&o.config, "config", "",
		"if no daemon runs, check for a future one with TOML `FILE` (default: one without flags)")
	f.StringVar(&o.peer, "peer", "", "check only the paths to the NICs of `HOST`, an IP or a name, besides this host")
	f.BoolVar(&o.json, "json", false, "print each finding as one JSON object on a line")
	return c
}

func runDoctor(c *cobra.Command, o *doctorOptions) error {
	host, err := doctor.NewHost()
	if err != nil {
		return err
	}
	p := &doctor.Patient{Host: host, Version: version.Release, Commit: version.Commit(), PeerName: o.peer}
	ctx, cancel := context.WithTimeout(c.Context(), answerWithin)
	defer cancel()
	if c.Flags().Changed("peer") {
		if p.Peers, err = lookUpPeer(ctx, o.peer); err != nil {
			return usagef("--peer %q: %w", o.peer, err)
		}
	}
	if err := admit(ctx, p, o, c.Flags().Changed("config")); err != nil {
		return err
	}
	found, errs := doctor.Examine(p)
	if err := printFindings(c.OutOrStdout(), found, o.json); err != nil {
		return err
	}
	switch {
	case len(errs) > 0:
		return fmt.Errorf("checks that failed to run: %w", errors.Join(errs...))
	case len(found) > 0:
		return &exitError{status: exitFailed}
	case !o.json:
		_, err = fmt.Fprintln(c.OutOrStdout(), "nothing found")
	}
	return err
}

// lookUpPeer returns the addresses of a host. Its NIC may be at any of them.
func lookUpPeer(ctx context.Context, host string) ([]netip.Addr, error) {
	if at, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{at.Unmap()}, nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	switch {
	case err != nil:
		return nil, fmt.Errorf("expected an IP or the name of a host: %w", err)
	case len(all) == 0:
		return nil, errors.New("expected the name of a host with an address")
	}
	for i, a := range all {
		all[i] = a.Unmap()
	}
	return all, nil
}

// admit asks the daemon of the host for its state and its setup. Without a daemon, it reads the
// setup from the configuration.
func admit(ctx context.Context, p *doctor.Patient, o *doctorOptions, configured bool) error {
	conn, err := ctl.Dial(ctx, o.socket)
	switch {
	case errors.Is(err, ctl.ErrNoDaemon):
		args := []string{"nic"}
		if configured {
			args = append(args, "--config", o.config)
		}
		p.Setup, err = setupOf(args, "")
		return err
	case err != nil:
		return err
	}
	defer conn.Close()
	if configured {
		return usagef("--config %s: a daemon runs with its own configuration; expected --config only if none runs",
			o.config)
	}
	if p.NIC, err = doctor.Ask(ctx, conn); err != nil {
		return fmt.Errorf("the daemon of this host: %w; if it is of another build, restart it", err)
	}
	if p.NIC.Info.PID == 0 {
		return errors.New("the daemon of this host has a PID namespace that this one does not see; " +
			"run weft doctor where the daemon runs")
	}
	if p.Setup, err = setupOfDaemon(p.Host, p.NIC.Info.PID); err != nil {
		return err
	}
	p.Setup.Foreign = p.Setup.Foreign || p.NIC.Contained
	if socket, _ := ctl.CutLink(o.socket); socket != "" {
		p.Setup.Socket = socket
	}
	links, err := conn.Links(ctx)
	further := err == nil && len(links) > 0 && links[0].Name != p.NIC.Info.Network
	if further {
		ofFurtherLink(&p.Setup, p.NIC.Info.Network)
	}
	if dir := p.NIC.Info.StateDir; dir != "" {
		p.Setup.StateDir = dir
		if further {
			dir = filepath.Dir(filepath.Dir(dir))
		}
		if p.Setup.KeyFile == "" && os.Geteuid() == 0 { // root's daemon keeps it with its state
			p.Setup.KeyFile = filepath.Join(dir, fabric.FileName)
			p.Setup.KeyPath = p.Setup.KeyFile
		}
	}
	if at, err := netip.ParseAddrPort(p.NIC.Info.Address); err == nil {
		p.Setup.Listen = at
	}
	return nil
}

func printFindings(out io.Writer, found []doctor.Finding, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false) // a command holds & and >
		for i := range found {
			if err := e.Encode(&found[i]); err != nil {
				return err
			}
		}
		return nil
	}
	for i, f := range found {
		text := ""
		if i > 0 {
			text = "\n"
		}
		text += fmt.Sprintf("%s: %s\n  costs: %s\n", f.Ill, f.What, f.Cost)
		switch {
		case f.Mend == "":
		case f.Where != "":
			text += fmt.Sprintf("  mend, on %s:\n    %s\n", f.Where, f.Mend)
		default:
			text += fmt.Sprintf("  mend:\n    %s\n", f.Mend)
		}
		if f.Note != "" {
			text += fmt.Sprintf("  note: %s\n", f.Note)
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	return nil
}
