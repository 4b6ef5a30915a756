package main

import (
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/doctor"
	"github.com/weftnet/weft/internal/fabric"
)

// procHost is a host with these files only.
type procHost struct {
	doctor.Host
	files map[string]string
}

func (h procHost) Read(path string) ([]byte, error) {
	if text, ok := h.files[path]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

func (h procHost) Target(string) (string, error) { return "/home/weft", nil }

// A daemon of another user has other files, and one that is started anew needs its variables.
func TestTheSetupOfADaemonHasItsUserAndItsVariables(t *testing.T) {
	t.Setenv(fabric.FileVariable, "")
	secret := "WEFT_JOB_KEY=0123456789abcdef"
	h := procHost{files: map[string]string{
		"/proc/7/cmdline": "weft\x00nic\x00--socket\x00/x/nic.sock\x00",
		"/proc/7/environ": strings.Join([]string{"HOME=/h", secret, "WEFT_GSO=no", fabric.FileVariable + "=k", "XDG_STATE_HOME=/s"}, "\x00") + "\x00",
	}}
	for status, foreign := range map[string]bool{
		"Uid:\t" + strings.Repeat(strconv.Itoa(os.Geteuid())+"\t", 4) + "\n":   false,
		"Uid:\t" + strings.Repeat(strconv.Itoa(os.Geteuid()+1)+"\t", 4) + "\n": true,
		"": true,
	} {
		h.files["/proc/7/status"] = "Name:\tweft\n" + status
		s, err := setupOfDaemon(h, 7)
		if err != nil {
			t.Fatal(err)
		}
		if s.Foreign != foreign {
			t.Errorf("%q: the daemon is another user's: %v; expected %v", status, s.Foreign, foreign)
		}
		if want := []string{"WEFT_GSO=no", fabric.FileVariable + "=k", "XDG_STATE_HOME=/s"}; !slices.Equal(s.Env, want) {
			t.Errorf("a restarted daemon gets %q; expected %q", s.Env, want)
		}
		if s.KeyFile != "/home/weft/k" || s.KeyPath != s.KeyFile {
			t.Errorf("the fabric key is in %q, %q", s.KeyFile, s.KeyPath)
		}
	}
}
