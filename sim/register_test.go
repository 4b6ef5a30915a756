package sim_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// A simulated NIC uses memory that the application already has, with the given rights.
func TestSimulatedProcessesRegisterTheirMemory(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	mem := []byte("what others may read only")
	// The channel is filled before it is read, because nothing in virtual time waits for a
	// channel.
	handles := make(chan weft.Handle, 1)
	f.Process(0, "a/0", func(p *sim.Process) error {
		r, err := p.Register(mem, weft.ReadOnly)
		if err != nil {
			return err
		}
		handles <- r.Handle()
		if err := p.Peer(weft.Name{App: "b"}).SendDelivered(context.Background(), 1); err != nil {
			return err
		}
		_, err = p.Recv(context.Background(), weft.Name{App: "b"}, 1, nil)
		return err
	})
	f.Process(1, "b/0", func(p *sim.Process) error {
		if _, err := p.Recv(context.Background(), weft.Name{App: "a"}, 1, nil); err != nil {
			return err
		}
		h, got := <-handles, make([]byte, len(mem))
		if err := p.Get(context.Background(), h, 0, got); err != nil || string(got) != string(mem) {
			t.Errorf("get: %q, %v", got, err)
		}
		if err := p.Put(context.Background(), h, 0, got); !errors.Is(err, weft.ErrRegion) {
			t.Errorf("put into memory that is registered as ReadOnly: %v; expected ErrRegion", err)
		}
		return p.Send(context.Background(), weft.Name{App: "a"}, 1)
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

// The same holds for a part of a file.
func TestSimulatedProcessesRegisterFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := sim.New(sim.Config{Seed: 1})
	handles := make(chan weft.Handle, 1)
	f.Process(0, "a/0", func(p *sim.Process) error {
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		r, err := p.Weft().RegisterFile(file, 2, 5, weft.ReadWrite)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
		handles <- r.Handle()
		if err := p.Peer(weft.Name{App: "b"}).SendDelivered(context.Background(), 1); err != nil {
			return err
		}
		if _, err = p.Recv(context.Background(), weft.Name{App: "b"}, 1, nil); err != nil {
			return err
		}
		return r.Close()
	})
	f.Process(1, "b/0", func(p *sim.Process) error {
		if _, err := p.Recv(context.Background(), weft.Name{App: "a"}, 1, nil); err != nil {
			return err
		}
		if err := p.Put(context.Background(), <-handles, 1, []byte("abc")); err != nil {
			return err
		}
		return p.Send(context.Background(), weft.Name{App: "a"}, 1)
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(name); err != nil || string(data) != "012abc6789" {
		t.Errorf("the file has %q, %v", data, err)
	}
}

func TestASimulatedProcessGetsNoRegionThatIsTooLarge(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	f.Process(0, "a/0", func(p *sim.Process) error {
		if _, err := p.Weft().Alloc(64 << 30); !errors.Is(err, weft.ErrNoMemory) {
			t.Errorf("64 GiB: %v; expected ErrNoMemory", err)
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}
