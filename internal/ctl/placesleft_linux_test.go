package ctl

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A directory in which others can put a socket is none for a daemon, but for one in which nobody removes another's.
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

// A directory that others can enter holds nothing of a user's programs.
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
	for range 2 { // the second finds it
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
	for range 2 { // the second replaces it
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
	for _, other := range []string{path + ".new", path} { // what is no socket is nobody's to remove
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

func TestAnErrorCrossesTheSocketWithItsCodeAndABoundedText(t *testing.T) {
	for code, sentinel := range codes {
		e := errorFor(fmt.Errorf("%w: more", sentinel))
		if e.Code != code || !errors.Is(e, sentinel) || e.Text != sentinel.Error()+": more" {
			t.Errorf("%v becomes %+v", sentinel, e)
		}
	}
	for _, n := range []int{0, 4096, 4097, 70000} {
		e := errorFor(errors.New(strings.Repeat("x", n)))
		if e.Code != "failed" || len(e.Text) != min(n, 4096) || e.Unwrap() != nil {
			t.Errorf("a text of %d bytes becomes %d, code %s", n, len(e.Text), e.Code)
		}
	}
	if _, err := (&Reply{Names: make([]Name, 2000)}).Encode(); err == nil {
		t.Error("a reply longer than a message is encoded")
	}
	if r, err := DecodeReply([]byte(`{"error":{"code":"in-use","text":"x"}}`)); r != nil || !errors.Is(err, ErrInUse) {
		t.Errorf("a refusal is %+v, %v", r, err)
	}
	if b, err := (&Request{Op: OpStat}).Encode(); err != nil || !strings.Contains(string(b), `"version":1`) {
		t.Errorf("a request is %s, %v", b, err)
	}
	p := Process{Refused: map[string]uint64{"a": 2, "b": 3}}
	if p.Refusals() != 5 {
		t.Errorf("%d refusals; expected 5", p.Refusals())
	}
}

// A daemon keeps what a client sends until its request is answered.
func TestDescriptorsThatCameAreLetGoOnce(t *testing.T) {
	daemon, c := accepted(t)
	daemon.TakeMemory()
	memory := lastingMemory(t)
	before := openFiles(t)
	for range 3 {
		if err := c.p.send(&Request{Version: Version, Op: OpRegister, Given: &Register{Bytes: 1}}, memory); err != nil {
			t.Fatal(err)
		}
		r, err := daemon.Receive()
		if err != nil || !daemon.Holds() {
			t.Fatalf("%+v, %v; held: %v", r, err, daemon.Holds())
		}
		given := r.Given.FD
		daemon.LetGo()
		if daemon.Holds() {
			t.Error("a descriptor is held")
		}
		f, err := os.Open(os.DevNull) // may get the number
		if err != nil {
			t.Fatal(err)
		}
		daemon.LetGo()
		if _, err := f.Stat(); err != nil {
			t.Errorf("descriptor %d is closed twice: %v", given, err)
		}
		f.Close()
	}
	closedAgain(t, "three requests", before)
	if _, err := c.c.Write([]byte(strings.Repeat(" ", maxProcessRequest+1))); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.Receive(); !errors.Is(err, ErrBadRequest) {
		t.Errorf("a long request of a process: %v", err)
	}
}

func TestALinkOfAKeeperIsAPacketSocketAndEndsWithEither(t *testing.T) {
	before := openFiles(t)
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewKeeperLink(f); err == nil {
		t.Error("a file is taken for a link")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if f, err = out.(*net.TCPConn).File(); err != nil {
		t.Fatal(err)
	}
	if _, err := NewKeeperLink(f); err == nil || !strings.Contains(err.Error(), "is no unix socket") {
		t.Errorf("a TCP socket: %v", err)
	}
	out.Close()
	l.Close()
	closedAgain(t, "links that are none", before)

	daemon, keeper := keeperLinks(t)
	if err := daemon.Tell(&ToKeeper{Await: &KeeperAwait{Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Tell(&ToKeeper{Begin: &KeeperBegin{Reserve: wholeReserve()}}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		m, err := keeper.Told()
		if err != nil || (m.Await != nil) != want {
			t.Fatalf("packet %d: %+v, %v", i, m, err)
		}
	}
	if err := daemon.Tell(&ToKeeper{Await: &KeeperAwait{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := keeper.Told(); !errors.Is(err, ErrBadRequest) {
		t.Errorf("an early start behind the reservation: %v", err)
	}
	if err := keeper.Answer(&FromKeeper{Started: []int{4}}); err != nil {
		t.Fatal(err)
	}
	if m, err := daemon.Answered(); err != nil || len(m.Started) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if err := keeper.Answer(&FromKeeper{Ranks: []RankInfo{{Standing: &Standing{}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.Answered(); !errors.Is(err, ErrBadRequest) {
		t.Errorf("a rank with what only the NIC knows: %v", err)
	}
	if err := keeper.Close(); err != nil {
		t.Fatal(err)
	}
	if m, err := daemon.Answered(); m != nil || !errors.Is(err, io.EOF) {
		t.Errorf("behind the end of the keeper: %+v, %v; expected io.EOF", m, err)
	}
	if m, err := keeper.Told(); m != nil || !errors.Is(err, io.EOF) {
		t.Errorf("behind its own end: %+v, %v; expected io.EOF", m, err)
	}
}
