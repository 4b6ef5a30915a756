package netmem

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/sim"
)

// Each limit of a server's configuration is allowed itself, and the next value is refused. After
// a refusal the process can start another server, which has its defaults.
func TestTheLimitsOfAServerAreAllowed(t *testing.T) {
	const bytes = 4 * hsn.MaxPage
	spill := filepath.Join(t.TempDir(), "spill")
	f := sim.New(sim.Config{Seed: 1, NICs: 1})
	f.Process(0, "memory/0", func(sp *sim.Process) (err error) {
		for _, c := range []struct {
			what   string
			change func(c *ServerConfig)
			ok     bool
		}{
			{"no bytes", func(c *ServerConfig) { c.Bytes = 0 }, false},
			{"fewer than none", func(c *ServerConfig) { c.Bytes = -hsn.MaxPage }, false},
			{"one page", func(c *ServerConfig) { c.Bytes = hsn.MaxPage }, true},
			{"a page and a byte", func(c *ServerConfig) { c.Bytes = hsn.MaxPage + 1 }, false},
			{"Keep at its limit", func(c *ServerConfig) { c.Keep = KeepLeast }, true},
			{"Keep below it", func(c *ServerConfig) { c.Keep = KeepLeast - 1 }, false},
			{"Shelve at its limit", func(c *ServerConfig) { c.Shelve = KeepLeast }, true},
			{"Shelve below it", func(c *ServerConfig) { c.Shelve = KeepLeast - 1 }, false},
			{"a negative Shelve", func(c *ServerConfig) { c.Shelve = -1 }, false},
			{"a quota of all", func(c *ServerConfig) { c.QuotaBytes = bytes }, true},
			{"a quota of a byte more", func(c *ServerConfig) { c.QuotaBytes = bytes + 1 }, false},
			{"a negative quota", func(c *ServerConfig) { c.QuotaBytes = -1 }, false},
			{"a quota of the memory and the file", func(c *ServerConfig) { c.Spill, c.QuotaBytes = spill, 2*bytes }, true},
			{"a quota of a byte more than both", func(c *ServerConfig) { c.Spill, c.QuotaBytes = spill, 2*bytes+1 }, false},
			{"a file of one page", func(c *ServerConfig) { c.Spill, c.SpillBytes = spill, hsn.MaxPage }, true},
			{"a file of less than a page", func(c *ServerConfig) { c.Spill, c.SpillBytes = spill, hsn.MaxPage-1 }, false},
			{"a negative file", func(c *ServerConfig) { c.Spill, c.SpillBytes = spill, -hsn.MaxPage }, false},
			{"no file of a page", func(c *ServerConfig) { c.SpillBytes = hsn.MaxPage }, false},
		} {
			cfg := ServerConfig{Bytes: bytes}
			c.change(&cfg)
			s, failed := Serve(sp.Weft(), cfg)
			if c.ok != (failed == nil) || !c.ok && !errors.Is(failed, weft.ErrBadArgument) {
				err = errors.Join(err, fmt.Errorf("%s: %w", c.what, failed))
			}
			if s == nil {
				continue
			}
			st := s.Stats()
			if cfg.Spill != "" && cfg.SpillBytes == 0 {
				cfg.SpillBytes = bytes
			}
			if s.cfg.Keep != max(cfg.Keep, KeepLeast) && s.cfg.Keep != KeepUsual || st.SpillBytes != cfg.SpillBytes || st.UsedBytes != 0 || st.QuotaBytes != cfg.QuotaBytes {
				err = errors.Join(err, fmt.Errorf("%s: the server keeps for %v and has %+v", c.what, s.cfg.Keep, st))
			}
			if _, failed := Serve(sp.Weft(), cfg); !errors.Is(failed, weft.ErrPortInUse) {
				err = errors.Join(err, fmt.Errorf("%s: a second server: %w", c.what, failed))
			}
			s.Close()
			sleep(sp, 10*time.Millisecond)
		}
		return err
	})
	if err := f.Run(time.Minute); err != nil {
		t.Error(err)
	}
}

// The same holds for the configuration of a client.
func TestTheLimitsOfAClientAreAllowed(t *testing.T) {
	for _, c := range []struct {
		what    string
		servers int
		change  func(c *ClientConfig)
		want    Code // zero: refused
	}{
		{"no servers", 0, func(*ClientConfig) {}, Code{}},
		{"the defaults", 1, func(*ClientConfig) {}, Code{1, 0}},
		{"a copy on each server", 3, func(c *ClientConfig) { c.Copies = 3 }, Code{1, 2}},
		{"a copy too many", 3, func(c *ClientConfig) { c.Copies = 4 }, Code{}},
		{"fewer copies than none", 3, func(c *ClientConfig) { c.Copies = -1 }, Code{}},
		{"the smallest code", 3, func(c *ClientConfig) { c.Coding = Code{2, 1} }, Code{2, 1}},
		{"the smallest code on too few servers", 2, func(c *ClientConfig) { c.Coding = Code{2, 1} }, Code{}},
		{"one data shard", 9, func(c *ClientConfig) { c.Coding = Code{1, 1} }, Code{}},
		{"no parity", 9, func(c *ClientConfig) { c.Coding = Code{2, 0} }, Code{}},
		{"copies and shards", 9, func(c *ClientConfig) { c.Copies, c.Coding = 2, Code{2, 1} }, Code{}},
		{"most shards", 40, func(c *ClientConfig) { c.Coding = Code{maxShards - 1, 1} }, Code{maxShards - 1, 1}},
		{"more data shards", 40, func(c *ClientConfig) { c.Coding = Code{maxShards, 1} }, Code{}},
		{"more parity shards", 40, func(c *ClientConfig) { c.Coding = Code{2, maxShards - 1} }, Code{}},
		{"numbers whose sum overflows", 40, func(c *ClientConfig) { c.Coding = Code{2, math.MaxInt} }, Code{}},
		{"a negative Retry", 1, func(c *ClientConfig) { c.Retry = -1 }, Code{}},
		{"a negative Hedge", 1, func(c *ClientConfig) { c.Hedge = -1 }, Code{}},
		{"a negative Dead", 1, func(c *ClientConfig) { c.Dead = -1 }, Code{}},
		{"a negative RepairBytes", 1, func(c *ClientConfig) { c.RepairBytes = -1 }, Code{}},
	} {
		cfg := ClientConfig{Servers: make([]ServerRef, c.servers)}
		c.change(&cfg)
		err := cfg.complete()
		var code Code
		if err == nil {
			code, err = cfg.code()
		}
		if c.want == (Code{}) && !errors.Is(err, weft.ErrBadArgument) || c.want != (Code{}) && (err != nil || code != c.want) {
			t.Errorf("%s: %v, %v; expected %v", c.what, code, err, c.want)
		}
	}
	cfg := ClientConfig{}
	if err := cfg.complete(); err != nil || cfg.Retry != 2*time.Millisecond || cfg.Hedge != time.Millisecond || cfg.Dead != 500*time.Millisecond || cfg.RepairBytes != 64<<20 || cfg.PageBytes != 4096 || cfg.Copies != 1 {
		t.Errorf("the defaults are %+v (%v)", cfg, err)
	}
	cfg = ClientConfig{Retry: 1, Hedge: 1, Dead: 1, RepairBytes: 1, PageBytes: 8192, Copies: 5}
	if err := cfg.complete(); err != nil || cfg.Retry != 1 || cfg.Hedge != 1 || cfg.Dead != 1 || cfg.RepairBytes != 1 || cfg.PageBytes != 8192 || cfg.Copies != 5 {
		t.Errorf("values of the caller have become %+v (%v)", cfg, err)
	}
	for w, ok := range map[float64]bool{0: true, 0.001: true, -0.001: false, math.Inf(1): false, math.NaN(): false} {
		if s, err := newServer(ServerRef{Weight: w}); ok != (err == nil) || w == 0 && s.Weight != 1 {
			t.Errorf("a weight of %v: %v", w, err)
		}
	}
}
