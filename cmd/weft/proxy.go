package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/proxy"
	"github.com/weftnet/weft/stream"
)

func init() { register(newProxyCommand) }

// proxyFlags are the flags of `weft proxy`.
type proxyFlags struct {
	name  fabric.Name
	from  []string
	to    []string
	drain time.Duration
	tell  string
	at    joinFlags

	auth        string
	insecure    bool
	connections int

	keepAlive, patience time.Duration

	ways  []proxyWay
	users *proxy.Users // of auth
}

func newProxyCommand() *cobra.Command {
	f := &proxyFlags{}
	c := &cobra.Command{
		Use:   "proxy --from ADDRESS --to ADDRESS [--from ADDRESS --to ADDRESS]... [flags]",
		Short: "Carry TCP and unix-socket connections over the fabric",
		Long: `Accepts connections at one address and forwards them to another, until the command is
interrupted. One address is a service of a process of the fabric, such as app/0:http. The other
is a TCP address, such as 127.0.0.1:8080, or the path of a unix socket, which contains a /.

With --from on the fabric, the proxy is that process, and forwards connections to a server of
this host. With --to on the fabric, the proxy serves clients of this host. It forwards the end
of each direction separately, and forwards a failure as a failure. At a unix socket, a failure
may look like an orderly end, since the kernel resets a unix socket only if bytes are unread.
If a program must distinguish the two, use TCP.

If --from and --to are repeated, the first --from goes to the first --to, and so on. All
services of --from must then belong to one process, since a proxy is one process of the fabric.

With --to fabric, each client names its destination by SOCKS5 or by HTTP CONNECT. The host
http.0.web.weft is the service web/0:http, and port 80 of the host 0.web.weft is the service
web/0:80. With --auth, clients authenticate with a user and a password. The command weft proxy
password prints the lines of the password file.

If a process of the fabric is stopped, for example by a debugger, it keeps its connections,
since its NIC reports that it lives. The connections fail if the NIC reports that the process
has ended, if the NIC does not answer, or after --patience.

A client that reaches the proxy can enter the fabric. --from must therefore be on loopback, on
the fabric, or a unix socket, unless --auth or --insecure is given.`,
		Example: `  weft proxy --from web/0:http --to 127.0.0.1:80       # on the host of the server
  weft proxy --from 127.0.0.1:8080 --to web/0:http     # on a host of its clients
  weft proxy --from web/0:http --to 127.0.0.1:80 --from web/0:ssh --to 127.0.0.1:22
  weft proxy --from 127.0.0.1:1080 --to fabric         # for clients that name their destination:
  curl --proxy socks5h://127.0.0.1:1080 http://http.0.web.weft/
  weft proxy --from 10.0.0.1:1080 --to fabric --auth users   # also for other hosts`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.complete(c.Flags()); err != nil {
				return err
			}
			return f.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	fs := c.Flags()
	fs.StringArrayVar(&f.from, "from", nil, "accept connections at `ADDRESS`; may be repeated")
	fs.StringArrayVar(&f.to, "to", nil, "forward them to `ADDRESS`; once for each --from")
	nameFlag(fs, &f.name, "name",
		"with --to on the fabric: set the process name of the proxy (default: proxy/ and its process id)")
	fs.DurationVar(&f.drain, "drain", 10*time.Second, "keep open connections for `D` after an interrupt")
	fs.StringVar(&f.tell, "status", "",
		"serve weft stat --proxy at the unix socket `PATH` (default: a socket that weft stat --proxies finds)")
	fs.StringVar(&f.auth, "auth", "", "with --to fabric: require clients to authenticate as a user in `FILE`")
	fs.BoolVar(&f.insecure, "insecure", false, "accept connections from other hosts without --auth")
	intFlag(fs, &f.connections, "connections", limits.ProxyConnections, 1, limits.MostProxyConnections,
		"carry at most `N` concurrent connections, and refuse others")
	fs.DurationVar(&f.keepAlive, "keepalive", stream.DefaultKeepAlive,
		"probe a process of the fabric after `D` of silence, 1s or more")
	fs.DurationVar(&f.patience, "patience", stream.DefaultPatience,
		"keep the connections of a stopped process of the fabric for `D`; "+
			"0: end them like those of a silent host")
	f.at.define(fs)
	c.AddCommand(newProxyPassword())
	return c
}

// toFabric is the value of --to for a proxy whose clients name their destination.
const toFabric = "fabric"

// onFabric reports whether an address is on the fabric. TCP addresses have no slash, and paths
// begin with a slash or a dot.
func onFabric(address string) bool {
	return address == toFabric || strings.Contains(address, "/") && !strings.HasPrefix(address, "/") &&
		!strings.HasPrefix(address, ".")
}

// complete checks the combinations of flags.
func (f *proxyFlags) complete(fs *pflag.FlagSet) error {
	if len(f.from) == 0 || len(f.from) != len(f.to) {
		return usagef("--from is given %d times and --to %d times: expected a --to for each --from, "+
			"such as --from 127.0.0.1:8080 --to app/0:http",
			len(f.from), len(f.to))
	}
	for i := range f.from {
		w := proxyWay{from: f.from[i], to: f.to[i]}
		if err := f.completeWay(&w, fs.Changed("name")); err != nil {
			return err
		}
		f.ways = append(f.ways, w)
	}
	if f.name.App == "" && !fs.Changed("name") {
		f.name = toolName("proxy")
	}
	if err := f.completeTimes(); err != nil {
		return err
	}
	if err := f.completeAuth(); err != nil {
		return err
	}
	return f.at.complete()
}

// completeTimes checks the times. Streams check their times once a second.
func (f *proxyFlags) completeTimes() error {
	switch {
	case f.drain < 0:
		return usagef("--drain is %v: expected 0 or more", f.drain)
	case f.keepAlive < time.Second:
		return usagef("--keepalive is %v: expected 1s or more", f.keepAlive)
	case f.patience < 0:
		return usagef("--patience is %v: expected 0 or more", f.patience)
	case f.patience == 0:
		f.patience = -1 // package stream writes none so
	}
	return nil
}

// completeAuth reads the users. It returns an error if other hosts could enter the fabric
// without a password.
func (f *proxyFlags) completeAuth() error {
	if f.auth != "" {
		if err := f.readUsers(); err != nil {
			return err
		}
	}
	for i := range f.ways {
		if err := f.closeDoor(&f.ways[i]); err != nil {
			return err
		}
	}
	return nil
}

// readUsers reads the file of --auth. Only clients of --to fabric can name its users.
func (f *proxyFlags) readUsers() error {
	if !slices.ContainsFunc(f.ways, func(w proxyWay) bool { return w.to == toFabric }) {
		return usagef(
			"--auth with --to %s: expected --to fabric, whose clients can authenticate by SOCKS5 or HTTP CONNECT",
			f.ways[0].to)
	}
	text, err := readPrivate(f.auth, limits.PasswordFileBytes)
	if err != nil {
		return fmt.Errorf("--auth: %w", err)
	}
	if f.users, err = proxy.ParseUsers(string(text)); err != nil {
		return fmt.Errorf("--auth %s: %w", f.auth, err)
	}
	return nil
}

// hostNetwork returns the network of package net for an address of this host.
func hostNetwork(address string) string {
	if strings.ContainsAny(address, "/") {
		return "unix"
	}
	return "tcp"
}

// checkHostSide returns an error if an address of this host is wrong. Without the check, a proxy
// that dials it would fail each connection.
func checkHostSide(address string, dialled bool) error {
	if hostNetwork(address) != "tcp" {
		return proxy.CheckPath(address)
	}
	_, port, err := net.SplitHostPort(address)
	n := 0
	if err == nil {
		n, err = net.LookupPort("tcp", port)
	}
	if err == nil && n == 0 && dialled {
		err = errors.New("port 0 cannot be dialed")
	}
	if err != nil {
		return fmt.Errorf("%w; expected HOST:PORT, such as 127.0.0.1:8080, "+
			"or the path of a unix socket, with a / in it, such as ./a.sock", err)
	}
	return nil
}

func (f *proxyFlags) run(ctx context.Context, out, log io.Writer) (err error) {
	outlivesReaders()
	p, err := f.at.join(ctx, f.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	x := &proxy.Proxy{Drain: f.drain, Connections: f.connections, Log: slog.New(slog.NewTextHandler(log, nil))}
	if err := f.join(p, x); err != nil {
		return err
	}
	stop, err := f.tellStatus(x)
	if err != nil {
		closeWays(x)
		return err
	}
	defer stop() // it also tells while it drains
	where := ""
	if n := p.NIC(); n != nil {
		where = ", with a NIC at " + n.Addr()
	}
	for i, w := range f.ways {
		l := x.Listener
		if i > 0 {
			l = x.More[i-1].Listener
		}
		fmt.Fprintf(out, "%v carries connections from %v to %s%s\n", f.name, l.Addr(), w.to, where)
	}
	err = whileItsNICIs(ctx, p, x.Run)
	c := x.Counts()
	fmt.Fprintf(out, "%d connections: %d failed to dial, %d reset; %d bytes there, %d bytes back\n",
		c.Accepted, c.Refused, c.Reset, c.There, c.Back)
	printTurnedAway(out, &c)
	return err
}

// A proxy looks at its NIC every lookAtNIC, for lookFor. If it waited all the time, one more
// goroutine would have to hand on the data of its streams.
const (
	lookAtNIC = time.Second
	lookFor   = time.Millisecond
)

// whileItsNICIs runs a command until it ends, or until the daemon of its process ends. From then
// on every dial would fail, so the program that restarts commands has to learn of it. An
// embedded NIC does not end before its process.
func whileItsNICIs(ctx context.Context, p *fabric.Process, run func(context.Context) error) error {
	if p.NIC() != nil {
		return run(ctx)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		for p.Runtime().Sleep(ctx, lookAtNIC) == nil {
			within, cancel := p.Runtime().WithTimeout(ctx, lookFor)
			if err := p.Runtime().WaitUntil(within, func() bool { return false }); errors.Is(err, fabric.ErrNICGone) {
				end(err)
			}
			cancel()
		}
	}()
	err := run(ctx)
	if why := context.Cause(ctx); err == nil && errors.Is(why, fabric.ErrNICGone) {
		err = fmt.Errorf("the proxy ends with its NIC: %w", why)
	}
	return err
}

// tellStatus makes the proxy visible to weft stat. If that fails, the proxy still carries
// connections, unless --tell named a path.
func (f *proxyFlags) tellStatus(x *proxy.Proxy) (stop func(), err error) {
	if f.tell != "" {
		return x.Tell(f.tell)
	}
	if stop, err = x.TellHere(); err != nil {
		x.Log.Warn("weft stat will not find this proxy", "err", err)
		return func() {}, nil
	}
	return stop, nil
}
