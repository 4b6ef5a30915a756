package weft

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/environ"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/pmi"
	"github.com/weftnet/weft/internal/trust"
)

// The ranks of a launcher with PMI-1 find each other by the launcher's key-value space:
//
//	rank 0   draws a fabric key, and puts it under jobKey
//	         ── barrier ──
//	all      get the key, open their NICs, and put id and address under nicKey and their rank
//	         ── barrier ──
//	all      get the others' ids and addresses, and finalize
const (
	jobKey = "weft-fabric-key"
	nicKey = "weft-nic-"
	ownKey = "own" // value of jobKey if rank 0 has a fabric key from elsewhere
)

// dial connects to the launcher's PMI server, and asks it for the values that the environment
// lacks.
func (l *launched) dial(ctx context.Context) (c *pmi.Client, err error) {
	if c, err = pmi.Dial(ctx, pmi.At{FD: l.pmi.FD, Port: l.pmi.Port, ID: l.pmi.ID}); err != nil {
		return nil, fmt.Errorf("weft: %w", err)
	}
	if rank, size, told := c.Place(); told && l.place.Size == 0 {
		if size < 1 || size > limits.GroupMembers || rank < 0 || rank >= size {
			err = argument(fmt.Errorf("weft: the PMI server at %s says rank %d of %d; expected a rank of at most %d",
				l.pmi.Port, rank, size, limits.GroupMembers))
			return nil, errors.Join(err, c.Close())
		}
		l.place.Rank, l.place.Size, l.name.Index = rank, size, uint32(rank)
	}
	if l.name.App == "" {
		l.name.App = environ.Application(c.Name(), "")
	}
	return c, nil
}

// learnName asks the PMI server for the name of the job, if only this server knows it.
func (l *launched) learnName(ctx context.Context) error {
	if l.name.App != "" || l.pmi.None() {
		return nil
	}
	c, err := l.dial(ctx)
	if err != nil {
		return err
	}
	return c.Finalize(ctx)
}

// open opens the NIC of a process that a launcher started. If the launcher has a PMI server, and if
// the configuration names no other NICs, the NIC knows the NICs of all ranks.
func (l *launched) open(ctx context.Context, cfg *Config) (n *NIC, err error) {
	if l.pmi.None() || l.place.Size == 1 || len(cfg.Nodes) > 0 || cfg.Link.sw != nil {
		if err := l.learnName(ctx); err != nil {
			return nil, err
		}
		return OpenNIC(ctx, *cfg)
	}
	c, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	// A rank that fails closes its connection without finalizing. The launcher then ends all
	// ranks, because the others would wait in a barrier. Before that, this rank has time to print
	// the error.
	if n, err = l.openAmongRanks(ctx, cfg, c); err != nil {
		time.AfterFunc(lastWords, func() { _ = c.Close() })
		return nil, err
	}
	if err = c.Finalize(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("weft: %w", err), n.Close())
	}
	return n, nil
}

// lastWords is the time that a failing rank keeps running, at least.
const lastWords = time.Second

// openAmongRanks opens the NIC, and exchanges keys and addresses with the other ranks.
func (l *launched) openAmongRanks(ctx context.Context, cfg *Config, c *pmi.Client) (*NIC, error) {
	near, err := c.OneHost(ctx)
	if err != nil {
		return nil, fmt.Errorf("weft: %w", err)
	}
	if err := l.agreeOnKey(ctx, cfg, c); err != nil {
		return nil, fmt.Errorf("weft: job key: %w", err)
	}
	host := "127.0.0.1"
	if !near {
		a, err := pmi.HostAddress(ctx)
		if err != nil {
			return nil, fmt.Errorf("weft: Config.Link is empty: %w", err)
		}
		host = a.String()
	}
	if cfg.Link == (Link{}) {
		cfg.Link = UDP(netip.AddrPortFrom(netip.MustParseAddr(host), 0).String())
	}
	n, err := OpenNIC(ctx, *cfg)
	if err != nil {
		return nil, err
	}
	if err := l.introduce(ctx, n, host, c); err != nil {
		return nil, errors.Join(fmt.Errorf("weft: NICs of the other ranks: %w", err), n.Close())
	}
	return n, nil
}

// agreeOnKey gives all ranks one fabric key that rank 0 draws. A rank keeps its own key if its
// fabric key comes from a file, or if it needs no key. All ranks enter the barrier.
func (l *launched) agreeOnKey(ctx context.Context, cfg *Config, c *pmi.Client) error {
	own := cfg.Plain || cfg.Fabric != "" || os.Getenv(fabric.FileVariable) != ""
	if l.place.Rank == 0 {
		text := ownKey
		if !own {
			k, err := trust.NewFabricKey(rand.Reader)
			if err != nil {
				return err
			}
			text = k.Text()
		}
		if err := c.Put(ctx, jobKey, text); err != nil {
			return err
		}
	}
	if err := c.Barrier(ctx); err != nil {
		return err
	}
	text, err := c.Get(ctx, jobKey)
	switch {
	case err != nil:
		return err
	case own != (text == ownKey):
		return fmt.Errorf("rank 0 and rank %d differ: all ranks or none must have Config.Plain, Config.Fabric or $%s",
			l.place.Rank, fabric.FileVariable)
	case own:
		return nil
	}
	k, err := trust.ParseFabricKey(text)
	if err != nil {
		return err
	}
	cfg.jobKey = []trust.FabricKey{k}
	if !l.life.Proves() {
		l.life.Key = k.Derive("weft job key")
	}
	return nil
}

// introduce publishes the id and the address of this NIC to the other ranks, and adds the other
// ranks' NICs to this NIC. host replaces the address of a NIC that listens at every address of
// its host.
func (l *launched) introduce(ctx context.Context, n *NIC, host string, c *pmi.Client) error {
	addr := n.Addr()
	if a, err := netip.ParseAddrPort(addr); err == nil && a.Addr().IsUnspecified() {
		addr = netip.AddrPortFrom(netip.MustParseAddr(host), a.Port()).String()
	}
	if err := c.Put(ctx, nicKey+strconv.Itoa(l.place.Rank), n.ID().String()+","+addr); err != nil {
		return err
	}
	if err := c.Barrier(ctx); err != nil {
		return err
	}
	for _, rank := range peersOf(l.place.Rank, l.place.Size) {
		text, err := c.Get(ctx, nicKey+strconv.Itoa(rank))
		if err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		id, addr, _ := strings.Cut(text, ",")
		nicID, err := ParseNICID(id)
		if err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		if err := n.AddNode(Node{ID: nicID, Addr: addr}); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	return nil
}

// allPeers is the number of ranks up to which a NIC learns all others from the launcher. A
// launcher answers requests one by one, so the time for all ranks grows with the square of their
// number. In larger jobs each NIC learns a few others, and these tell it about the rest.
const allPeers = 128

// peersOf returns the ranks whose NICs a rank learns from the launcher: all others, or those at
// distances of powers of two.
func peersOf(rank, size int) (peers []int) {
	for d := 1; d < size; {
		peers = append(peers, (rank+d)%size)
		if size <= allPeers {
			d++
		} else {
			d *= 2
		}
	}
	return peers
}
