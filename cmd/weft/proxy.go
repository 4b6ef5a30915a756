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
		Short: "Carry connections of programs that know TCP or unix sockets over the fabric",
		Long: `Accepts connections at one address and carries each to the other, until it is
interrupted. One of the two is a service of a process of the fabric, as in app/0:http,
and the other a TCP address, as in 127.0.0.1:8080, or the path of a unix socket, in
which there is a /.

With --from on the fabric the proxy is that process, and what it carries goes to a
server of this host. With --to on the fabric it serves the clients of this host. The end
of each direction is passed on by itself, and a failure as a failure. At a unix socket
a failure may look like an orderly end, since the kernel resets one only if bytes are
unread: what must tell the two apart should use TCP.

A proxy carries several ways if --from and --to are repeated: the first --from goes to the
first --to, and so on. All services of --from are then of one process, since a proxy is one
process of the fabric.

With --to fabric each client says where it wants to go, by SOCKS5 or by HTTP CONNECT:
the host http.0.web.weft is the service web/0:http, and port 80 of the host 0.web.weft is
the service web/0:80. With --auth the client authenticates by user and password. The
command weft proxy password prints the lines of that file.

A process of the fabric that is stopped, for example by a debugger, keeps its connections:
its NIC says that it lives. They fail if the NIC says that the process ended, if the NIC
does not answer, or after --patience.

A client that reaches the proxy enters the fabric by it. So --from must be on loopback,
on the fabric, or a unix socket, unless there is --auth or --insecure.`,
		Example: `  weft proxy --from web/0:http --to 127.0.0.1:80       # where the server is
  weft proxy --from 127.0.0.1:8080 --to web/0:http     # where its clients are
  weft proxy --from web/0:http --to 127.0.0.1:80 --from web/0:ssh --to 127.0.0.1:22
  weft proxy --from 127.0.0.1:1080 --to fabric         # or for clients that can ask:
  curl --proxy socks5h://127.0.0.1:1080 http://http.0.web.weft/
  weft proxy --from 10.0.0.1:1080 --to fabric --auth users   # for those of other hosts`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.complete(c.Flags()); err != nil {
				return err
			}
			return f.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	fs := c.Flags()
	fs.StringArrayVar(&f.from, "from", nil, "`ADDRESS` at which to accept connections; may be repeated")
	fs.StringArrayVar(&f.to, "to", nil, "`ADDRESS` to which they go; as often as --from")
	nameFlag(fs, &f.name, "name",
		"with --to on the fabric: what the proxy is called there (default: proxy/ and its process id)")
	fs.DurationVar(&f.drain, "drain", 10*time.Second, "after an interrupt, open connections may go on for `D`")
	fs.StringVar(&f.tell, "status", "",
		"`PATH` of a unix socket at which weft stat --proxy finds the connections (default: where weft stat --proxies looks)")
	fs.StringVar(&f.auth, "auth", "", "with --to fabric: clients authenticate as users of this `FILE`")
	fs.BoolVar(&f.insecure, "insecure", false, "accept connections of other hosts without --auth")
	intFlag(fs, &f.connections, "connections", limits.ProxyConnections, 1, limits.MostProxyConnections,
		"carry at most `N` connections at once, and refuse others")
	fs.DurationVar(&f.keepAlive, "keepalive", stream.DefaultKeepAlive,
		"ask a process of the fabric that is silent for `D` whether it is there; 1s or more")
	fs.DurationVar(&f.patience, "patience", stream.DefaultPatience,
		"carry on for `D` with a process of the fabric that is stopped but lives; 0: end its connections like those of a silent host")
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
		return usagef("--from is given %d times and --to %d times: expected a --to for each --from, such as --from 127.0.0.1:8080 --to app/0:http",
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
		err = errors.New("nothing can be dialled at port 0")
	}
	if err != nil {
		return fmt.Errorf("%w; expected HOST:PORT, as in 127.0.0.1:8080, or the path of a unix socket, with a / in it, as in ./a.sock",
			err)
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
	fmt.Fprintf(out, "%d connections, of which %d could not be dialled and %d were reset; %d bytes there, %d back\n",
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
