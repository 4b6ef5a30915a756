package machine

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/weftnet/weft/internal/testbed"
)

// StartsOptions say how often programs that end at once are started.
type StartsOptions struct {
	Self   string // path of the weft binary
	Ranks  int    // on this host, in turns with the launchers of MPI
	Hosts  int    // of the testbed; 0: none
	Rounds int
}

// StartsRow holds how long `true` took from start to end, by one launcher.
type StartsRow struct {
	Bench    string `json:"bench"`
	Launcher string `json:"launcher"` // weft, or the launcher of an MPI
	Hosts    int    `json:"hosts"`
	Ranks    int    `json:"ranks"`
	Rounds   int    `json:"rounds"`
	Median   int64  `json:"median_ns"`
	// weft's median by this launcher's; between 16 and 64 ranks, the second by the first
	Ratio   float64 `json:"ratio,omitempty"`
	Missing string  `json:"missing,omitempty"`
}

// rivals are the launchers with which weft is compared, with the flags that permit any number of
// ranks, and root.
var rivals = []struct {
	name string
	argv []string
}{
	{"mpirun.openmpi", []string{"--allow-run-as-root", "--oversubscribe"}},
	{"mpirun.mpich", nil},
}

// RunStarts measures the launchers in turns, and then weft on the hosts of a testbed.
func RunStarts(ctx context.Context, o StartsOptions, row func(StartsRow) error) error {
	n := fmt.Sprint(o.Ranks)
	argv := [][]string{{o.Self, "run", "-n", n, "--oversubscribe", "--", "true"}}
	rows := []StartsRow{{Bench: KindStarts, Launcher: "weft", Hosts: 1, Ranks: o.Ranks, Rounds: o.Rounds}}
	for _, rival := range rivals {
		r := StartsRow{Bench: KindStarts, Launcher: rival.name, Hosts: 1, Ranks: o.Ranks, Rounds: o.Rounds}
		path, err := exec.LookPath(rival.name)
		if err != nil {
			r.Missing = "not installed"
		}
		rows = append(rows, r)
		argv = append(argv, append(append([]string{path}, rival.argv...), "-n", n, "true"))
	}
	took := make([][]time.Duration, len(rows))
	for range o.Rounds {
		for i, a := range argv {
			if rows[i].Missing != "" {
				continue
			}
			began := time.Now()
			if out, err := exec.CommandContext(ctx, a[0], a[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%v: %w: %s", a, err, out)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	for i := range rows {
		rows[i].Median = int64(median(took[i]))
		if i > 0 && rows[i].Median > 0 {
			rows[i].Ratio = float64(rows[0].Median) / float64(rows[i].Median)
		}
		if err := row(rows[i]); err != nil {
			return err
		}
	}
	if o.Hosts == 0 {
		return nil
	}
	return runScale(ctx, o, row)
}

// runScale starts 4 and 16 ranks on each host of a testbed.
func runScale(ctx context.Context, o StartsOptions, row func(StartsRow) error) (err error) {
	r := StartsRow{Bench: KindStarts, Launcher: "weft", Hosts: o.Hosts, Rounds: o.Rounds}
	if err := testbed.Check(); err != nil {
		r.Missing = err.Error()
		return row(r)
	}
	f, err := newFleet(ctx, o.Self, o.Hosts, 16)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	counts := []int{4 * o.Hosts, 16 * o.Hosts}
	took := make([][]time.Duration, len(counts))
	for range o.Rounds {
		for i, n := range counts {
			began := time.Now()
			c := f.hosts[0].command(ctx, "run", "-m", machineName, "-n", fmt.Sprint(n), "--per-node",
				fmt.Sprint(n/o.Hosts), "--", "true")
			if out, err := c.CombinedOutput(); err != nil {
				return fmt.Errorf("weft run -n %d: %w: %s", n, err, out)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	var first int64
	for i, n := range counts {
		r.Ranks, r.Median = n, int64(median(took[i]))
		if i == 0 {
			first = r.Median
		} else {
			r.Ratio = float64(r.Median) / float64(first)
		}
		if err := row(r); err != nil {
			return err
		}
	}
	return nil
}
