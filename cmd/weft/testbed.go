package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/testbed"
)

func init() { register(newTestbedCommand) }

// execOptions are the flags and arguments of `weft testbed exec`.
type execOptions struct {
	config testbed.Config
	on     int    // -1: on every host
	name   string // of the testbed; empty: one that no other testbed has
	join   string // the name of a running testbed, instead of a new one
	grace  time.Duration
	argv   []string

	// The supervisor's alone; see testbed_exec_linux.go and testbed_join_linux.go.
	dir        string
	foreground bool
	addrs      string // of the hosts of a joined testbed, separated by commas
}

func newTestbedCommand() *cobra.Command {
	return newGroup("testbed", "Run commands on hosts made of network namespaces (Linux)", newExecCommand(),
		newSuperviseCommand())
}

func newExecCommand() *cobra.Command {
	o := &execOptions{}
	c := &cobra.Command{
		Use:   "exec [flags] -- CMD [ARG]…",
		Short: "Run a command on every host of a testbed, or on one",
		Long: `Builds a testbed, runs CMD on every host or on one, and removes the testbed. With --join, the
command runs CMD on the hosts of a testbed that another weft testbed exec has built.

Each CMD finds in its environment
  WEFT_HOST    the index of its host, from 0
  WEFT_HOSTS   how many hosts there are
  WEFT_ADDR    its host's IPv4 address
  WEFT_ADDRS   the addresses of all hosts, separated by commas
  WEFT_SOCKET  a path for a unix socket, different on each host
  WEFT_TESTBED the name of the testbed, for --join
  PATH         the directory of this binary, as weft, before the others
  WEFT_FABRIC_FILE
               the fabric key of all hosts, created unless the variable is set

Each line of output begins with [HOST]. With --on, CMD has the terminal, and its output is
unchanged. The command passes SIGINT and SIGTERM to the process group of each CMD. When the
last CMD has ended, or --grace after a signal, the remaining processes get SIGTERM, and --grace
later SIGKILL.

The exit status is the first that is not 0, in the order of hosts. If signal n ended a CMD, its
status is 128 + n. Nothing is left behind, even if weft is killed.

With --loss, with --rate, or with one host or more than two, a switch joins the hosts. A frame
is lost with probability P, once on its path from one host to another. With --rate, a token
bucket paces each end of a host's cable.

With --delay, --jitter, --duplicate or --reorder, weft itself is the switch. It delays each
frame once on its path, so a round trip takes two delays. --jitter adds up to D to the delay of
each frame, and frames overtake one another. A frame is duplicated or reordered with
probability P. The next frame of its host overtakes a reordered frame. These draws follow from
--seed: the nth frame that a host sends has the same fate in each run. The kernel draws the
frames that --loss drops, without a seed.

The name of a testbed is that of --name, or the one in WEFT_TESTBED. --join NAME finds a
testbed of the same user in the same $TMPDIR, and excludes the flags that describe a testbed. A
testbed, and each command that has joined it, ends with the weft that built it. Processes that
a joined CMD leaves running stay until then.`,
		Example: `  weft testbed exec --hosts 2 -- ip -brief address
  weft testbed exec --hosts 3 --loss 5% -- sh -c 'echo $WEFT_HOST of $WEFT_ADDRS'
  weft testbed exec --rate 10,100Mbit -- sh -c 'echo host $WEFT_HOST has its own cable'
  weft testbed exec --delay 5ms --jitter 1ms --duplicate 1% --reorder 5% --seed 7 -- ./test.sh
  weft testbed exec --hosts 2 --on 0 -- bash
  weft testbed exec --name lab --hosts 3 -- sleep 1h &
  weft testbed exec --join lab --on 2 -- ip -brief address`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.completeJoin(c.Flags()); err != nil {
				return err
			}
			if err := o.complete(args); err != nil {
				return err
			}
			if o.join != "" {
				return runTestbedJoin(c, o)
			}
			return runTestbedExec(c, o)
		},
	}
	o.define(c)
	return c
}

// newSuperviseCommand returns the inner half of exec. Only exec starts it. It takes the same
// flags.
func newSuperviseCommand() *cobra.Command {
	o := &execOptions{}
	c := &cobra.Command{
		Use:    "supervise",
		Short:  "The inner half of exec",
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			return runTestbedSupervise(c, o)
		},
	}
	o.define(c)
	c.Flags().StringVar(&o.dir, "dir", "", "directory for sockets")
	c.Flags().BoolVar(&o.foreground, "foreground", false, "give CMD the terminal")
	c.Flags().StringVar(&o.addrs, "addrs", "", "addresses of the hosts of a testbed that is joined")
	return c
}

func (o *execOptions) define(c *cobra.Command) {
	fs := c.Flags()
	fs.SetInterspersed(false) // what follows CMD is CMD's
	intFlag(fs, &o.config.Hosts, "hosts", 2, 1, testbed.MaxHosts, "build N hosts")
	intFlag(fs, &o.on, "on", -1, 0, testbed.MaxHosts-1, "run CMD on host N alone, counted from 0 (default: on all)")
	shareFlag(fs, &o.config.Loss, "loss", "drop this share of frames, such as 5% or 0.05")
	ratesFlag(fs, &o.config.Rates,
		"limit each host's cable, each way, to this rate, such as 100Mbit; or give a rate for each host, such as "+
			"10,100,155Mbit")
	durationFlag(fs, &o.config.Delay, "delay", 0, 0, testbed.MostDelay, "delay each frame by D")
	durationFlag(fs, &o.config.Jitter, "jitter", 0, 0, testbed.MostDelay,
		"delay each frame by up to D more, at random")
	shareFlag(fs, &o.config.Duplicate, "duplicate", "deliver this share of frames twice, such as 1%")
	shareFlag(fs, &o.config.Reorder, "reorder", "let the next frame overtake this share of frames, such as 5%")
	seedFlag(fs, &o.config.Seed, "seed", 1, "draw jitter, duplicates and reordering from seed N")
	intFlag(fs, &o.config.MTU, "mtu", testbed.DefaultMTU, testbed.LeastMTU, testbed.MostMTU,
		"set the MTU of every link, in bytes")
	durationFlag(fs, &o.grace, "grace", 5*time.Second, 0, time.Hour,
		"wait this long for processes to end after a signal")
	testbedNameFlag(fs, &o.name, "name", "name the testbed, for --join")
	testbedNameFlag(fs, &o.join, "join", "run CMD in the running testbed of this name")
	fs.Lookup("on").DefValue = "" // -1 is internal, and not a value to give
}

// complete takes the arguments and checks the combinations of flags.
func (o *execOptions) complete(args []string) error {
	o.argv = args
	if len(args) == 0 {
		return usagef("no command given: expected weft testbed exec [flags] -- CMD [ARG]…")
	}
	if o.join != "" {
		return nil // that testbed has its own number of hosts
	}
	if o.on >= o.config.Hosts {
		return usagef("--on is %d: expected a host from 0 to %d, since --hosts is %d",
			o.on, o.config.Hosts-1, o.config.Hosts)
	}
	if n := len(o.config.Rates); n > 1 && n != o.config.Hosts {
		return usagef("--rate has %d rates: expected one, or one for each of the %d hosts", n, o.config.Hosts)
	}
	return nil
}

// flags formats the options as flags.
func (o *execOptions) flags() []string {
	f := []string{
		fmt.Sprintf("--hosts=%d", o.config.Hosts),
		fmt.Sprintf("--loss=%v", o.config.Loss),
		fmt.Sprintf("--delay=%v", o.config.Delay),
		fmt.Sprintf("--jitter=%v", o.config.Jitter),
		fmt.Sprintf("--duplicate=%v", o.config.Duplicate),
		fmt.Sprintf("--reorder=%v", o.config.Reorder),
		fmt.Sprintf("--seed=%d", o.config.Seed),
		fmt.Sprintf("--mtu=%d", o.config.MTU),
		fmt.Sprintf("--grace=%v", o.grace),
		fmt.Sprintf("--dir=%s", o.dir),
		fmt.Sprintf("--foreground=%v", o.foreground),
	}
	if len(o.config.Rates) > 0 {
		f = append(f, "--rate="+ratesText(o.config.Rates))
	}
	if o.join != "" {
		f = append(f, "--join="+o.join, "--addrs="+o.addrs)
	}
	if o.name != "" {
		f = append(f, "--name="+o.name)
	}
	if o.on >= 0 {
		f = append(f, fmt.Sprintf("--on=%d", o.on))
	}
	return f
}
