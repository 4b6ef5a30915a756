package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// LinesOptions say how many ranks print how many lines.
type LinesOptions struct {
	Self  string // path of the weft binary
	Hosts int    // 0: all ranks on this host
	Ranks int
	Lines int // of each rank
}

// LinesRow holds the result.
type LinesRow struct {
	Bench    string  `json:"bench"`
	Ranks    int     `json:"ranks"`
	Lines    int     `json:"lines"` // lines that came, of all ranks
	Bytes    int64   `json:"bytes"`
	Seconds  float64 `json:"seconds"`
	Launcher int64   `json:"launcher_bytes"` // the largest memory of the launcher
}

// LauncherBound bounds the memory of the launcher, in bytes.
const LauncherBound = 64 << 20

// RunLines starts ranks that print numbered lines, and checks each line that `weft run` prints.
// The error names a line that was lost, torn or out of the order of its rank, or a launcher
// beyond LauncherBound.
func RunLines(ctx context.Context, o LinesOptions) (r LinesRow, err error) {
	args := []string{"run", "-n", fmt.Sprint(o.Ranks), "--oversubscribe"}
	victim := []string{"--", o.Self, "victim", "speaker", fmt.Sprint(o.Lines)}
	var c *exec.Cmd
	start := func() error { return c.Start() }
	if o.Hosts > 0 {
		f, err := newFleet(ctx, o.Self, o.Hosts, (o.Ranks+o.Hosts-1)/o.Hosts)
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, f.close()) }()
		t := f.hosts[0].command(ctx, append(append(args, "-m", machineName), victim...)...)
		c, start = t.Cmd, t.Start
	} else {
		c = exec.CommandContext(ctx, o.Self, append(args, victim...)...)
	}
	var words lastWords
	c.Stderr = &words
	out, err := c.StdoutPipe()
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := start(); err != nil {
		return r, err
	}
	r = LinesRow{Bench: KindLines, Ranks: o.Ranks}
	wrong := r.read(out, o)
	err = errors.Join(wrong, c.Wait())
	r.Seconds = time.Since(began).Seconds()
	if usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.Launcher = usage.Maxrss << 10
	}
	if err == nil && r.Launcher > LauncherBound {
		err = fmt.Errorf("the launcher had %d bytes of memory; at most %d", r.Launcher, LauncherBound)
	}
	if err != nil {
		err = fmt.Errorf("%w; the launcher's last words: %s", err, words.line())
	}
	return r, err
}

// read checks the lines as they come. After a wrong one it only reads on, so that the ranks end.
func (r *LinesRow) read(out io.Reader, o LinesOptions) (wrong error) {
	next := make([]int, o.Ranks)
	in := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			break
		}
		r.Lines++
		r.Bytes += int64(len(line))
		if wrong == nil {
			wrong = checkLine(string(line[:len(line)-1]), next)
		}
	}
	for rank, n := range next {
		if wrong == nil && n != o.Lines {
			wrong = fmt.Errorf("rank %d: %d lines came of %d", rank, n, o.Lines)
		}
	}
	return wrong
}

// checkLine checks one line against the next number of its rank.
func checkLine(line string, next []int) error {
	fields := strings.SplitN(line, " ", 3)
	if len(fields) != 3 {
		return fmt.Errorf("a torn line: %.100q", line)
	}
	rank, err1 := strconv.Atoi(fields[0])
	number, err2 := strconv.Atoi(fields[1])
	if err1 != nil || err2 != nil || rank < 0 || rank >= len(next) {
		return fmt.Errorf("a torn line: %.100q", line)
	}
	if want := padding[:number%len(padding)]; fields[2] != want || number != next[rank] {
		return fmt.Errorf("line %.100q of rank %d; expected line %d", line, rank, next[rank])
	}
	next[rank]++
	return nil
}
