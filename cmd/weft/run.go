package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/limits"
)

func init() { registerFrequent("run", newRunCommand) }

// runOptions are the flags and arguments of weft run.
type runOptions struct {
	socket  string
	machine string
	nodes   []string
	ranks   int
	perNode int
	env     []string
	dir     string
	timeout time.Duration
	grace   time.Duration
	onDeath launch.OnDeath
	stdin   string
	memory  int64
	link    string

	oversubscribe bool
	stage         bool
	tag           bool
	json          bool
	output        string

	argv []string
}

func newRunCommand() *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run [flags] -- PROGRAM [ARG]…",
		Short: "Run a program on several ranks, on this host or on a machine",
		Long: `Runs a program as several processes, the ranks of a job. The environment of each
rank has its number, the number of all ranks, and more. weft.Attach and
weft.Open take their names from it.

Placement: weft run packs ranks. It fills the first host up to its free slots,
then the next one. With --per-node, each host gets that many ranks. Without -m
and --nodes, all ranks run on this host. If this host has no NIC daemon, weft
run acts as one during the job, and sets no limit of slots.

If one host refuses, no rank starts. weft run then prints the causes of all
hosts, each with its cure.

Output: weft run writes the stdout and stderr of the ranks to its own, in whole
lines. It writes an incomplete line when no rank has written for 100 ms, at 64
KiB, or when its rank ends. With two ranks or more, it adds a newline to the
incomplete line before the line of another rank. With -n 1, it writes every byte
at once, unchanged. --output keeps every byte, too. If the reader is slow, the
ranks wait.

Input: standard input goes to rank 0, or to the ranks that --stdin names. weft
run reads more only when these ranks have read all earlier input: a line from a
terminal, at most 64 KiB from a file or a pipe. In the background, it reads
nothing from the terminal.

Signals: weft run passes INT, QUIT, USR1, USR2, WINCH and CONT to each rank. A
second INT kills all ranks. It also passes TERM and HUP, which end the job:
after --grace, the ranks get KILL. TSTP (^Z) stops the ranks and then weft run.
If weft run is killed, its ranks end, too.

The exit status is that of the first rank whose failure ended the job, or 128 +
n if signal n ended that rank. It is 0 if all ranks ended with 0, 124 after
--timeout, 125 if weft run failed or a host was lost, 126 if a host refused, and
2 if the command line is wrong. weft run prints the cause on stderr.`,
		Example: `  weft run -n 4 -- sh -c 'echo rank $WEFT_RANK of $WEFT_SIZE'
  weft machine create lab --nodes h1,h2,h3 && weft run -m lab -n 12 -- ./life
  weft run --nodes h1,h2 --per-node 2 --tag -- ./solver input.dat
  weft run -n 8 --on-death restart=3 --timeout 1h --output logs -- ./train`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.complete(c, args); err != nil {
				return err
			}
			return runJob(c, o)
		},
	}
	fitHelp(c, screenColumns)
	o.define(c)
	atMostOne(c, "machine", "nodes")
	atMostOne(c, "tag", "output", "json")
	return c
}

func (o *runOptions) define(c *cobra.Command) {
	f := c.Flags()
	f.SetInterspersed(false) // the program has its own flags
	socketFlag(c, &o.socket)
	f.StringVarP(&o.machine, "machine", "m", "",
		"run on the machine `NAME`, which weft machine list prints")
	f.StringSliceVar(&o.nodes, "nodes", nil, "run on the hosts in `LIST`, names or ids that weft nodes prints")
	f.VarP(intValue(&o.ranks, 1, 1, limits.JobSize), "ranks", "n",
		"start N ranks; without it, --per-node starts ranks on every host")
	intFlag(f, &o.perNode, "per-node", 0, 0, limits.RanksPerHost, "place N ranks on each host; 0: as many as it has "+
		"free slots")
	f.StringArrayVar(&o.env, "env", nil,
		"add `NAME=VALUE` to the environment of the ranks, which also get that of weft run; "+
			"NAME= makes it empty; may be repeated")
	f.StringVar(&o.dir, "cwd", "",
		"run the ranks in `DIRECTORY`, which each host must have (default: the current one)")
	durationFlag(f, &o.timeout, "timeout", 0, 0, 30*24*time.Hour, "end the job after this time; 0: never")
	durationFlag(f, &o.grace, "grace", launch.DefaultGrace, time.Millisecond, launch.MaxGrace,
		"wait this long between TERM and KILL")
	onDeathFlag(c, &o.onDeath)
	f.StringVar(&o.stdin, "stdin", "0", "give standard input to this `RANK`, to all or to none")
	bytesFlag(f, &o.memory, "memory", 0, 4096, "limit the memory of the job on each host (default: no limit)")
	f.StringVar(&o.link, "link", "",
		"let the ranks use the network `NAME` (default: that of the machine, else the daemon's first)")
	f.BoolVar(&o.oversubscribe, "oversubscribe", false, "place more ranks than the hosts have free slots")
	f.BoolVar(&o.stage, "stage", false,
		"copy the program to the hosts that lack it; hosts cache the copy")
	f.BoolVar(&o.tag, "tag", false, "print the rank before each line of output, as [RANK]")
	f.StringVar(&o.output, "output", "",
		"write the output of each rank to `DIRECTORY`/RANK.out and RANK.err; "+
			"existing files of these ranks are replaced")
	f.BoolVar(&o.json, "json", false,
		"print one JSON object a line: placement or refusals, output, ends of ranks, "+
			"and a summary with a row for each rank")
}

// onDeathFlag defines --on-death.
func onDeathFlag(c *cobra.Command, p *launch.OnDeath) {
	c.Flags().Var(&checkedFlag{
		kind: "POLICY",
		text: p.String(),
		want: "end, shrink, or restart=N with N from 1 to 1000",
		set: func(s string) bool {
			d, err := launch.ParseOnDeath(s)
			if err == nil {
				*p = d
			}
			return err == nil
		},
	}, "on-death", "if a rank fails, end the job, shrink it to the other ranks, "+
		"or restart=N: restart the job, at most N times")
}

// complete takes the arguments and checks the combinations of flags.
func (o *runOptions) complete(c *cobra.Command, args []string) (err error) {
	if len(args) == 0 {
		return usagef("no program given: expected weft run [flags] -- PROGRAM [ARG]…")
	}
	o.argv = args
	changed := c.Flags().Changed
	switch {
	case changed("machine") && o.machine == "":
		return usagef("--machine is empty: expected a name that weft machine list prints")
	case changed("output") && o.output == "":
		return usagef("--output is empty: expected a directory")
	case changed("nodes"):
		if _, err := machineNodes(o.nodes); err != nil {
			return err
		}
	}
	if changed("per-node") && !changed("ranks") {
		o.ranks = 0 // as many as --per-node gives on every host
	}
	for _, e := range o.env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return usagef("--env %q: expected NAME=VALUE", e)
		}
	}
	return o.checkStdin()
}

// checkStdin checks --stdin. The rank is compared again when the number of ranks is known.
func (o *runOptions) checkStdin() error {
	if o.stdin == "all" || o.stdin == "none" {
		return nil
	}
	rank, err := strconv.Atoi(o.stdin)
	if err != nil || rank < 0 || rank >= limits.JobSize {
		return usagef("--stdin %q: expected a rank, all or none", o.stdin)
	}
	if o.ranks > 0 && rank >= o.ranks {
		return usagef("--stdin %d: expected a rank from 0 to %d", rank, o.ranks-1)
	}
	return nil
}

// completeDir makes the working directory absolute: other hosts do not know what a relative path
// is relative to.
func (o *runOptions) completeDir() (err error) {
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return fmt.Errorf("the current directory: %w; expected --cwd DIRECTORY", err)
	}
	return nil
}

// ownVariables are the variables that tell a rank its place. If a rank of one job starts another
// job, it does not pass them on.
var ownVariables = []string{
	"WEFT_JOB", "WEFT_NAME", "WEFT_RANK", "WEFT_SIZE", "WEFT_MACHINE", "WEFT_LOCAL_RANK", "WEFT_LOCAL_SIZE",
	"WEFT_NODE", "WEFT_RESTART",
	"WEFT_SOCKET", "WEFT_LINK", "WEFT_JOB_KEY", "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_SPAWNED", "PMI_PORT", "PMI_ID",
}

// environment returns the variables of weft run and of --env.
func (o *runOptions) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(ownVariables, name)
	})
	return append(env, o.env...)
}

// refusedError is an error because of which no rank was started.
type refusedError struct{ error }
