package netmem_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
	"github.com/weftnet/weft/sim"
)

func TestArgumentsThatMakeNoSenseAreErrBadArgument(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	refs, _ := servers(f, 1, 10)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		ctx, p := context.Background(), sp.Weft()
		open := func(bytes int64, depth int) error {
			_, err := netmem.Open(ctx, p, netmem.VolumeConfig{
				ClientConfig: netmem.ClientConfig{Servers: refs}, Bytes: bytes, Depth: depth})
			return err
		}
		client := func(cfg netmem.ClientConfig) error {
			_, err := netmem.NewClient(ctx, p, cfg)
			return err
		}
		serve := func(cfg netmem.ServerConfig) error {
			_, err := netmem.Serve(p, cfg)
			return err
		}
		weighs := []netmem.ServerRef{{Name: refs[0].Name, Weight: -1}}
		bad := map[string]error{
			"a volume of 1 byte":         open(1, 0),
			"a volume of depth -1":       open(8192, -1),
			"a client without servers":   client(netmem.ClientConfig{}),
			"two copies on one server":   client(netmem.ClientConfig{Servers: refs, Copies: 2}),
			"one shard":                  client(netmem.ClientConfig{Servers: refs, Coding: netmem.Code{Data: 1, Parity: 1}}),
			"pages of 5 bytes":           client(netmem.ClientConfig{Servers: refs, PageBytes: 5}),
			"a negative time":            client(netmem.ClientConfig{Servers: refs, Dead: -1}),
			"a negative rate of repair":  client(netmem.ClientConfig{Servers: refs, RepairBytes: -1}),
			"a negative weight":          client(netmem.ClientConfig{Servers: weighs}),
			"a server of 1 byte":         serve(netmem.ServerConfig{Bytes: 1}),
			"a server that keeps for 1s": serve(netmem.ServerConfig{Bytes: 8192, Keep: time.Second}),
			"a spill file without name":  serve(netmem.ServerConfig{Bytes: 8192, SpillBytes: 8192}),
			"a quota above all":          serve(netmem.ServerConfig{Bytes: 8192, QuotaBytes: 8193}),
		}
		c, err := netmem.NewClient(ctx, p, netmem.ClientConfig{Servers: refs})
		if err != nil {
			return err
		}
		bad["a page written from 5 bytes"] = c.WritePage(ctx, 0, make([]byte, 5))
		bad["a page read into 5 bytes"] = c.ReadPage(ctx, 0, make([]byte, 5))
		bad["a server that is used already"] = c.AddServer(ctx, refs[0])
		bad["a server that is not used"] = c.RemoveServer(ctx, weft.Name{App: "other"})
		c.Close()
		v, err := netmem.Open(ctx, p, netmem.VolumeConfig{ClientConfig: netmem.ClientConfig{Servers: refs}, Bytes: 8192})
		if err != nil {
			return err
		}
		defer v.Close()
		_, bad["a read at -1"] = v.ReadAt(make([]byte, 1), -1)
		_, bad["a write beyond the end"] = v.WriteAt(make([]byte, 2), 8191)
		bad["a discard beyond the end"] = v.Discard(ctx, 8192, 1)
		for what, err := range bad {
			if !errors.Is(err, weft.ErrBadArgument) {
				return fmt.Errorf("%s: %v; want ErrBadArgument", what, err)
			}
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestAVolumeThatTheServersHaveNoRoomForIsErrFull(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	refs, _ := servers(f, 1, 10)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		_, err := netmem.Open(context.Background(), sp.Weft(), netmem.VolumeConfig{
			ClientConfig: netmem.ClientConfig{Servers: refs}, Bytes: 11 * 8192})
		if !errors.Is(err, netmem.ErrFull) || errors.Is(err, weft.ErrBadArgument) {
			return fmt.Errorf("%v; want ErrFull", err)
		}
		// The refused volume has left nothing behind, so the process may open a smaller one.
		v, err := netmem.Open(context.Background(), sp.Weft(), netmem.VolumeConfig{
			ClientConfig: netmem.ClientConfig{Servers: refs}, Bytes: 4 * 8192})
		if err != nil {
			return fmt.Errorf("a volume after the refused one: %w", err)
		}
		v.Close()
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}
