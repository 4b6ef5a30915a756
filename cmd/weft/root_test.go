package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/fabric/fabrictest"
)

// asWeft makes the test binary behave as weft, for tests that need it as a process and for weft
// starting itself.
const asWeft = "WEFT_TEST_RUNS_AS_WEFT"

func TestMain(m *testing.M) {
	if os.Getenv(asBroken) != "" {
		os.Exit(breakWorld())
	}
	// a daemon clears its keepers' environment
	if os.Getenv(asWeft) != "" || len(os.Args) == 2 && os.Args[1] == "keeper" {
		main()
	}
	if changes := os.Getenv(asPaged); changes != "" {
		if err := paged(changes); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if plan := os.Getenv(asChurner); plan != "" {
		if err := churns(plan); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(fabrictest.Run(m))
}

// weft runs one command line in this process.
func weft(args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = run(context.Background(), args, &out, &err)
	return status, out.String(), err.String()
}

func TestTheVersionHasReleaseAndCommit(t *testing.T) {
	status, out, stderr := weft("--version")
	if status != 0 || stderr != "" || !regexp.MustCompile(`^weft \d+\.\d+\S*, commit \S+, go\S+ for \w+/\w+\n$`).MatchString(out) {
		t.Errorf("weft --version: %d %q %q", status, out, stderr)
	}
}

func TestWrongCommandLinesExit2AndSayWhatWasExpected(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", "weft needs a subcommand: "},
		{"nope", `unknown command "nope" for "weft"`},
		{"nope --help", `unknown command "nope" for "weft": expected one of bench, capture, `},
		{"-h nope", `unknown command "nope" for "weft": expected one of bench, capture, `},
		{"mem nope --help", `unknown command "nope" for "weft mem": expected one of map, mount, nbd, serve, stat`},
		{"help nope", `unknown command "nope" for "weft": expected one of bench, capture, `},
		{"help mem nope", `unknown command "nope" for "weft mem": expected one of map, mount, nbd, serve, stat`},
		{"help mem stat nope", `arguments "nope": expected the name of a command`},
		{"--nope", "unknown flag: --nope"},
		{"testbed", "weft testbed needs a subcommand: exec"},
		{"testbed nope", `unknown command "nope" for "weft testbed": expected one of exec`},
		{"nic nope", `unknown command "nope" for "weft nic": expected one of info, links, reload, stop`},
		{"stat nope", `arguments "nope": expected weft stat [flags]`},
		{"pdl check", "no arguments: expected weft pdl check [--target vm|xdp] FILE... [flags]"},
		{"program log a b", `arguments "a" "b": expected weft program log PROGRAM [flags]`},
		{"program send a 1 -20", "-20 looks like a flag: expected negative words after --, as in weft program send PROGRAM TRIGGER -- -20"},
		{"program send a 1 -q", "unknown shorthand flag: 'q' in -q"},
		{"program send a", `arguments "a": expected weft program send PROGRAM TRIGGER [WORD...] [flags]`},
		{"testbed exec --nope", "unknown flag: --nope"},
		{"testbed exec", "no command given: expected weft testbed exec [flags] -- CMD"},
		{"testbed exec --hosts", "flag needs an argument: --hosts"},
		{"testbed exec --hosts x -- true", `invalid argument "x" for "--hosts" flag: expected a whole number from 1 to 128`},
		{"testbed exec --hosts 0 -- true", `invalid argument "0" for "--hosts" flag: expected a whole number from 1 to 128`},
		{"testbed exec --hosts 3 --on 3 -- true", "--on is 3: expected a host from 0 to 2, since --hosts is 3"},
		{"testbed exec --on -1 -- true", `invalid argument "-1" for "--on" flag: expected a whole number from 0`},
		{"testbed exec --loss 101% -- true", `invalid argument "101%" for "--loss" flag: expected a share such as 5% or 0.05`},
		{"testbed exec --loss 5 -- true", `invalid argument "5" for "--loss" flag: expected a share such as 5% or 0.05`},
		{"testbed exec --duplicate 101% -- true", `invalid argument "101%" for "--duplicate" flag: expected a share such as 5% or 0.05`},
		{"testbed exec --reorder -1% -- true", `invalid argument "-1%" for "--reorder" flag: expected a share such as 5% or 0.05`},
		{"testbed exec --delay 11s -- true", `invalid argument "11s" for "--delay" flag: expected a length of time such as 1s, from 0s to 10s`},
		{"testbed exec --jitter 5 -- true", `invalid argument "5" for "--jitter" flag: expected a length of time such as 1s, from 0s to 10s`},
		{"testbed exec --seed -1 -- true", `invalid argument "-1" for "--seed" flag: expected a whole number from 0 to 2⁶⁴-1`},
		{"testbed exec --name ../x -- true", `invalid argument "../x" for "--name" flag: expected a name of 1 to 32 letters, digits`},
		{"testbed exec --join a/b -- true", `invalid argument "a/b" for "--join" flag: expected a name of 1 to 32 letters, digits`},
		{"testbed exec --join lab --delay 5ms -- true", "--delay with --join: testbed lab is built already; expected no flags but --on and --grace"},
		{"testbed exec --join lab --hosts 2 -- true", "--hosts with --join: testbed lab is built already; expected no flags but --on and --grace"},
		{"testbed exec --join lab", "no command given: expected weft testbed exec [flags] -- CMD"},
		{"testbed exec --loss NaN -- true", `invalid argument "NaN" for "--loss" flag: expected a share such as 5% or 0.05`},
		{"testbed exec --mtu 1279 -- true", `invalid argument "1279" for "--mtu" flag: expected a whole number from 1280 to 65535`},
		{"testbed exec --grace 5 -- true", `invalid argument "5" for "--grace" flag: expected a length of time such as 5s`},
	} {
		status, stdout, stderr := weft(strings.Fields(c.line)...)
		if status != exitUsage || !strings.HasPrefix(stderr, "weft: "+c.want) {
			t.Errorf("weft %s: status %d, standard error %q; want %d and %q", c.line, status, stderr, exitUsage, c.want)
		}
		if stdout != "" {
			t.Errorf("weft %s: writes an error's text to standard output: %q", c.line, stdout)
		}
	}
}

func TestHelpIsNoError(t *testing.T) {
	status, stdout, stderr := weft("testbed", "exec", "--help")
	if status != 0 || stderr != "" || !strings.Contains(stdout, "WEFT_SOCKET") || strings.Contains(stdout, "supervise") {
		t.Errorf("status %d, standard output %q, standard error %q", status, stdout, stderr)
	}
}

func TestFailedWorkExits1(t *testing.T) {
	status, _, stderr := weft("testbed", "supervise", "--", "true")
	if status != exitFailed || !strings.HasPrefix(stderr, "weft: ") || strings.Contains(stderr, "--help") {
		t.Errorf("status %d, standard error %q", status, stderr)
	}
}

func TestTheHelpTellsTheExitStatuses(t *testing.T) {
	status, out, _ := weft("--help")
	for _, word := range []string{"exit status is 0", "1 if", "2 if"} {
		if status != 0 || !strings.Contains(out, word) {
			t.Errorf("weft --help ends with %d, and does not say %q", status, word)
		}
	}
}

// weft nic info is no list, so its --json is not that of a list.
func TestTheHelpOfNICInfoPromisesOneObject(t *testing.T) {
	if status, out, _ := weft("nic", "info", "--help"); status != 0 || !strings.Contains(out, "print one JSON object\n") {
		t.Errorf("weft nic info --help ends with %d:\n%s", status, out)
	}
}

func TestSharesAreWrittenInTwoWays(t *testing.T) {
	for s, want := range map[string]float64{"5%": 0.05, "0.05": 0.05, "100%": 1, "1": 1, "0": 0, "0%": 0, "0.5%": 0.005} {
		if got, ok := parseShare(s); !ok || got != want {
			t.Errorf("parseShare(%q) = %v, %v, want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "%", "-1%", "1.01", "5 %", "x", "NaN", "Inf", "5%%"} {
		if got, ok := parseShare(s); ok {
			t.Errorf("parseShare(%q) = %v, want an error", s, got)
		}
	}
}

func TestChoicesAreKeptOnlyIfOffered(t *testing.T) {
	var link string
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	choiceFlag(fs, &link, "link", "mem", []string{"mem", "udp"}, "")
	if err := fs.Set("link", "udp"); err != nil || link != "udp" {
		t.Errorf("--link udp: %v, link is %q", err, link)
	}
	err := fs.Set("link", "tcp")
	if want := `invalid argument "tcp" for "--link" flag: expected one of mem, udp`; err == nil || err.Error() != want || link != "udp" {
		t.Errorf("--link tcp: error %v, link is %q; want %s, and the link as it was", err, link, want)
	}
}

func TestNoFlagOutlivesItsRun(t *testing.T) {
	var begun bool
	for range 2 {
		root := newRoot(&begun)
		c, _, err := root.Find([]string{"testbed", "exec"})
		if err != nil || c.Flags().Lookup("hosts").Value.String() != "2" {
			t.Fatalf("exec does not start from its defaults: %v", err)
		}
		if err := c.Flags().Set("hosts", "7"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	var begun bool
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" || c.RunE == nil && c.Run == nil {
			t.Errorf("%s has no short text, or does nothing", c.CommandPath())
		}
		// the name of a value says what it is, not its type
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if kind, _ := pflag.UnquoteUsage(f); !f.Hidden && !c.Hidden && slices.Contains([]string{"string", "strings", "stringArray", "int", "uint", "float", "duration", "id"}, kind) {
				t.Errorf("%s --%s: the help calls its value %s", c.CommandPath(), f.Name, kind)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(&begun))
}

func TestAFrequentCommandIsMadeAloneAndIsTheSame(t *testing.T) {
	whole := newRoot(new(bool))
	for name := range frequent {
		alone := newRoot(new(bool), name)
		if got := len(alone.Commands()); got != 1 {
			t.Errorf("weft %s makes %d commands; expected one", name, got)
		}
		var usage [2]string
		for i, root := range []*cobra.Command{whole, alone} {
			c, _, err := root.Find([]string{name})
			if err != nil || c.Name() != name {
				t.Fatalf("weft %s: %v, %v", name, c.Name(), err)
			}
			usage[i] = c.UsageString()
		}
		if usage[0] != usage[1] {
			t.Errorf("weft %s alone has the usage\n%s\nexpected\n%s", name, usage[1], usage[0])
		}
	}
}

func TestASeedThatIsNoneIsRefusedInWords(t *testing.T) {
	for _, line := range []string{"sim --seed -1", "demo --seed x", "soak --seed 1.5"} {
		status, _, stderr := weft(strings.Fields(line)...)
		if status != exitUsage || !strings.Contains(stderr, "expected a whole number from 0 to") || strings.Contains(stderr, "strconv") {
			t.Errorf("weft %s: %d %q", line, status, stderr)
		}
	}
}

func TestTheDaemonPrintsASampleOfItsFile(t *testing.T) {
	if status, out, stderr := weft("nic", "--help"); status != 0 || !strings.Contains(out, "weft nic --sample > nic.toml") {
		t.Errorf("status %d, %s%s; expected how to get a sample of the file", status, out, stderr)
	}
	if status, out, stderr := weft("nic", "--sample"); status != 0 || out != daemon.Sample || stderr != "" {
		t.Errorf("status %d, %s%s; expected the sample", status, out, stderr)
	}
}

func TestFlagsThatExcludeEachOtherAreAWrongUse(t *testing.T) {
	for line, want := range map[string]string{
		"ps --thrown-out --fabric":                   "--thrown-out with --fabric: ",
		"ps --thrown-out --nic 1:2:3:4:5:6:7:8":      "--thrown-out with --nic: ",
		"stat --proxy x --nic 1:2:3:4:5:6:7:8":       "--proxy and --nic: expected one of them at most",
		"program load x --nic 1:2:3:4:5:6:7:8 --all": "--nic and --all: expected one of them at most",
	} {
		status, stdout, stderr := weft(strings.Fields(line)...)
		if status != exitUsage || !strings.HasPrefix(stderr, "weft: "+want) || !strings.Contains(stderr, " --help'.") || stdout != "" {
			t.Errorf("weft %s: status %d, standard error %q; want %d, %q and where there is help", line, status, stderr, exitUsage, want)
		}
	}
}

func TestErrorsOfTheDaemonHaveNoNameOfAPackage(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nic.sock")
	for _, args := range [][]string{
		{"job", "list"}, {"job", "stuck", "1a"}, {"machine", "list"}, {"machine", "create", "lab", "--nodes", "h1"}, {"run", "--nodes", "h1"}, {"nodes"}, {"ps"},
	} {
		args = append(args, "--socket", socket)
		if args[0] == "run" {
			args = append(args, "--", "/bin/true")
		}
		if status, _, errs := weft(args...); status == 0 || !strings.Contains(errs, "no NIC daemon") || strings.Contains(errs, "ctl:") {
			t.Errorf("weft %v: status %d, %s", args, status, errs)
		}
	}
	for _, err := range []error{ctl.ErrNoNIC, ctl.ErrBadRequest, ctl.ErrInUse, ctl.ErrRefused, ctl.ErrNoMachine} {
		if strings.Contains(err.Error(), ":") {
			t.Errorf("%q has the name of a package", err)
		}
	}
}
