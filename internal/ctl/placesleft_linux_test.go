package ctl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A daemon refuses a directory in which others can put a socket, unless no user there can remove
// files of another.
func TestADirectoryIsTakenIfOthersCannotPutTheirSocketThere(t *testing.T) {
	for mode, good := range map[os.FileMode]bool{0o755: true, 0o700: true, 0o775: false, 0o757: false, 0o777: false, 0o777 | os.ModeSticky: true} {
		dir := directory(t, filepath.Join(t.TempDir(), "run"), os.Getuid(), mode)
		l, err := Listen(filepath.Join(dir, "nic.sock"), 0o600)
		if good != (err == nil) || err != nil && !errors.Is(err, ErrNotTrusted) {
			t.Errorf("a socket in a directory of mode %v: %v; expected that it is taken: %v", mode, err, good)
		}
		if err == nil {
			l.Close()
		}
		if err := CheckState(dir); (good && mode&os.ModeSticky == 0) != (err == nil) || err != nil && !errors.Is(err, ErrNotTrusted) {
			t.Errorf("the state in a directory of mode %v: %v", mode, err)
		}
	}
	if err := CheckState(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state in no directory: %v", err)
	}
}

// A directory that others can enter holds no sockets of a user's programs.
func TestSocketsThatProgramsHaveLeftAreFoundInPlacesOfTheUserAlone(t *testing.T) {
	top := directory(t, filepath.Join(t.TempDir(), "top"), os.Getuid(), 0o755)
	t.Setenv(socketVariable, filepath.Join(top, "nic.sock"))
	if got := Places("pools"); got[0] != filepath.Join(top, "pools") {
		t.Fatalf("the places are %q", got)
	}
	mine := func() (l []string, err error) {
		all, err := Left("pools")
		for _, s := range all {
			if strings.HasPrefix(s, top) {
				l = append(l, filepath.Base(s))
			}
		}
		return l, err
	}
	if l, _ := mine(); len(l) > 0 {
		t.Errorf("before there is a place: %q", l)
	}
	for range 2 { // the second call finds it
		dir, err := MakePlace("pools")
		if err != nil || dir != filepath.Join(top, "pools") {
			t.Fatalf("the place is %q, %v", dir, err)
		}
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("it has %v, %v", st.Mode(), err)
		}
	}
	for _, name := range []string{"a.sock", "b.sock", "c.lock"} {
		if err := os.WriteFile(filepath.Join(top, "pools", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := mine(); err != nil || !slices.Equal(l, []string{"a.sock", "b.sock"}) {
		t.Errorf("left are %q, %v", l, err)
	}
	if err := os.Chmod(filepath.Join(top, "pools"), 0o755); err != nil {
		t.Fatal(err)
	}
	if l, err := mine(); !errors.Is(err, ErrNotTrusted) || len(l) > 0 {
		t.Errorf("in a place that others can enter are %q, %v", l, err)
	}
	if dir, err := MakePlace("pools"); err == nil && strings.HasPrefix(dir, top) {
		t.Errorf("the place that others can enter is taken: %q", dir)
	}
	if dir, err := MakePlace("x\x00y"); err == nil {
		t.Errorf("a place that cannot be made is %q", dir)
	}
}

func TestASocketForOneUserIsThatUsersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.sock")
	for range 2 { // the second call replaces it
		l, err := ListenFor(path, os.Getuid())
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 || owner(st) != os.Getuid() {
			t.Errorf("it has %v, %v", st, err)
		}
		c := dial(t, path)
		c.Close()
		l.l.Close() // as a killed daemon leaves it
	}
	if _, err := ListenFor(filepath.Join(path, "below"), os.Getuid()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("listen for user %d", os.Getuid())) {
		t.Errorf("a socket below a socket: %v", err)
	}
	for _, other := range []string{path + ".new", path} { // anything but a socket stays
		os.Remove(other)
		if err := os.WriteFile(other, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ListenFor(path, os.Getuid()); err == nil || !strings.Contains(err.Error(), "not a socket") {
			t.Errorf("with a file at %s: %v", other, err)
		}
		os.Remove(other)
	}
}
