package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/secure"
)

// segmentNIC starts a daemon, which the tools of the test find by $WEFT_SOCKET.
func segmentNIC(t *testing.T) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "nic.sock")
	startNIC(t, "--socket", socket, "--listen", "127.0.0.1:0")
	t.Setenv("WEFT_SOCKET", socket)
}

// delivertest was once aborted with "segment refused": only Go code made segments.
func TestDelivertestRunsByTheCommandsOfItsDocument(t *testing.T) {
	segmentNIC(t)
	text, err := os.ReadFile("../../docs/programs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## delivertest\n")
	block := regexp.MustCompile("(?s)```\n(.*?)```").FindStringSubmatch(section)
	if block == nil {
		t.Fatal("docs/programs.md has no commands for delivertest")
	}
	t.Chdir("../..")
	said := make(map[string]string)
	for line := range strings.Lines(block[1]) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		said[strings.Join(words[1:3], " ")] = must(t, words[1:]...)
		if words[2] == "send" {
			eventually(t, "delivertest has displayed four times", func() bool {
				return strings.Count(must(t, "program", "log", "delivertest"), "\n") == 4
			})
			if list := must(t, "program", "list"); !regexp.MustCompile(`(?m)^413 .* running +2 +6 +0 +-$`).MatchString(list) {
				t.Errorf("weft program list: %s", list)
			}
		}
	}
	if said["segment create"] != "segment 1 has 4096 bytes\n" || said["segment read"] != "4096\n" || said["segment delete"] != "segment 1 is deleted\n" {
		t.Errorf("the commands say %q", said)
	}
	for value := range strings.Lines(said["program log"]) {
		if n, err := strconv.Atoi(strings.TrimSpace(value)); err != nil || n < 0 {
			t.Errorf("a delivery took %q ns", value)
		}
	}
}

func TestTheToolsForSegmentsSayWhatTheyDid(t *testing.T) {
	segmentNIC(t)
	me := secure.UserName(os.Getuid())
	file := filepath.Join(t.TempDir(), "bytes")
	if err := os.WriteFile(file, []byte("0123456789abcdefXYZ"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		want string
	}{
		{"segment list", "ID  BYTES  OWNER  OTHERS  KEPT  PROCESSES  LOCKS  FLAGS\n"},
		{"segment list --json", ""},
		{"segment create 0x10 21 --others read", "segment 16 has 24 bytes\n"},
		{"segment list --json", `{"id":16,"bytes":24,"owner":` + strconv.Itoa(os.Getuid()) + `,"user":"` + me + `","others":"read","kept":true,"processes":0,"locks":0,"flags":0}` + "\n"},
		{"segment write 16 --file " + file, "19 bytes written to segment 16\n"},
		{"segment read 16", "00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66\n00000010  58 59 5a 00 00 00 00 00\n"},
		{"segment write 16 --offset 8 -- -1 text:ab", "10 bytes written to segment 16\n"},
		{"segment read 16 --offset 8 --as words", "-1\n" + strconv.Itoa(0x5a<<16|'b'<<8|'a') + "\n"},
		{"segment read 16 --offset 16 --length 2 --as raw", "ab"},
		{"segment read 16 --offset 24", ""},
		{"segment delete 16", "segment 16 is deleted\n"},
	} {
		if got := must(t, strings.Fields(c.line)...); got != c.want {
			t.Errorf("weft %s: %q; expected %q", c.line, got, c.want)
		}
	}
}

func TestTheToolsForSegmentsSayWhatIsWrong(t *testing.T) {
	segmentNIC(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "segment", "create", "1", "16")
	for _, c := range []struct {
		line   string
		status int
		want   string
	}{
		{"segment create x 8", exitUsage, `segment "x": expected a number from 0 to 4294967295`},
		{"segment create 4294967296 8", exitUsage, `segment "4294967296": expected a number`},
		{"segment create 2 0", exitUsage, `size "0": expected 1 to 67108864 bytes, such as 4096 or 4KiB`},
		{"segment create 2 65MiB", exitUsage, `size "65MiB": expected 1 to 67108864 bytes`},
		{"segment create 2 8 --others all", exitUsage, `invalid argument "all" for "--others" flag: expected one of none, read, write`},
		{"segment create 1 8", exitFailed, "number is taken: segment 1 exists, with 16 bytes, and is " + secure.UserName(os.Getuid()) + "'s\n"},
		{"segment read 2", exitFailed, "no such segment: 2; `weft segment list` shows those of this NIC\n"},
		{"segment read 1 --offset 17", exitFailed, "bad request: bytes 17 to 17 of segment 1; it has 16\n"},
		{"segment read 1 --length 17", exitFailed, "bad request: bytes 0 to 17 of segment 1; it has 16\n"},
		{"segment read 1 --length 7 --as words", exitUsage, "--length 7 with --as words: expected a multiple of 8\n"},
		{"segment read 1 --length -1", exitUsage, `invalid argument "-1" for "--length" flag`},
		{"segment write 1", exitUsage, "no bytes, or two sources of bytes: expected words or --file\n"},
		{"segment write 1 5 --file " + empty, exitUsage, "no bytes, or two sources of bytes: expected words or --file\n"},
		{"segment write 1 --file " + empty, exitFailed, empty + " is empty; expected at least one byte\n"},
		{"segment write 1 --offset 9 5", exitFailed, "bad request: bytes 9 to 17 of segment 1; it has 16\n"},
		{"segment write 1 what", exitUsage, `word "what": expected a number, text:…, hex:… or zero:N`},
		{"segment write 2 5", exitFailed, "no such segment: 2"},
		{"segment delete 2", exitFailed, "no such segment: 2"},
		{"segment", exitUsage, "weft segment needs a subcommand: create, delete, list, read, write\n"},
	} {
		status, stdout, stderr := weft(strings.Fields(c.line)...)
		if status != c.status || stdout != "" || !strings.HasPrefix(stderr, "weft: "+c.want) {
			t.Errorf("weft %s: %d %q %q; expected %d and %q", c.line, status, stdout, stderr, c.status, c.want)
		}
	}
	if all := must(t, "segment", "list", "--json"); strings.Count(all, "\n") != 1 || !json.Valid(bytes.TrimSpace([]byte(all))) {
		t.Errorf("weft segment list --json: %q", all)
	}
}

// Users read the help of each command first.
func TestTheHelpOfSegmentTellsWhatStays(t *testing.T) {
	help := must(t, "segment", "--help")
	for _, want := range []string{
		"256 locks and 256 flags", "Process.SharedSegment(ID, SIZE)", `stays until`, "weft segment create 1 4KiB",
		"create      Make a segment that stays without a process", "delete      Delete a segment that weft segment create made",
		"list        List the segments of the NIC of this host", "read        Print bytes of a segment", "write       Write words or a file into a segment",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("weft segment --help lacks %q:\n%s", want, help)
		}
	}
	if help := must(t, "segment", "create", "--help"); !strings.Contains(help, "none|read|write") || !strings.Contains(help, "at most 256 segments") {
		t.Errorf("weft segment create --help:\n%s", help)
	}
}
