package ctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The variable holds the role of the test's binary when it is started as another user: it listens
// at a socket until its input ends, or dials one.
const roleVariable = "WEFT_CTL_ROLE"

func TestMain(m *testing.M) {
	role, path, _ := strings.Cut(os.Getenv(roleVariable), "=")
	switch role {
	case "listen":
		l, err := Listen(path, 0o666)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		l.Close()
	case "dial":
		c, err := Dial(context.Background(), path)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("connected to", c.socket)
	default:
		os.Exit(m.Run())
	}
}

// as starts this binary as another user, and returns the first line that it prints. A daemon
// lives until the test ends.
func as(t *testing.T, uid uint32, tmp, role, path string) string {
	t.Helper()
	x := exec.Command("/proc/self/exe")
	// like cron's environment: no XDG_RUNTIME_DIR, no WEFT_SOCKET
	x.Env = []string{roleVariable + "=" + role + "=" + path, "TMPDIR=" + tmp}
	x.Dir = "/"
	x.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	in, err := x.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := x.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Start(); errors.Is(err, os.ErrPermission) {
		t.Skip("another user cannot run the test's binary")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); x.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// ownTmp returns a directory like /tmp, to which all users may write, below one to which only
// root may.
func ownTmp(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir, err := os.MkdirTemp("", "weft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	tmp := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(tmp, 0o755), os.Chmod(tmp, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	return tmp
}

// directory makes a directory that belongs to a user.
func directory(t *testing.T, path string, uid int, mode os.FileMode) string {
	t.Helper()
	if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode), os.Chown(path, uid, uid)); err != nil {
		t.Fatal(err)
	}
	return path
}

func says(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: %q lacks %q", what, got, w)
		}
	}
}

const stranger, user = 65533, 65532 // uids that nothing else uses

// Once, a user who made /tmp/weft-UID first could make the processes of user UID attach to
// another daemon.
func TestAStrangersDaemonIsNotAttachedTo(t *testing.T) {
	tmp := ownTmp(t)
	dir := directory(t, filepath.Join(tmp, fmt.Sprintf("weft-%d", user)), stranger, 0o755)
	socket := filepath.Join(dir, "nic.sock")
	says(t, "the stranger's daemon", as(t, stranger, tmp, "listen", socket), "ready")
	says(t, "the user's client", as(t, user, tmp, "dial", ""), "no NIC daemon", HostSocket, fmt.Sprintf("directory %s is user %d's; expected one of user %d", dir, stranger, user))
	says(t, "the user's client, by name", as(t, user, tmp, "dial", socket), "not trusted", dir)
	says(t, "the user's daemon", as(t, user, tmp, "listen", socket), "not trusted", dir, fmt.Sprintf("is user %d's", stranger))
}

// A place whose name does not tell its user is as bad if a stranger could have made it.
func TestADaemonIsTrustedByWhoseItsPlaceIs(t *testing.T) {
	tmp := ownTmp(t)
	root := filepath.Dir(tmp)
	theirs := filepath.Join(directory(t, filepath.Join(tmp, "weft"), stranger, 0o755), "nic.sock")
	// as systemd makes /run/weft for a service's user
	service := filepath.Join(directory(t, filepath.Join(root, "run"), stranger, 0o755), "nic.sock")
	for _, s := range []string{theirs, service} {
		says(t, "a daemon at "+s, as(t, stranger, tmp, "listen", s), "ready")
	}
	says(t, "a daemon in a place that any user could have made", as(t, user, tmp, "dial", theirs), "not trusted", fmt.Sprintf("is user %d's", stranger), "into directory "+tmp)
	says(t, "a daemon in a place that root made for it", as(t, user, tmp, "dial", service), "connected")
	bare := filepath.Join(tmp, "x.sock") // in no directory of its own
	says(t, "a daemon at "+bare, as(t, stranger, tmp, "listen", bare), "ready")
	says(t, "a daemon in a place that all users write", as(t, user, tmp, "dial", bare), "not trusted", "into directory "+tmp)
	own := filepath.Join(tmp, fmt.Sprintf("weft-%d", user), "nic.sock")
	says(t, "one's own daemon", as(t, user, tmp, "listen", own), "ready")
	says(t, "one's own daemon", as(t, user, tmp, "dial", ""), "connected to "+own)
	if st, err := os.Stat(filepath.Dir(own)); err != nil || st.Mode().Perm() != 0o700 || owner(st) != user {
		t.Errorf("its directory: %v, %v", st, err)
	}
}

func TestADaemonRefusesADirectoryThatOthersCanChange(t *testing.T) {
	tmp := ownTmp(t)
	dir := directory(t, filepath.Join(tmp, fmt.Sprintf("weft-%d", user)), user, 0o755)
	says(t, "a default directory that others can read", as(t, user, tmp, "listen", filepath.Join(dir, "nic.sock")), "not trusted", "chmod 700 "+dir)
	open := directory(t, filepath.Join(tmp, "open"), user, 0o777)
	says(t, "a directory that others can write", as(t, user, tmp, "listen", filepath.Join(open, "nic.sock")), "not trusted", "chmod go-w "+open)
	link := filepath.Join(tmp, "x.sock.lock")
	target := filepath.Join(filepath.Dir(tmp), "target")
	if err := errors.Join(os.WriteFile(target, []byte("precious"), 0o600), os.Symlink(target, link), os.Lchown(link, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	if l, err := Listen(filepath.Join(tmp, "x.sock"), 0o600); err == nil {
		l.Close()
		t.Error("a lock that is a link was followed")
	}
	if b, _ := os.ReadFile(target); string(b) != "precious" {
		t.Errorf("what the link leads to is now %q", b)
	}
}

// Daemon and clients have one list of places. A client whose user has no daemon finds the host's.
func TestAClientTriesThePlacesInTurn(t *testing.T) {
	one := serve(t, func(c *Client, _ *Request) error { return c.Reply(&Reply{}) })
	none := filepath.Join(t.TempDir(), "nic.sock")
	c, err := find(t.Context(), []string{none, one})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.socket != one {
		t.Errorf("connected to %s; expected %s", c.socket, one)
	}
	if _, err := find(t.Context(), []string{none, none + "2"}); !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), none+" or "+none+"2; `weft nic` starts one") {
		t.Errorf("without a daemon: %v", err)
	}
}

func TestTheHostsSocketIsTheLastPlaceOfAUserAndTheOnlyOneOfRoot(t *testing.T) {
	t.Setenv("WEFT_SOCKET", "")
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/0") // as in a login shell of root
	if os.Getuid() == 0 {
		if s := Sockets(); len(s) != 1 || s[0] != HostSocket {
			t.Errorf("root has %v", s)
		}
	} else if s := Sockets(); s[0] != "/run/user/0/weft/nic.sock" || s[len(s)-1] != HostSocket {
		t.Errorf("a user has %v", s)
	}
	t.Setenv("WEFT_SOCKET", "/x/y.sock")
	if s := Sockets(); len(s) != 1 || s[0] != "/x/y.sock" {
		t.Errorf("with WEFT_SOCKET: %v", s)
	}
}

// The document did not mention the directory for temporary files, which any user can make.
func TestThePlacesInTheDocumentAreTriedInItsOrder(t *testing.T) {
	document, err := os.ReadFile("../../docs/nic.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(document), "\n| place | when |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	runtime, own, tmp := t.TempDir(), t.TempDir(), t.TempDir()
	directory(t, filepath.Join(runtime, strconv.Itoa(user)), os.Getuid(), 0o700)
	here := strings.NewReplacer("$XDG_RUNTIME_DIR", own, "/run/user", runtime, "UID", strconv.Itoa(user))
	var want []string
	for row := range strings.Lines(table) {
		place, rest, _ := strings.Cut(strings.TrimPrefix(row, "| `"), "`")
		if place = here.Replace(place); strings.HasPrefix(rest, " in the directory for temporary files") {
			place = filepath.Join(tmp, place)
		}
		want = append(want, place)
	}
	if len(want) < 2 || want[0] != "$WEFT_SOCKET" {
		t.Fatalf("docs/nic.md has the places %q; expected $WEFT_SOCKET and others", want)
	}
	want = want[1:]
	t.Setenv("TMPDIR", tmp)
	t.Setenv("XDG_RUNTIME_DIR", own)
	t.Setenv("WEFT_SOCKET", "/x/y.sock")
	a := account{user, runtime}
	try := func(when string, a account, want []string) {
		if got := a.sockets(); !slices.Equal(got, want) {
			t.Errorf("%s: %q; docs/nic.md has %q", when, got, want)
		}
	}
	try("with WEFT_SOCKET", a, []string{"/x/y.sock"})
	t.Setenv("WEFT_SOCKET", "")
	try("a user", a, want)
	try("root", account{0, runtime}, want[len(want)-1:])
	t.Setenv("XDG_RUNTIME_DIR", "")
	try("a user without XDG_RUNTIME_DIR", a, want[1:])
	try("a user who is not logged in", account{user, tmp}, want[2:])
}

// The error of a daemon that hangs used to be "context deadline exceeded" only.
func TestACallThatIsNotAnsweredNamesTheDaemon(t *testing.T) {
	socket := serve(t, func(*Client, *Request) error { return nil })
	c := dial(t, socket)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Nodes(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	says(t, "the error", err.Error(), socket, fmt.Sprintf("process %d", os.Getpid()), "has not answered for ", "ms")
}
