package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// compiled returns a file that holds a module.
func compiled(t *testing.T, name string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	if status, _, stderr := weft("pdl", "build", source(t, "echo.pdl", echo), "-o", out); status != 0 {
		t.Fatalf("status %d, %q", status, stderr)
	}
	return out
}

func TestPDLBuildDoesNotWriteTheModuleOverItsSource(t *testing.T) {
	file := source(t, "m.pdlm", echo)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{{file}, {file, "-o", file}, {file, "-o", link}, {link, "-o", file}} {
		status, stdout, stderr := weft(append([]string{"pdl", "build"}, args...)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, " is the source: expected -o OUT") {
			t.Errorf("%q: status %d, %q, %q", args, status, stdout, stderr)
		}
		if b, _ := os.ReadFile(file); string(b) != echo {
			t.Fatalf("%q: the source is %.20q now", args, b)
		}
	}
}

func TestPDLToolsForSourcesSayThatAFileIsAModule(t *testing.T) {
	file := compiled(t, "x.pdlm")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{
		len(b):     ", not a source; `weft pdl dis` shows it\n",
		len(b) - 9: ", not a source: decode program: truncated\n",
		6:          ", not a source: decode program: truncated\n",
		5:          ", not a source: decode program: truncated\n",
		1:          ", not a source: decode program: truncated\n",
	} {
		if err := os.WriteFile(file, b[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"check", "fmt", "build"} {
			status, stdout, stderr := weft("pdl", command, file)
			if want := "weft: " + file + " is a module of compiled PDL" + want; status != exitFailed || stdout != "" || stderr != want {
				t.Errorf("%s, %d bytes: status %d, %q, %q; want %q", command, n, status, stdout, stderr, want)
			}
		}
		if n == len(b) {
			continue
		}
		for _, command := range []string{"dis", "run"} {
			if status, _, stderr := weft("pdl", command, file); status != exitFailed || stderr != "weft: "+file+": decode program: truncated\n" {
				t.Errorf("%s, %d bytes: status %d, %q", command, n, status, stderr)
			}
		}
	}
}

func TestPDLCheckAndFormatGoOnBehindAFileThatFails(t *testing.T) {
	missing, bad, good := filepath.Join(t.TempDir(), "missing.pdl"), source(t, "bad.pdl", "PROGRAM x: BEGIN y = 1 END; END"), source(t, "good.pdl", echo)
	for _, command := range []string{"check", "fmt"} {
		broken := source(t, "broken.pdl", "PROGRAM")
		status, stdout, stderr := weft("pdl", command, missing, broken, bad, good)
		if status != exitFailed || !strings.HasPrefix(stderr, "weft: open "+missing+": no such file or directory\n"+broken+":1:8: ") {
			t.Errorf("%s: status %d, %q", command, status, stderr)
		}
		if command == "check" && !strings.Contains(stderr, "\n"+bad+":1:18: y is not declared\n") {
			t.Errorf("check stops at the file that is missing: %q", stderr)
		}
		if command == "fmt" && !strings.Contains(stdout, "PROGRAM Echo:\n") {
			t.Errorf("fmt stops at the file that is missing: %q", stdout)
		}
	}
}

// Another process that reads meanwhile sees the old file or the new one.
func TestPDLFormatPutsANewFileInThePlaceOfTheOldOne(t *testing.T) {
	file := source(t, "x.pdl", "program x: begin await end; end")
	link := filepath.Join(t.TempDir(), "link.pdl")
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if status, _, stderr := weft("pdl", "fmt", "-w", link); status != 0 {
		t.Fatalf("status %d, %q", status, stderr)
	}
	b := make([]byte, 100)
	if n, _ := reader.Read(b); string(b[:n]) != "program x: begin await end; end" {
		t.Errorf("the old file was written to: %q", b[:n])
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v now, %v", info.Mode(), err)
	}
	if info, err = os.Stat(file); err != nil || info.Mode().Perm() != 0o640 && runtime.GOOS != "windows" {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if files, err := os.ReadDir(filepath.Dir(file)); err != nil || len(files) != 1 {
		t.Errorf("beside it lies %v, %v", files, err)
	}
}

func TestPDLToolsPrintNoControlCharactersOfASource(t *testing.T) {
	file := source(t, "x.pdl", "PROGRAM x: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN\n  WHILE n <> 1 DO n = n * 3; # \x1b[2J\x00\r\nEND; END")
	_, _, stderr := weft("pdl", "check", "--target", "xdp", file)
	if want := file + ":2: cannot reside in the driver: "; !strings.HasPrefix(stderr, want) || !strings.HasSuffix(stderr, "\n      WHILE n <> 1 DO n = n * 3; # \\x1b[2J\\x00\n") {
		t.Errorf("%q", stderr)
	}
	status, stdout, _ := weft("pdl", "dis", file)
	if status != 0 || !strings.Contains(stdout, "WHILE") || strings.ContainsAny(stdout, "\x00\x1b\r") {
		t.Errorf("status %d, %q", status, stdout)
	}
}

// A device or a wrong file may be endless, so it is not read to its end.
func TestPDLToolsReadNoMoreThanAProgramCanHave(t *testing.T) {
	long := source(t, "long.pdl", echo+strings.Repeat("#", mostRead+1-len(echo)))
	files := []string{long}
	if _, err := os.Stat("/dev/zero"); err == nil {
		files = append(files, "/dev/zero")
	}
	for _, file := range files {
		for _, args := range [][]string{{"check", file}, {"fmt", file}, {"build", file, "-o", filepath.Join(t.TempDir(), "out")}, {"dis", file}, {"run", file}} {
			status, stdout, stderr := weft(append([]string{"pdl"}, args...)...)
			if want := "weft: " + file + " has more than 1048576 bytes: it is neither a source nor a module\n"; status != exitFailed || stdout != "" || stderr != want {
				t.Errorf("%q: status %d, %q, %q; want %q", args, status, stdout, stderr, want)
			}
		}
	}
	if status, _, stderr := weft("pdl", "check", source(t, "all.pdl", echo+strings.Repeat("#", mostRead-len(echo)))); status != 0 {
		t.Errorf("as long as may be: status %d, %q", status, stderr)
	}
}
