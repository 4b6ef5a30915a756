// Command peers does the same work with Weft and with its alternatives, in turns, in one run.
//
//	cd bench/peers && go run .                                  # some 10 minutes; hosts need root
//	go run . --out ../../docs/performance                       # writes JSON, charts and the page
//	go run . --sealed                                           # measures sealed links, too
//	go run . --programs --time 2s --out ../../docs/performance  # NIC programs, by message length
//	go run . --rates 10,100,155Mbit --time 10s \
//	    --out ../../docs/performance                            # messages and TCP, by rate
//
// Contestants that are not installed are skipped, and the result says so. It is a separate
// module, so Weft does not depend on the contestants. Linux only.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/gopeer"
	"github.com/weftnet/weft/bench/peers/internal/ground"
	"github.com/weftnet/weft/bench/peers/internal/page"
	"github.com/weftnet/weft/bench/peers/internal/pagepeer"
)

// childWord is the first argument of a process of a contestant.
const childWord = "child"

func main() {
	args := os.Args[1:]
	inside := len(args) > 0 && args[0] == ground.InsideWord
	switch {
	case len(args) > 0 && args[0] == childWord:
		exit(beChild(args[1:]))
	case inside:
		ground.Enter()
		args = args[1:]
	}
	f, err := parseFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		os.Exit(2)
	}
	switch {
	case f.from != "" && f.programs:
		exit(programsAgain(f, os.Stdout))
	case f.from != "":
		exit(again(f, os.Stdout))
	}
	if !inside {
		status, err := ground.InOwnSpace(args, f.nice)
		if err == nil {
			os.Exit(status)
		}
		if !errors.Is(err, ground.ErrNoSpace) {
			exit(err)
		}
	}
	// a reader that stops early, as head does, must not keep us from cleaning up
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	switch {
	case f.rates != "":
		err = runRates(ctx, f, os.Stdout)
	case f.programs:
		err = runPrograms(ctx, f, os.Stdout)
	default:
		err = run(ctx, f, os.Stdout, os.Stderr)
	}
	stop()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// measureSealed is the default of --sealed: whether a run measures Weft over sealed links, too.
const measureSealed = false

// flags are the flags of the command line.
type flags struct {
	rounds      int
	head, point time.Duration
	patience    time.Duration
	nice        int
	only        string
	weft        string
	out, from   string
	add         string
	sealed      bool
	json        bool
	programs    bool
	rates       string
}

func parseFlags(args []string) (*flags, error) {
	var f flags
	fs := flag.NewFlagSet("peers", flag.ContinueOnError)
	fs.IntVar(&f.rounds, "rounds", 5, "how often the contestants take turns; what counts are medians")
	fs.DurationVar(&f.head, "time", 200*time.Millisecond, "for each figure of the table, in each round")
	fs.DurationVar(&f.point, "point", 30*time.Millisecond, "for each other point of the curves, in each round")
	fs.DurationVar(&f.patience, "patience", 10*time.Second, "how long a contestant's part of a round may take")
	fs.IntVar(&f.nice, "nice", -10,
		"how nice all contestants are to others on this machine, -20 to 19; below 0 needs privilege")
	fs.StringVar(&f.only, "only", "", "only contestants whose name matches this regular `expression`")
	fs.StringVar(&f.weft, "weft", "", "the weft `binary`; it is built if none is named")
	fs.StringVar(&f.out, "out", "", "write JSON, charts and the page to this `directory`")
	fs.StringVar(&f.from, "from", "", "measure nothing: report what this `file` has, a JSON of an earlier run")
	fs.StringVar(&f.add, "add", "",
		"add the rows of this run to those of this `file`, a JSON of an earlier run, "+
			"in place of what that has of the same contestants")
	fs.BoolVar(&f.sealed, "sealed", measureSealed, "measure Weft over sealed links too: weft bench gets --sealed on")
	fs.BoolVar(&f.programs, "programs", false,
		"measure programs in the NIC instead, by the length of the message: "+
			"--rounds of --time for each series and length")
	fs.StringVar(&f.rates, "rates", "",
		"measure messages beside TCP instead, over cables of these `rates`, such as 10,100,155Mbit: "+
			"--time for each rate and length")
	fs.BoolVar(&f.json, "json", false, "print JSON instead of a table")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	err := error(nil)
	switch {
	case fs.NArg() > 0:
		err = fmt.Errorf("argument %q: expected none", fs.Arg(0))
	case f.rates != "" && (f.programs || f.from != "" || f.add != ""):
		err = errors.New("--rates: expected none of --programs, --from and --add beside it")
	case f.add != "" && (f.from != "" || f.programs):
		err = errors.New("--add: expected neither --from nor --programs beside it")
	case f.nice < -20 || f.nice > 19:
		err = fmt.Errorf("--nice %d: expected -20 to 19", f.nice)
	case f.rounds < 1 || f.head < time.Millisecond || f.point < time.Millisecond || f.patience < time.Second:
		err = errors.New("--rounds, --time, --point or --patience: expected at least 1, 1ms, 1ms, 1s")
	}
	if err != nil {
		fmt.Fprintln(fs.Output(), "peers:", err)
	}
	return &f, err
}

// run runs the contest and reports it.
func run(ctx context.Context, f *flags, out, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "weft-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var earlier *contest.Result
	// read first: a run of minutes must not end with a file that cannot be read
	if f.add != "" {
		earlier = new(contest.Result)
		if err := readJSON(f.add, earlier); err != nil {
			return fmt.Errorf("--add: %w", err)
		}
	}
	named := f.weft != ""
	if f.weft, err = weftBinary(ctx, f.weft, dir); err != nil {
		return err
	}
	r := &contest.Result{Machine: machine(), Commit: commit(ctx, f.weft, named), Elsewhere: contest.Elsewhere()}
	l, err := newList(ctx, f, dir)
	if err != nil {
		return err
	}
	defer l.close()
	for _, s := range l.skipped {
		fmt.Fprintf(progress, "peers: %s is skipped: %s\n", s.Contestant, s.Why)
	}
	r.Skipped = l.skipped
	others := othersTook()
	r.Run(ctx, l.contestants, contest.Options{
		Rounds: f.rounds, Patience: f.patience,
		After:    func() { ground.Sweep(ctx) },
		Progress: func(line string) { fmt.Fprintln(progress, "peers:", line) },
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.Machine.Others = math.Round(100*others()) / 100
	if earlier != nil {
		earlier.Add(r)
		r = earlier
	}
	return report(r, f, out)
}

// beChild runs a process of a contestant: a server or a client of package gopeer, or of pages.
func beChild(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "server":
		return gopeer.Serve(context.Background(), args[1], args[2], os.Stdout)
	case len(args) == 4 && args[0] == "client":
		jobs, err := contest.ParseJobs(args[3])
		if err != nil {
			return err
		}
		return gopeer.Measure(context.Background(), args[1], args[2], jobs, os.Stdout)
	case len(args) == 3 && args[0] == "calls":
		return pagepeer.ServeCalls(context.Background(), args[1], args[2], os.Stdout)
	case len(args) == 5 && args[0] == "pages":
		jobs, err := contest.ParseJobs(args[4])
		if err != nil {
			return err
		}
		return pagepeer.Measure(context.Background(), args[1], args[2], args[3], jobs, os.Stdout)
	}
	return fmt.Errorf("%s %q: expected server KIND ADDRESS, client KIND ADDRESS JOBS, "+
		"calls PREFIX ADDRESS or pages KIND ADDRESS SERVER JOBS",
		childWord, args)
}

// report prints the result, and writes it to files if the flags ask for it.
func report(r *contest.Result, f *flags, out io.Writer) error {
	text, err := r.JSON()
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := writeAll(r, text, f.out); err != nil {
			return err
		}
	}
	if f.json {
		_, err = out.Write(text)
		return err
	}
	if err := r.WriteTable(out); err != nil {
		return err
	}
	return page.WriteGoals(out, r)
}

// writeAll writes the result to a directory: as JSON, as charts and as a page.
func writeAll(r *contest.Result, text []byte, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files := map[string][]byte{"peers.json": text, "peers.md": page.Markdown(r)}
	for _, p := range page.Pictures(r) {
		files[p.File] = p.SVG
	}
	return writeFiles(dir, files)
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// again reports an earlier run.
func again(f *flags, out io.Writer) error {
	var r contest.Result
	if err := readJSON(f.from, &r); err != nil {
		return err
	}
	return report(&r, f, out)
}

func readJSON(file string, v any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
