package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/sdnotify"
)

func init() { register(newNICCommand) }

// nicOptions are the flags of `weft nic`. Those that are given override the configuration file.
type nicOptions struct {
	check            bool
	sample           bool
	file             string
	config           daemon.Config
	nodes            []string
	gossip           daemon.Gossip
	gossips          bool // without any other flag of it
	plainResident    bool
	unreachableAfter time.Duration
	failureTimeout   time.Duration
	captureLimit     int
}

func newNICCommand() *cobra.Command { return newNICCommandOf(&nicOptions{}) }

// newNICCommandOf returns the command, whose flags set o.
func newNICCommandOf(o *nicOptions) *cobra.Command {
	c := &cobra.Command{
		Use:   "nic [flags]",
		Short: "Run the NIC of this host, to which processes attach",
		Long: `Runs a NIC until SIGINT, SIGTERM, 'weft nic stop', or the end of the terminal that started it. A
second SIGINT or SIGTERM kills it. Any other SIGHUP makes it reload its configuration, as 'weft
nic reload' does. Processes attach to the NIC over its socket.

Two hosts:
  host A (10.0.0.1):  weft fabric show | ssh 10.0.0.2 weft fabric join
                      weft nic --node 10.0.0.2
  host B (10.0.0.2):  weft nic --node 10.0.0.1

The first line gives host B the fabric key of host A. The NIC does not answer NICs with another
fabric key, and encrypts all frames.

A list of nodes may contain this NIC itself, so all hosts can use the same list. With gossip,
NICs find one another without a list, from the address of any NIC:
  host A:             weft nic --gossip
  all others:         weft nic --seed 10.0.0.1

A TOML file can set the same options (--config). A flag overrides the file. --check reports
mistakes in the configuration and starts nothing. --sample prints a file with every key and its
default:
  weft nic --sample > nic.toml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runNIC(c, o) },
	}
	f := c.Flags()
	f.StringVar(&o.file, "config", "", "read the configuration from TOML `FILE`")
	f.BoolVar(&o.check, "check", false, "check the configuration and exit, with status 0 if it is valid and 2 if not")
	f.BoolVar(&o.check, "check-config", false, "the same as --check")
	f.BoolVar(&o.sample, "sample", false, "print a configuration file with every key and its default, and exit")
	f.StringVar(&o.config.ID, "id", "",
		"set the NIC `ID`, such as 0:0:0:96:221:127:255:140, which must be bound to the NIC's key (default: "+
			"derived from that key)")
	f.StringVar(&o.config.Socket, "socket", "",
		"let processes attach at the unix socket `PATH` (default: $WEFT_SOCKET, or by user)")
	f.StringVar(&o.config.StateDir, "state-dir", "",
		"keep the NIC's key and incarnation in `DIRECTORY` (default: by socket)")
	f.StringVar(&o.config.Link, "link", "udp",
		"carry frames over the link `NAME`: "+strings.Join(daemon.Links(), ", ")+
			", or one that the configuration defines by [links.NAME]; NAME,NAME… starts several defined links, "+
			"each with its own NIC")
	choiceFlag(f, &o.config.Prefer, "prefer", "bandwidth", daemon.Preferences(),
		"choose what --link auto optimizes; latency tries AF_XDP first")
	f.StringVar(&o.config.Listen, "listen", "",
		"listen for frames at `HOST[:PORT]`, an IP or a name (default: every address, port 7700)")
	intFlag(f, &o.config.MTU, "mtu", 0, 0, 65507, "limit frames to N bytes; 0: the MTU of the interface")
	f.StringSliceVar(&o.nodes, "node", nil,
		"add another NIC, `[ID@]HOST[:PORT]`; HOST is an IP or a name, which is resolved once; may be repeated, "+
			"or hold several NICs separated by commas")
	f.StringSliceVar(&o.config.KeyFiles, "key-file", nil,
		"read the fabric key from `FILE` (default: $WEFT_FABRIC_FILE, or by user); may be repeated, "+
			"or hold several files separated by commas; the NIC opens sessions with the first key")
	f.StringVar(&o.config.Certificate, "certificate", "", "read the certificate of this NIC from `FILE`")
	f.StringSliceVar(&o.config.Authorities, "authority", nil,
		"require NICs to have a certificate of the authority with this public `KEY`, or with the key in the file KEY")
	f.StringVar(&o.config.Revocations, "revocations", "",
		"read revocation lists from `FILE` (default: revocations in the state directory)")
	f.BoolVar(&o.config.Plain, "plain", false, "neither encrypt nor authenticate frames, for measurements")
	f.BoolVar(&o.plainResident, "plain-resident", false,
		"send datagrams of programs in drivers unsealed, if the other NIC does the same")
	f.BoolVar(&o.gossips, "gossip", false, "find other NICs by gossip; each other gossip flag implies this one")
	f.StringVar(&o.gossip.KeyFile, "gossip-key", "", "of earlier releases: refused, with the cure")
	if err := f.MarkHidden("gossip-key"); err != nil {
		panic(err)
	}
	f.StringVar(&o.gossip.Listen, "gossip-listen", "",
		"gossip at `HOST[:PORT]`, UDP and TCP (default: the IP of --listen, port 7701)")
	f.StringSliceVar(&o.gossip.Seeds, "seed", nil,
		"join the gossip through another NIC's gossip address `HOST[:PORT]`; may be repeated, "+
			"or hold several addresses separated by commas")
	durationFlag(f, &o.failureTimeout, "failure-timeout", limits.FailureTimeout, time.Second, time.Hour,
		"remove a NIC that gossips, and its names, after this silence")
	f.StringVar(&o.config.Registry, "registry", "",
		"read the torus and [[node]] tables from TOML `FILE`, which hosts may share")
	f.BoolVar(&o.config.Static, "static", false, "refuse NICs that are not listed")
	durationFlag(f, &o.unreachableAfter, "unreachable-after", limits.UnreachableAfter, limits.LeastUnreachableAfter,
		limits.MostUnreachableAfter, "consider a NIC unreachable after this silence")
	intFlag(f, &o.config.MaxProcesses, "max-processes", limits.DefaultProcesses, 1, limits.MaxProcesses,
		"limit the number of attached processes to N")
	f.StringVar(&o.config.Capture, "capture", "",
		"write every frame in and out to `FILE`, for Wireshark; an existing file is replaced")
	intFlag(f, &o.captureLimit, "capture-limit", limits.CaptureFile, limits.LeastCapture, 1<<40,
		"limit the file of --capture to N bytes")
	intFlag(f, &o.config.CaptureSnap, "capture-snap", limits.CaptureSnap, 1, limits.MaxFrame,
		"write the first N bytes of each frame with --capture")
	f.BoolVar(&o.config.CaptureSecrets, "capture-secrets", false,
		"write the keys of sealed frames to the file of --capture, too, for weft capture decrypt; every reader of the "+
			"file can read the frames")
	metricsFlags(f, &o.config)
	choiceFlag(f, &o.config.Log, "log", "info", []string{"debug", "info", "warn", "error"}, "log messages of this "+
		"level and above")
	c.AddCommand(newNICStopCommand(), newNICReloadCommand(), newNICInfoCommand(), newNICLinksCommand())
	return c
}

// merged returns the file's configuration with the given flags over it, after checks of its values.
func (o *nicOptions) merged(c *cobra.Command) (daemon.Config, error) {
	conf, err := o.given(c)
	if err != nil {
		return conf, err
	}
	switch err := conf.Check(); {
	case err != nil && o.file != "":
		return conf, usagef("configuration %s, with the flags: %w", o.file, err)
	case err != nil:
		return conf, usagef("%w", err)
	}
	return conf, nil
}

// given returns the file's configuration with the given flags over it. Nodes of both count.
func (o *nicOptions) given(c *cobra.Command) (daemon.Config, error) {
	var conf daemon.Config
	if c.Flags().Changed("config") && o.file == "" { // for example from an unset variable
		return conf, usagef("--config is empty: expected the name of a file")
	}
	if o.file != "" {
		var err error
		if conf, err = daemon.Load(o.file); err != nil {
			return conf, usagef("%w", err)
		}
	}
	conf = o.chosen(c, conf)
	for name, set := range map[string]func(){
		"id":                func() { conf.ID = o.config.ID },
		"socket":            func() { conf.Socket = o.config.Socket },
		"state-dir":         func() { conf.StateDir = o.config.StateDir },
		"listen":            func() { conf.Listen = o.config.Listen },
		"mtu":               func() { conf.MTU = o.config.MTU },
		"registry":          func() { conf.Registry = o.config.Registry },
		"static":            func() { conf.Static = o.config.Static },
		"unreachable-after": func() { conf.UnreachableAfter = daemon.Duration(o.unreachableAfter) },
		"max-processes":     func() { conf.MaxProcesses = o.config.MaxProcesses },
		"log":               func() { conf.Log = o.config.Log },
		"certificate":       func() { conf.Certificate = o.config.Certificate },
		"revocations":       func() { conf.Revocations = o.config.Revocations },
		"plain":             func() { conf.Plain = o.config.Plain },
		"capture":           func() { conf.Capture = o.config.Capture },
		"capture-limit":     func() { conf.CaptureLimit = int64(o.captureLimit) },
		"capture-snap":      func() { conf.CaptureSnap = o.config.CaptureSnap },
		"capture-secrets":   func() { conf.CaptureSecrets = o.config.CaptureSecrets },
		"prefer":            func() { conf.Prefer = o.config.Prefer },
	} {
		if c.Flags().Changed(name) {
			set()
			conf.Override(strings.ReplaceAll(name, "-", "_"))
		}
	}
	o.mergeTrust(c, &conf)
	o.mergeMetrics(c, &conf)
	o.mergeGossip(c, &conf)
	for _, n := range o.nodes {
		e, err := daemon.ParseNode(n)
		if err != nil {
			return conf, usagef("--node: %w", err)
		}
		conf.Nodes = append(conf.Nodes, e)
	}
	return conf, nil
}

// chosen puts the link of --link in place of the file's. If --link names a link, the file's
// preference is ignored. The other flags about a link override the file's settings for the link
// of that name. If there are several links, they apply to the first.
func (o *nicOptions) chosen(c *cobra.Command, conf daemon.Config) daemon.Config {
	if c.Flags().Changed("link") {
		conf.Link = o.config.Link
		conf.Override("link")
		if first, _, _ := strings.Cut(conf.Link, ","); strings.TrimSpace(first) != "auto" {
			conf.Prefer = ""
		}
	}
	return conf.Chosen()
}

// mergeTrust puts the given flags over the configuration's keys that have other names.
func (o *nicOptions) mergeTrust(c *cobra.Command, conf *daemon.Config) {
	if c.Flags().Changed("key-file") {
		conf.KeyFiles = o.config.KeyFiles
		conf.Override("key_files")
	}
	if c.Flags().Changed("authority") {
		conf.Authorities = o.config.Authorities
		conf.Override("authorities")
	}
	if c.Flags().Changed("plain-resident") {
		conf.Programs = &daemon.Programs{PlainResident: o.plainResident}
		conf.Override("programs.plain_resident")
	}
}

// mergeGossip puts the given flags over the configuration's [gossip]. Any of these flags turns
// gossip on.
func (o *nicOptions) mergeGossip(c *cobra.Command, conf *daemon.Config) {
	if o.gossips && conf.Gossip == nil {
		conf.Gossip = new(daemon.Gossip)
	}
	for name, flag := range map[string]struct {
		key string
		set func(g *daemon.Gossip)
	}{
		"gossip-key":    {"key_file", func(g *daemon.Gossip) { g.KeyFile = o.gossip.KeyFile }},
		"gossip-listen": {"listen", func(g *daemon.Gossip) { g.Listen = o.gossip.Listen }},
		// the seeds of both count
		"seed": {"seeds", func(g *daemon.Gossip) { g.Seeds = append(g.Seeds, o.gossip.Seeds...) }},
		"failure-timeout": {"failure_timeout",
			func(g *daemon.Gossip) { g.FailureTimeout = daemon.Duration(o.failureTimeout) }},
	} {
		if !c.Flags().Changed(name) {
			continue
		}
		if conf.Gossip == nil {
			conf.Gossip = new(daemon.Gossip)
		}
		flag.set(conf.Gossip)
		conf.Override("gossip." + flag.key)
	}
}

func runNIC(c *cobra.Command, o *nicOptions) error {
	if o.sample {
		_, err := io.WriteString(c.OutOrStdout(), daemon.Sample)
		return err
	}
	conf, err := o.merged(c)
	if err != nil || o.check {
		return err
	}
	outlivesReaders()
	conf.Subreaper = true // this process ends what a keeper leaves
	conf.Reread = func() (daemon.Config, error) { return o.merged(c) }
	if conf.Supervisor, err = sdnotify.FromEnvironment(); err != nil {
		return err
	}
	d, err := daemon.New(conf, c.ErrOrStderr())
	if err != nil {
		return err
	}
	reloadsOnHangUp(d.Reload)
	return d.Run(c.Context()) // main cancels the context on a signal
}

// endWithin is how long a NIC may take to end: it says goodbye to its peers, and to gossip
// members.
const endWithin = 30 * time.Second

func newNICStopCommand() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:   "stop",
		Short: "End the NIC of this host, as SIGTERM does, and wait until it has ended",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), answerWithin)
			defer cancel()
			conn, err := ctl.Dial(ctx, socket)
			if err != nil {
				return err
			}
			defer conn.Close()
			if err := conn.Shutdown(ctx); err != nil {
				return err
			}
			ending, cancelEnding := context.WithTimeout(c.Context(), endWithin)
			defer cancelEnding()
			return conn.Ended(ending)
		},
	}
	socketFlag(c, &socket)
	return c
}
