package daemon_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/testenv"
)

// twoLinks returns n daemons with the links fast0 and slow0, which know one another on each.
func twoLinks(t *testing.T, n int) []daemon.Config {
	t.Helper()
	dir := t.TempDir()
	all := make([]daemon.Config, n)
	nodes := map[string][]file.Entry{}
	for i := range all {
		all[i] = daemon.Config{Socket: filepath.Join(dir, string(rune('0'+i))+".sock"), Link: "fast0,slow0", Named: map[string]daemon.Link{},
			UnreachableAfter: daemon.Duration(unreachableAfter)}
		for _, link := range []string{"fast0", "slow0"} {
			listen := testenv.Loopback(t)
			all[i].Named[link] = daemon.Link{Listen: listen}
			nodes[link] = append(nodes[link], file.Entry{Address: listen})
		}
	}
	for i := range all {
		for link, l := range all[i].Named {
			l.Nodes = nodes[link]
			all[i].Named[link] = l
		}
	}
	return all
}

// on attaches a process to a link.
func on(t *testing.T, c daemon.Config, link, called string) *weft.Process {
	t.Helper()
	p, err := weft.Attach(t.Context(), weft.AttachConfig{Socket: c.Socket, Link: link, Name: name(t, called)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// dial connects a tool to a daemon's link.
func dial(t *testing.T, socket, link string) *ctl.Conn {
	t.Helper()
	conn, err := ctl.DialLink(t.Context(), socket, link)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func links(t *testing.T, c daemon.Config) []ctl.Link {
	t.Helper()
	l, err := dial(t, c.Socket, "").Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// One daemon serves two networks at once. The user picks one by its name when a process attaches
// (NETSTAR-8).
func TestProcessesOfTwoLinksOfOneDaemonExchangeOnTheirOwnAlone(t *testing.T) {
	c := twoLinks(t, 2)
	run(t, c...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, link := range []string{"fast0", "slow0"} {
		// a name belongs to one network
		a, b := on(t, c[0], link, "both/0"), on(t, c[1], link, "both/1")
		wait(t, a, "both/1")
		if err := a.Send(ctx, b.Name(), 1, []byte(link)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 16)
		if m, err := b.Recv(ctx, a.Name(), 1, buf); err != nil || string(buf[:m.Len]) != link {
			t.Errorf("over %s came %q, %v", link, buf[:m.Len], err)
		}
	}
	on(t, c[1], "slow0", "alone/0")
	wait(t, on(t, c[0], "slow0", "looks/0"), "alone/0")
	if err := on(t, c[0], "fast0", "looks/0").Send(ctx, name(t, "alone/0"), 1, nil); !errors.Is(err, weft.ErrNameUnknown) {
		t.Errorf("a send over fast0 to a process of slow0 ends with %v; expected ErrNameUnknown", err)
	}
}

func TestToolsSeeTheLinkThatTheyName(t *testing.T) {
	c := twoLinks(t, 1)
	run(t, c...)
	on(t, c[0], "", "first/0")
	on(t, c[0], "slow0", "second/0")
	on(t, c[0], "slow0", "second/1")
	all := links(t, c[0])
	if len(all) != 2 || all[0].Name != "fast0" || all[1].Name != "slow0" || all[0].Processes != 1 || all[1].Processes != 2 || all[0].NIC == all[1].NIC ||
		all[0].Kind != "udp" || all[1].Address != c[0].Named["slow0"].Listen {
		t.Errorf("the links are %+v; expected fast0 with one process, slow0 with two, and a NIC for each", all)
	}
	t.Setenv("WEFT_SOCKET", c[0].Socket)
	for _, test := range []struct {
		socket, variable string
		want             int
	}{{"#slow0", "", 1}, {c[0].Socket + "#slow0", "", 1}, {"", "slow0", 1}, {c[0].Socket, "slow0", 0}, {"#fast0", "slow0", 0}, {"", "", 0}} {
		t.Setenv("WEFT_LINK", test.variable)
		info, _, unmap, err := dial(t, test.socket, "").Stat(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.NIC != uint64(all[test.want].NIC) || info.Network != all[test.want].Name {
			t.Errorf("socket %q with WEFT_LINK=%s asks NIC %d of link %s; expected %+v", test.socket, test.variable, info.NIC, info.Network, all[test.want])
		}
		if own := strings.HasSuffix(info.StateDir, "/links/slow0"); !filepath.IsAbs(info.StateDir) || own != (test.want == 1) {
			t.Errorf("socket %q with WEFT_LINK=%s: the state directory is %q", test.socket, test.variable, info.StateDir)
		}
		if err := unmap(); err != nil {
			t.Error(err)
		}
	}
}

func TestALinkThatTheDaemonHasNotIsRefusedWithThoseThatItHas(t *testing.T) {
	c := twoLinks(t, 1)
	run(t, c...)
	_, err := weft.Attach(t.Context(), weft.AttachConfig{Socket: c[0].Socket, Link: "fast7", Name: name(t, "p/0")})
	if !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), `"fast7"; this daemon has fast0, slow0`) {
		t.Errorf("an attach to fast7 ends with %v", err)
	}
	if _, err := dial(t, c[0].Socket, "fast7").Processes(t.Context()); !errors.Is(err, ctl.ErrNoLink) {
		t.Errorf("a tool that asks for fast7 is told %v; expected ErrNoLink", err)
	}
	if _, err := dial(t, c[0].Socket, "no link").Processes(t.Context()); !errors.Is(err, ctl.ErrBadRequest) {
		t.Errorf("a tool that asks for what is no name is told %v; expected ErrBadRequest", err)
	}
	one := configs(t, 1)
	run(t, one...)
	if p, err := weft.Attach(t.Context(), weft.AttachConfig{Socket: one[0].Socket, Link: "udp", Name: name(t, "p/0")}); err != nil {
		t.Errorf("a link without a name of its own has not that of its kind: %v", err)
	} else {
		p.Close()
	}
}

func TestEachLinkKeepsItsNICIDAcrossARestart(t *testing.T) {
	c := twoLinks(t, 1)
	var before []ctl.Link
	for range 2 {
		d, err := daemon.New(c[0], &logWriter{t: t})
		if err != nil {
			t.Fatal(err)
		}
		over := start(func() error { return d.Run(t.Context()) })
		now := links(t, c[0])
		if before != nil && (now[0].NIC != before[0].NIC || now[1].NIC != before[1].NIC) {
			t.Errorf("after a restart the links are %+v; before they were %+v", now, before)
		}
		before = now
		if err := dial(t, c[0].Socket, "slow0").Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := ends(t, "the daemon", over); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALinkThatCannotStartIsNamedAndNothingIsKept(t *testing.T) {
	c := twoLinks(t, 1)
	taken, err := net.ListenPacket("udp", c[0].Named["slow0"].Listen)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.New(c[0], &logWriter{t: t}); err == nil || !strings.Contains(err.Error(), "link slow0: ") {
		t.Errorf("a daemon whose slow0 has no address says %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, c...) // the socket, state and other link are free
	if l := links(t, c[0]); len(l) != 2 {
		t.Errorf("the links are %+v", l)
	}
}

// Processes of one link are thrown out without the others, and a connection stays with its link.
func TestAProcessThatIsThrownOutOfOneLinkLeavesTheOthersAlone(t *testing.T) {
	c := twoLinks(t, 1)
	run(t, c...)
	other := on(t, c[0], "fast0", "good/0")
	conn := dial(t, c[0].Socket, "slow0")
	a, err := conn.Attach(t.Context(), "bad/0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); a.Unmap() })
	w, out := a.Waiter(ctl.Hooks{Listening: func() bool { return false }}), []ctl.Thrown(nil)
	for end := time.Now().Add(patience); len(out) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		for i := range a.RW {
			a.RW[i] = 0xff
		}
		w.Kick()
		if out, err = dial(t, c[0].Socket, "slow0").NIC(0).Thrown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(out) != 1 || out[0].Name != "bad/0" {
		t.Fatalf("slow0 has thrown out %+v; expected bad/0", out)
	}
	if thrown, err := dial(t, c[0].Socket, "fast0").NIC(0).Thrown(t.Context()); err != nil || len(thrown) != 0 {
		t.Errorf("fast0 has thrown out %+v, %v; expected none", thrown, err)
	}
	heeded(t, other)
}
