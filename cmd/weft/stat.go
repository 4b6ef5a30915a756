package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/vni"
)

func init() {
	register(newStatCommand)
	register(newNodesCommand)
	register(newPsCommand)
	register(newGroupsCommand)
}

// nicFlag adds the flag by which tools choose another NIC.
func nicFlag(f *pflag.FlagSet, p *string) {
	f.Var(&checkedFlag{
		kind: "ID",
		want: wantNIC,
		set: func(s string) bool {
			*p = s
			return s != ""
		},
	}, "nic", "ask another NIC, by its ID or name, through the NIC of this host")
}

// wantNIC describes the values of --nic.
const wantNIC = "the id of a NIC, such as 0:0:0:96:221:127:255:140, or the name of one that weft nodes lists"

// nicCalled returns the NIC that --nic names. It returns 0, the NIC of this host, if the flag is
// not given.
func nicCalled(ctx context.Context, conn *ctl.Conn, called string) (registry.NICID, error) {
	if called == "" {
		return 0, nil
	}
	if id, err := registry.ParseNICID(called); err == nil && id != 0 {
		return id, nil
	}
	nodes, err := conn.Nodes(ctx)
	if err != nil {
		return 0, err
	}
	return nicNamed(nodes, called)
}

// nicNamed returns the NIC with a name, among those that this host's NIC knows.
func nicNamed(nodes []ctl.Node, name string) (registry.NICID, error) {
	for _, n := range nodes {
		switch {
		case !strings.EqualFold(n.Name, name):
		case n.ID == 0:
			return 0, neverAnswered(n)
		default:
			return n.ID, nil
		}
	}
	return 0, usagef("--nic %q: expected %s", name, wantNIC)
}

func neverAnswered(n ctl.Node) error {
	return fmt.Errorf("the NIC at %s has never answered, so its id is unknown; see weft nodes", n.Address)
}

// answerWithin is how long a daemon may take to answer a tool.
const answerWithin = 5 * time.Second

// socketHelp is the help of the flag --socket.
const socketHelp = "use the NIC at socket `PATH`; PATH#LINK selects one of its links " +
	"(default: $WEFT_SOCKET, or the user's own NIC, or the host's)"

// socketFlag adds the flag by which tools find the daemon.
func socketFlag(c *cobra.Command, p *string) {
	c.Flags().StringVar(p, "socket", "", socketHelp)
}

type statOptions struct {
	socket string
	nic    string
	json   bool
	all    bool
	watch  time.Duration
	proxy  string

	proxies bool
	peers   bool
	loop    bool
	explain bool
}

func newStatCommand() *cobra.Command {
	o := &statOptions{}
	c := &cobra.Command{
		Use:   "stat [flags] [COUNTER…]",
		Short: "Show the counters of the NIC of this host, or of another one",
		Long: `Shows the counters of the NIC of this host. The command reads them from memory that the NIC
shares, and so does not disturb the NIC. With --nic, each reading takes a message to another
NIC. Counters whose names end in _now are levels. All others only grow.

--explain explains each counter, and names its metric of weft nic --metrics. It needs no NIC.
A COUNTER is the name of a counter or of a metric, or the beginning of several names, such as
drop_.

The last lines show the traffic of each weft proxy that this user runs. --proxies shows the
proxies and their connections instead of a NIC.

--peers shows a line for each peer instead of the counters. P50 and P99 are quantiles of the
measured round trips. TIMEOUT, FAST, TAIL and PATH are retransmissions by cause. With --watch,
the numbers after the first table are the changes since the table before it.

--loop shows the durations of the polls that found work, and the delays of the polls that the NIC
had scheduled. For both, it shows the longest one and its time of day.`,
		Args: func(c *cobra.Command, args []string) error {
			if o.explain {
				return nil
			}
			return cobra.NoArgs(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if o.explain {
				return explainCounters(c.OutOrStdout(), args, o.json)
			}
			return runStat(c.Context(), c.OutOrStdout(), o)
		},
	}
	socketFlag(c, &o.socket)
	f := c.Flags()
	nicFlag(f, &o.nic)
	f.BoolVar(&o.json, "json", false, "print one JSON object for each reading, with every counter")
	f.BoolVar(&o.all, "all", false, "print counters that are 0, too")
	f.StringVar(&o.proxy, "proxy", "",
		"show the connections of the weft proxy whose --status is `PATH`, instead of a NIC")
	f.BoolVar(&o.proxies, "proxies", false,
		"show the connections of each weft proxy that this user runs, instead of a NIC")
	durationFlag(f, &o.watch, "watch", 0, 10*time.Millisecond, time.Hour,
		"read repeatedly at this interval, and print the changes (default: once)")
	f.BoolVar(&o.peers, "peers", false,
		"show the counters of each peer of the NIC of this host: round trips, losses by cause, traffic")
	f.BoolVar(&o.loop, "loop", false,
		"show the durations and the delays of the polls of the NIC of this host")
	f.BoolVar(&o.explain, "explain", false, "explain each COUNTER (default: all), and exit")
	for _, other := range []string{"socket", "nic", "watch"} {
		atMostOne(c, "proxy", "proxies", "explain", other)
	}
	for _, other := range []string{"peers", "loop"} {
		atMostOne(c, "proxy", "proxies", "explain", other)
	}
	for _, other := range []string{"nic", "all"} {
		atMostOne(c, "peers", "loop", other)
	}
	atMostOne(c, "explain", "all")
	return c
}

// reading holds the values of all counters at one time.
type reading struct {
	// of the NIC at that time: it may be in another life than at the last reading
	info   *ctl.Info
	at     time.Time
	values []uint64
	peers  []vni.Peer // with --peers
	loop   *vni.Loop  // with --loop
}

// A statSource makes a reading. It fails when the NIC is gone.
type statSource func(ctx context.Context) (reading, error)

// ownStat reads the counters of the daemon's NIC in its shared memory.
func ownStat(ctx context.Context, conn *ctl.Conn, o *statOptions) (statSource, error) {
	_, mem, _, err := conn.Stat(ctx) // mapped for as long as the program runs
	if err != nil {
		return nil, err
	}
	page, err := vni.OpenCounterPage(mem)
	if err != nil {
		return nil, err
	}
	more, err := moreOf(mem, o)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (reading, error) {
		// the daemon must still run: its memory would stay readable without it
		info, _, unmap, err := conn.Stat(ctx)
		if err != nil {
			return reading{}, err
		}
		r := reading{info: info, at: time.Now(), values: make([]uint64, len(vni.Names()))}
		for i := range r.values {
			r.values[i] = page.Load(vni.Counter(i))
		}
		if err := more(&r); err != nil {
			return reading{}, errors.Join(err, unmap())
		}
		return r, unmap()
	}, nil
}

// farStat asks another NIC for each reading. A counter that the NIC does not have is 0.
func farStat(n ctl.NIC) statSource {
	return func(ctx context.Context) (reading, error) {
		info, counters, err := n.Counters(ctx)
		r := reading{info: info, at: time.Now()}
		for _, name := range vni.Names() {
			r.values = append(r.values, counters[name])
		}
		return r, err
	}
}

func runStat(ctx context.Context, out io.Writer, o *statOptions) error {
	dialing, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	switch {
	case o.proxies:
		return statProxies(ctx, out, o)
	case o.proxy != "":
		return statProxy(dialing, out, o)
	}
	conn, err := ctl.Dial(dialing, o.socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	id, err := nicCalled(dialing, conn, o.nic)
	if err != nil {
		return err
	}
	source := farStat(conn.NIC(uint64(id)))
	if id == 0 {
		if source, err = ownStat(dialing, conn, o); err != nil {
			return err
		}
	}
	if err := watchStat(ctx, out, o, source); err != nil || o.json || o.peers || o.loop || id != 0 || o.watch != 0 {
		return err
	}
	return statProxies(ctx, out, o)
}

// watchStat prints one reading, or one per interval with --watch.
func watchStat(ctx context.Context, out io.Writer, o *statOptions, source statSource) error {
	now, err := readWithin(ctx, source)
	if err == nil {
		err = printStat(out, o, nil, &now)
	}
	if err != nil || o.watch == 0 {
		return err
	}
	tick := time.NewTicker(o.watch)
	defer tick.Stop()
	for last := now; ; last = now {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if now, err = readWithin(ctx, source); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := printStat(out, o, &last, &now); err != nil {
			return err
		}
	}
}

func readWithin(ctx context.Context, source statSource) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return source(ctx)
}

// printStat prints a reading. If there is an earlier one, it prints the changes since then. A
// NIC that has restarted counts from 0 again, so its reading is printed in full.
func printStat(out io.Writer, o *statOptions, last, now *reading) error {
	info := now.info
	switch {
	case o.json && o.peers:
		return printPeersJSON(out, now)
	case o.json && o.loop:
		return printLoopJSON(out, now)
	case o.json:
		return printStatJSON(out, now)
	}
	var text bytes.Buffer
	if last != nil && last.info.Incarnation != info.Incarnation {
		last = nil
	}
	if last == nil {
		fmt.Fprintf(&text, "NIC %v at %s over %s%s, incarnation %d, up %v, weft %s, commit %s\n",
			registry.NICID(info.NIC), info.Address, linkText(info), plainText(info), info.Incarnation,
			time.Since(time.Unix(0, info.Started)).Round(time.Second), info.Version, info.Commit)
	} else {
		fmt.Fprintf(&text, "%s\n", now.at.Format("15:04:05.000"))
	}
	switch {
	case o.peers:
		return printPeers(out, &text, last, now)
	case o.loop:
		return printLoop(out, &text, last, now)
	}
	for i, name := range vni.Names() {
		v := now.values[i]
		switch {
		case last == nil && (v != 0 || o.all):
			fmt.Fprintf(&text, "%14d  %s\n", v, name)
		case last != nil && strings.HasSuffix(name, "_now") && (v != 0 || o.all):
			fmt.Fprintf(&text, "%14d  %14s  %s\n", v, "", name)
		case last != nil && (v != last.values[i] || o.all):
			grown := v - last.values[i]
			fmt.Fprintf(&text, "%+14d  %12.0f/s  %s\n", grown, float64(grown)/now.at.Sub(last.at).Seconds(), name)
		}
	}
	_, err := out.Write(text.Bytes())
	return err
}

// linkText returns the name of a NIC's link, and its kind if that is another word.
func linkText(info *ctl.Info) string {
	if info.Network == "" || info.Network == info.Link {
		return info.Link
	}
	return info.Network + " (" + info.Link + ")"
}

// plainText marks a NIC whose links are plain.
func plainText(info *ctl.Info) string {
	if info.Guard == ctl.GuardPlain {
		return " (PLAIN: neither encrypted nor authenticated)"
	}
	return ""
}

// printStatJSON prints one object on one line: time, NIC, and the counters by name.
func printStatJSON(out io.Writer, now *reading) error {
	info := now.info
	counters := make(map[string]uint64, len(now.values))
	for i, name := range vni.Names() {
		counters[name] = now.values[i]
	}
	return json.NewEncoder(out).Encode(struct {
		Time time.Time      `json:"time"`
		NIC  registry.NICID `json:"nic"`
		// as in weft nodes: most readers of JSON take a number for a float64
		Incarnation uint64            `json:"incarnation,string"`
		Address     string            `json:"address"`
		Network     string            `json:"network"`
		Link        string            `json:"link"`
		Guard       string            `json:"guard"`
		Key         string            `json:"key"`
		Fabric      string            `json:"fabric,omitempty"`
		Version     string            `json:"version"`
		Commit      string            `json:"commit"`
		PID         int               `json:"pid"`
		Started     time.Time         `json:"started"`
		Counters    map[string]uint64 `json:"counters"`
	}{now.at, registry.NICID(info.NIC), info.Incarnation, info.Address, info.Network, info.Link, info.Guard, info.Key,
		info.Fabric, info.Version, info.Commit, info.PID, time.Unix(0, info.Started), counters})
}
