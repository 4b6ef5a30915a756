package examples_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/testbed"
)

// A block is one fenced block of docs/tutorial.md. A block after "Save this as" is a file. A block
// with the info string console is a session: commands, which begin with "$ ", and their output.
type block struct {
	line  int    // of the fence
	file  string // empty for a session
	root  bool   // the paragraph before the session says that it needs root
	lines []string
}

var saved = regexp.MustCompile("^Save this as `([^`]+)`:$")

// blocks splits a page. Each block must be a file or a session, so that no part of the page is
// left untested.
func blocks(page string) (list []block, err error) {
	before, lines := "", strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		info, fence := strings.CutPrefix(lines[i], "```")
		if !fence {
			if lines[i] != "" {
				before = lines[i]
			}
			continue
		}
		b := block{line: i + 1, root: strings.Contains(before, "needs root:")}
		if m := saved.FindStringSubmatch(before); m != nil {
			b.file = m[1]
		} else if info != "console" {
			return nil, fmt.Errorf("line %d: a block that is no file and no session", b.line)
		}
		for i++; i < len(lines) && lines[i] != "```"; i++ {
			b.lines = append(b.lines, lines[i])
		}
		if b.file == "" && (len(b.lines) == 0 || !strings.HasPrefix(b.lines[0], "$ ")) {
			return nil, fmt.Errorf("line %d: a session that begins with no command", b.line)
		}
		before = ""
		list = append(list, b)
	}
	return list, nil
}

// asShown reports whether a command printed the lines that the page shows. "…" matches any text
// within a line. Lines about downloads of modules do not count.
func asShown(shown []string, printed string) bool {
	var lines []string
	for line := range strings.Lines(printed) {
		if !strings.HasPrefix(line, "go: downloading ") {
			lines = append(lines, strings.TrimRight(line, " \n"))
		}
	}
	if len(lines) != len(shown) {
		return false
	}
	for i, s := range shown {
		like := "^" + strings.ReplaceAll(regexp.QuoteMeta(s), "…", ".*") + "$"
		if !regexp.MustCompile(like).MatchString(lines[i]) {
			return false
		}
	}
	return true
}

// A shell runs the commands of the whole page, as the shell of a reader does.
type shell struct {
	in  io.Writer
	out *bufio.Reader
}

// dependOn looks at all sources below root. The programs of the tutorial are built from them, and
// without a look, go test would repeat an old result after a change.
func dependOn(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return fs.SkipDir
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"):
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

const endOfCommand = "tutorial: end of command"

// run returns the output of a command. The command reads no input.
func (s shell) run(command string) (printed string, err error) {
	if _, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null\necho %q $?\n", command, endOfCommand); err != nil {
		return "", err
	}
	for {
		line, err := s.out.ReadString('\n')
		if text, status, ended := strings.Cut(line, endOfCommand); ended {
			if status != " 0\n" {
				err = errors.New("exit status" + strings.TrimSuffix(status, "\n"))
			}
			return printed + text, err
		}
		printed += line
		if err != nil {
			return printed, fmt.Errorf("the shell ended: %w", err)
		}
	}
}

// start starts a shell in dir. When the test ends, no process of the shell's group is left.
func start(t *testing.T, dir string, env ...string) shell {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute) // t.Context ends before the cleanup
	x := exec.CommandContext(ctx, "bash", "--norc", "-s")
	x.Dir, x.Env = dir, append(os.Environ(), env...)
	x.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	x.Cancel = func() error { return syscall.Kill(-x.Process.Pid, syscall.SIGKILL) }
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	x.Stdout, x.Stderr = w, w
	in, err := x.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		in.Close()
		err := x.Wait()
		left := syscall.Kill(-x.Process.Pid, syscall.SIGKILL) == nil
		cancel()
		r.Close()
		if !t.Failed() && (err != nil || left) {
			t.Errorf("the shell ended with %v; processes are left: %v", err, left)
		}
	})
	return shell{in, bufio.NewReader(r)}
}

// The test does what a reader of docs/tutorial.md does, in one shell, and compares all output with
// the page. Three things differ from a reader's. The clone is this repository. After the
// installation of the command weft, Go may not use the network, because the page says that it does
// not need to. Binaries have no debug information, because they are linked faster.
func TestTheTutorialPrintsWhatItShows(t *testing.T) {
	if testing.Short() {
		t.Skip("builds seven programs: not in short mode")
	}
	for _, program := range []string{"bash", "go"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	page, err := os.ReadFile("../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	list, err := blocks(string(page))
	if err != nil || len(list) < 20 {
		t.Fatalf("docs/tutorial.md has %d blocks: %v", len(list), err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dependOn(t, root)
	noHosts := testbed.Check()
	dir, temp := t.TempDir(), t.TempDir()
	s := start(t, dir, "TMPDIR="+temp, "GOFLAGS="+os.Getenv("GOFLAGS")+" -ldflags=-w")
	for _, b := range list {
		if b.file != "" {
			text := strings.Join(b.lines, "\n") + "\n"
			if err := os.WriteFile(filepath.Join(dir, "tour", b.file), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if b.root && noHosts != nil {
			t.Logf("docs/tutorial.md:%d: passed over: %v", b.line, noHosts)
			continue
		}
		for len(b.lines) > 0 {
			command, shown := strings.TrimPrefix(b.lines[0], "$ "), b.lines[1:]
			b.lines = nil
			for i, line := range shown {
				if strings.HasPrefix(line, "$ ") {
					shown, b.lines = shown[:i], shown[i:]
					break
				}
			}
			began := time.Now()
			printed, err := s.run(strings.ReplaceAll(command, "$HOME/weft", "'"+root+"'"))
			t.Logf("%6.1f s: %s", time.Since(began).Seconds(), command)
			if err != nil || !asShown(shown, printed) {
				t.Fatalf("docs/tutorial.md:%d: %s: %v; it prints\n%sand the page shows\n%s",
					b.line, command, err, printed, strings.Join(shown, "\n"))
			}
			if strings.HasPrefix(command, "go -C $WEFT install ") {
				if _, err := s.run("export GOPROXY=off"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, d := range []string{dir, temp} {
		if left, err := os.ReadDir(d); err != nil || len(left) > 0 {
			t.Errorf("the tutorial leaves %v in %s: %v", left, d, err)
		}
	}
}

func TestAPageWithAnUntestedBlockOrAnotherOutputIsNoticed(t *testing.T) {
	for _, page := range []string{"```go\npackage main\n```\n", "```console\nout\n```\n", "```console\n```\n"} {
		if list, err := blocks(page); err == nil {
			t.Errorf("%q has blocks %v", page, list)
		}
	}
	list, err := blocks("Save this as `a/b.go`:\n\n```go\nx\n```\n\n" +
		"This needs root:\n\n```console\n$ true\n```\n\n```console\n$ a\nb\n```\n")
	if err != nil || len(list) != 3 || list[0].file != "a/b.go" || list[0].root || !list[1].root || list[2].root {
		t.Errorf("%+v, %v", list, err)
	}
	for _, c := range []struct {
		shown   string
		printed string
		want    bool
	}{
		{"a\nb … d", "a\nb c d\n", true},
		{"a", "go: downloading x v1\na\n", true},
		{"a", "a\nb\n", false},
		{"a\nb", "a\n", false},
		{"a.c", "abc\n", false},
		{"…", "a\nb\n", false},
	} {
		if got := asShown(strings.Split(c.shown, "\n"), c.printed); got != c.want {
			t.Errorf("shown %q, printed %q: %v", c.shown, c.printed, got)
		}
	}
}
