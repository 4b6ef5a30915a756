// Package examples_test builds and runs the programs of this folder, and compares their output
// with the output that their comments show.
package examples_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/testenv"
)

// build compiles all programs, and returns their directory and names.
func build(t *testing.T) (dir string, names []string) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	files, err := filepath.Glob("*/main.go")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	dir = t.TempDir()
	args := []string{"build", "-o", dir}
	for _, f := range files {
		names = append(names, filepath.Dir(f))
		args = append(args, "./"+filepath.Dir(f))
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir, names
}

// promised returns the outputs that the comment of a program shows after "It prints", one for
// each case.
func promised(t *testing.T, name string) (outputs []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(name, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	comment, _, _ := strings.Cut(string(text), "\npackage main")
	_, prints, found := strings.Cut(comment, "// It prints")
	if !found {
		t.Fatalf("%s does not say what it prints", name)
	}
	before := ""
	for _, line := range strings.Split(prints, "\n") {
		if s, ok := strings.CutPrefix(line, "//\t"); ok {
			if before == "//" {
				outputs = append(outputs, "")
			}
			outputs[len(outputs)-1] += s + "\n"
		}
		before = line
	}
	return outputs
}

func run(t *testing.T, path, socket, want string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	x := exec.CommandContext(ctx, path)
	x.Env = append(append(os.Environ(), "WEFT_SOCKET="+socket), env...)
	out, err := x.CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("%s: %v; it prints\n%sand its comment says\n%s", filepath.Base(path), err, out, want)
	}
}

func TestTheExamplesPrintWhatTheySay(t *testing.T) {
	dir, names := build(t)
	nowhere := filepath.Join(t.TempDir(), "none.sock")
	for _, name := range names {
		outputs := promised(t, name)
		if len(outputs) == 0 {
			t.Errorf("%s shows no output", name)
			continue
		}
		// the last is without a daemon
		run(t, filepath.Join(dir, name), nowhere, outputs[len(outputs)-1])
	}
	if runtime.GOOS != "linux" {
		return // no daemon
	}
	socket := filepath.Join(t.TempDir(), "nic.sock")
	d, err := daemon.New(daemon.Config{Socket: socket, Listen: testenv.Loopback(t)}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- d.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	run(t, filepath.Join(dir, "attach"), socket, promised(t, "attach")[0])
	var ranks sync.WaitGroup
	for rank := range 4 {
		ranks.Go(func() {
			run(t, filepath.Join(dir, "world"), socket, fmt.Sprintf("rank %d of 4: the ranks add up to 6\n", rank),
				"WEFT_NAME=job-1", "WEFT_SIZE=4", fmt.Sprint("WEFT_RANK=", rank))
		})
	}
	ranks.Wait()
	for job, name := range []string{"heat", "life", "primes", "matmul", "nbody", "sort", "cg"} {
		for rank := range 3 {
			ranks.Go(func() {
				want := ""
				if rank == 0 {
					want = promised(t, name)[0]
				}
				run(t, filepath.Join(dir, name), socket, want,
					fmt.Sprint("WEFT_NAME=job-2.", job), "WEFT_SIZE=3", fmt.Sprint("WEFT_RANK=", rank))
			})
		}
		ranks.Wait()
	}
}

// A user's own module gets the library by the commands in README, and its first program builds.
func TestAModuleHasTheLibraryAsREADMESays(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, found := strings.Cut(string(readme), "run these commands in your module")
	_, commands, _ = strings.Cut(commands, "```\n")
	commands, _, _ = strings.Cut(commands, "```\n")
	_, program, found2 := strings.Cut(string(readme), "```go\n")
	program, _, _ = strings.Cut(program, "```\n")
	if !found || !found2 || !strings.Contains(commands, "go get ") {
		t.Fatal("README.md does not say how a module has the library, or shows no program")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(root, filepath.Join(dir, "weft")); err != nil {
		t.Fatal(err)
	}
	main := "package main\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\t\"log\"\n\t\"time\"\n\n\t\"github.com/weftnet/weft\"\n)\n\nfunc main() {\n" + program + "}\n"
	do := func(module, commands string, env ...string) (string, error) {
		own := filepath.Join(dir, module)
		if err := errors.Join(os.Mkdir(own, 0o777), os.WriteFile(filepath.Join(own, "go.mod"), []byte("module example.com/own\n\ngo 1.26\n"), 0o666),
			os.WriteFile(filepath.Join(own, "main.go"), []byte(main), 0o666)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		x := exec.CommandContext(ctx, "sh", "-ec", commands)
		x.Dir = own
		x.Env = append(append(os.Environ(), "GOFLAGS="), env...)
		out, err := x.CombinedOutput()
		return string(out), err
	}
	// The library's dependencies are downloaded first, so the commands ask no server. There is
	// no release yet that a server could list, and a module proxy may refuse to list a module
	// that it does not have.
	if out, err := do("first", "go mod edit -replace github.com/weftnet/weft=../weft\ngo build -mod=mod -o own .\n"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer proxy.Close()
	out, err := do("own", commands+"go build -o own .\n./own\n", "GOPROXY="+proxy.URL, "GOSUMDB=off")
	if want := "client/0 sent \"hello, fabric\" with tag 7\n"; err != nil || !strings.HasSuffix(out, want) {
		t.Errorf("%v; the commands print\n%sexpected %s", err, out, want)
	}
}
