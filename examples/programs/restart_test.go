package programs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/weftnet/weft"
	nicprogram "github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/program"
	"github.com/weftnet/weft/sim"
)

// Each of these tests runs on a link that loses, repeats and reorders. One of the NICs restarts
// in the middle, without its former state.

const (
	restartsAt = 2 * time.Second
	restarted  = restartsAt + 500*time.Millisecond
	seeds      = 3
)

// reboots restarts a host's NIC and processes. setUp sets the NIC up, at first and after the
// restart.
func reboots(f *sim.Fabric, host int, setUp func()) {
	setUp()
	f.After(restartsAt, func() {
		f.Reboot(host, time.Hour) // at the latest
		f.After(restarted-restartsAt, func() {
			f.StartNIC(host)
			setUp()
		})
	})
}

// A shared segment is segment 1 of a NIC.
type shared struct{ mem []byte }

func segment(t *testing.T, f *sim.Fabric, host, size int) *shared {
	t.Helper()
	words := make([]uint64, (size+nicprogram.SegmentTail)/8)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	if err := simulated.Engine(f, host).Programs().AddSegment(1, mem); err != nil {
		t.Fatal(err)
	}
	return &shared{mem}
}

// told waits until flag 0 is set, and clears it. It returns false if the flag is not set in time.
func (s *shared) told(p *sim.Process, within time.Duration) bool {
	_, flags := nicprogram.SegmentSync(s.mem)
	rt := p.Runtime()
	for end := rt.Now().Add(within); rt.Now().Before(end); sleep(p, 100*time.Microsecond) {
		if atomic.SwapUint32(&flags[0], 0) != 0 {
			return true
		}
	}
	return false
}

// pattern fills b with bytes that depend on n.
func pattern(b []byte, n int) {
	for i := range b {
		b[i] = byte(n*31 + i*7)
	}
}

// each runs a test with several seeds, and fails it if the run does not end.
func each(t *testing.T, hosts int, body func(t *testing.T, f *sim.Fabric)) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
			f := sim.New(sim.Config{Seed: seed + 1, NICs: hosts, Faults: sim.Faults{Loss: 0.03, Duplicate: 0.03, Reorder: 0.03}})
			body(t, f)
			if err := f.Run(5 * time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
}

// sleep sleeps for d of virtual time.
func sleep(p *sim.Process, d time.Duration) { p.Runtime().Sleep(context.Background(), d) }

// number returns the word by which programs send to a process.
func number(p *sim.Process) uint64 { return uint64(program.On(p.Weft()).Number()) }

// handled sends a message to a program of the own NIC, and waits until the program has handled
// it.
func handled(p *sim.Process, id program.ID, trigger uint32, message ...uint64) error {
	return program.On(p.Weft()).SendHandled(context.Background(), program.Address{ID: id}, trigger, words(message...))
}

func TestGetDeliverBringsBackWhatWasInTheSegment(t *testing.T) { // PANIC-42
	each(t, 2, func(t *testing.T, f *sim.Fabric) {
		load(t, f, 0, 411, "getdeliver.pdl")
		mine := segment(t, f, 0, 8192)
		reboots(f, 1, func() {
			load(t, f, 1, 410, "deliverget.pdl")
			segment(t, f, 1, 4096)
		})
		before, after := 0, 0
		f.Process(0, "app/0", func(p *sim.Process) error {
			rt := p.Runtime()
			begin := rt.Now()
			for n := 0; rt.Now().Sub(begin) < 2*restarted; n++ {
				size := 1 + n*97%4096
				pattern(mine.mem[:size], n)
				clear(mine.mem[4096:8192])
				if err := handled(p, 411, 1, uint64(sim.NICID(1)), uint64(size)); err != nil && !errors.Is(err, weft.ErrProgramFailed) {
					return err
				}
				if !mine.told(p, time.Second) {
					continue // the other NIC does not have it any more
				}
				if !bytes.Equal(mine.mem[4096:4096+size], mine.mem[:size]) {
					return fmt.Errorf("exchange %d of %d bytes brings back something else", n, size)
				}
				if rt.Now().Sub(begin) < restartsAt {
					before++
				} else {
					after++
				}
				sleep(p, time.Millisecond)
			}
			return nil
		})
		f.After(2*restarted+time.Minute, func() {
			if before < 100 || after < 100 {
				t.Errorf("%d exchanges before the other NIC began anew, %d after", before, after)
			}
		})
		f.Process(0, "clock/0", func(p *sim.Process) error {
			sleep(p, 2*restarted+time.Minute+time.Second)
			return nil
		})
	})
}

func TestApp2AppTellsBothProcesses(t *testing.T) { // PANIC-44
	each(t, 2, func(t *testing.T, f *sim.Fabric) {
		load(t, f, 0, 412, "app2app.pdl")
		mine := segment(t, f, 0, 8192)
		var theirs *shared
		reboots(f, 1, func() {
			load(t, f, 1, 412, "app2app.pdl")
			theirs = segment(t, f, 1, 8192)
		})
		const size = 200
		// the answer has all bits of each byte inverted
		f.Serve(1, "answers/0", func(p *sim.Process) error {
			for {
				if !theirs.told(p, time.Second) {
					continue
				}
				for i := range size {
					theirs.mem[i] = ^theirs.mem[4096+i]
				}
				if err := handled(p, 412, 1, 0, size); err != nil {
					return nil // its NIC has gone, and it restarts with the NIC
				}
			}
		})
		done := 0
		f.Process(0, "asks/0", func(p *sim.Process) error {
			for n := 0; done < 100; n++ {
				if done == 50 {
					sleep(p, restarted) // the other half runs with the restarted NIC
				}
				pattern(mine.mem[:size], n)
				if err := handled(p, 412, 1, uint64(sim.NICID(1)), size); err != nil {
					return err
				}
				if !mine.told(p, time.Second) {
					continue
				}
				for i := range size {
					if mine.mem[4096+i] != ^mine.mem[i] {
						return fmt.Errorf("exchange %d: byte %d is %d, and was sent as %d", n, i, mine.mem[4096+i], mine.mem[i])
					}
				}
				done++
			}
			return nil
		})
	})
}

func TestDelivertestDisplaysATimeForEachLength(t *testing.T) {
	each(t, 1, func(t *testing.T, f *sim.Fabric) {
		var s *shared
		reboots(f, 0, func() {
			load(t, f, 0, 413, "delivertest.pdl")
			s = segment(t, f, 0, 4096)
		})
		lives := 0
		f.Process(0, "app/0", func(p *sim.Process) error {
			lives++
			if err := handled(p, 413, 1); err != nil {
				return err
			}
			sleep(p, time.Second)
			took, _, err := simulated.Engine(f, 0).Programs().Log(413, 0)
			if err != nil || len(took) != 4 || slices.Min(took) < 0 || binary.LittleEndian.Uint64(s.mem) != 4096 {
				return fmt.Errorf("it displays %v, %v, and has delivered %d", took, err, binary.LittleEndian.Uint64(s.mem))
			}
			if lives == 1 {
				sleep(p, time.Hour) // until the NIC vanishes
			}
			return nil
		})
	})
}

// guard puts a program of examples/pdl in front of the process victim/0 of a host.
func guard(t *testing.T, f *sim.Fabric, host int, file string) {
	t.Helper()
	src, err := os.ReadFile("../pdl/" + file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := pdl.Compile(file, src)
	if err != nil {
		t.Fatal(err)
	}
	name, _ := vni.ParseName("victim/0")
	if _, _, err := simulated.Engine(f, host).Programs().Load(nicprogram.Spec{Module: m, ID: vm.ID(401), Start: true, Guards: name, Trigger: 1}); err != nil {
		t.Fatal(err)
	}
	simulated.Turn(f, host)
}

// sealed returns a message that the filter passes: its words after a token.
func sealed(message ...uint64) []byte {
	const key, stir = 0x51a7c0de5eed1e55, 0x9e3779b97f4a7c15
	token := uint64(key) ^ uint64(8+8*len(message))
	for _, w := range message {
		token = (token ^ w) * stir
	}
	return words(append([]uint64{token}, message...)...)
}

func TestWhatCarriesNoTokenWakesNoProcess(t *testing.T) {
	each(t, 2, func(t *testing.T, f *sim.Fabric) {
		reboots(f, 1, func() { guard(t, f, 1, "filter.pdl") })
		heard := map[uint64]int{}
		lives := 0
		f.Serve(1, "victim/0", func(p *sim.Process) error {
			lives++
			var b [64]byte
			for {
				m, err := p.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, b[:])
				if err != nil {
					return nil
				}
				if !bytes.Equal(b[:m.Len], sealed(binary.LittleEndian.Uint64(b[8:]))) {
					return fmt.Errorf("%x has come", b[:m.Len])
				}
				heard[binary.LittleEndian.Uint64(b[8:])]++
			}
		})
		victim := weft.Name{App: "victim"}
		f.Process(0, "sender/0", func(p *sim.Process) error {
			sent := func(b []byte) error {
				ctx, cancel := p.Runtime().WithTimeout(context.Background(), time.Second)
				defer cancel()
				return p.Send(ctx, victim, 1, b)
			}
			rt := p.Runtime()
			begin := rt.Now()
			for n := uint64(0); rt.Now().Sub(begin) < 2*restarted; n++ {
				forged := sealed(n)
				forged[n%16] ^= 1 << (n % 8)
				_ = sent(forged)    // either is lost
				_ = sent(sealed(n)) // while there is no NIC
				sleep(p, 20*time.Millisecond)
			}
			return nil
		})
		f.Process(0, "clock/0", func(p *sim.Process) error {
			sleep(p, 3*restarted)
			if lives != 2 || len(heard) < 100 {
				return fmt.Errorf("in %d lives %d messages have come", lives, len(heard))
			}
			for n, times := range heard {
				if times != 1 {
					return fmt.Errorf("message %d has come %d times", n, times)
				}
			}
			return nil
		})
	})
}

func TestAFlowIsShapedToItsRate(t *testing.T) {
	const size, burst, perMicrosecond = 1024, 64 << 10, 100
	each(t, 2, func(t *testing.T, f *sim.Fabric) {
		reboots(f, 1, func() { guard(t, f, 1, "bucket.pdl") })
		lives := 0
		f.Serve(1, "victim/0", func(p *sim.Process) error {
			lives++
			rt, got := p.Runtime(), int64(0)
			begin := rt.Now()
			b := make([]byte, size)
			for {
				m, err := p.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, b)
				if err != nil {
					return nil
				}
				got += int64(m.Len)
				if lasted := rt.Now().Sub(begin); got > 2*burst+perMicrosecond*lasted.Microseconds() {
					return fmt.Errorf("%d bytes have come within %v", got, lasted)
				}
			}
		})
		refused := 0
		f.Process(0, "sender/0", func(p *sim.Process) error {
			rt := p.Runtime()
			begin := rt.Now()
			for rt.Now().Sub(begin) < 2*restarted {
				for range 200 { // three times a burst
					ctx, cancel := rt.WithTimeout(context.Background(), time.Second)
					err := p.Send(ctx, weft.Name{App: "victim"}, 1, make([]byte, size))
					cancel()
					if err != nil {
						refused++
					}
				}
				sleep(p, 50*time.Millisecond)
			}
			if info, _ := simulated.Engine(f, 1).Programs().Info(401); lives != 2 || info.Profile.Activations < 1000 {
				return fmt.Errorf("in %d lives the bucket has judged %d messages", lives, info.Profile.Activations)
			}
			return nil
		})
	})
}

// After the NIC of pong has restarted, ping starts again: the message in it is lost.
func TestPingIsBegunAgainWhenPongsNICWasAway(t *testing.T) { // PANIC-40
	each(t, 2, func(t *testing.T, f *sim.Fabric) {
		load(t, f, 0, 416, "ping.pdl")
		reboots(f, 1, func() { load(t, f, 1, 415, "pong.pdl") })
		f.Process(0, "app/0", func(p *sim.Process) error {
			begun := 0
			shown := func() int {
				took, _, _ := simulated.Engine(f, 0).Programs().Log(416, 0)
				return len(took)
			}
			for f.Elapsed() < 2*restarted {
				before := shown()
				begun++
				if err := handled(p, 416, 1, uint64(sim.NICID(1))); err != nil && !errors.Is(err, weft.ErrProgramFailed) {
					return err
				}
				sleep(p, 500*time.Millisecond)
				if now := shown(); now != before && now != before+100 {
					return fmt.Errorf("ping shows %d times in one run", now-before)
				}
			}
			if n := shown(); n < 300 || n == 100*begun {
				return fmt.Errorf("%d runs of %d have ended: the NIC was not away in the middle, or not back", n/100, begun)
			}
			return nil
		})
	})
}

// A restarted directory is empty, and answers for keys that are set again.
func TestADirectoryThatBeginsAnewIsFilledAgain(t *testing.T) { // PANIC-7
	each(t, 2, func(t *testing.T, f *sim.Fabric) {
		reboots(f, 1, func() { load(t, f, 1, 20, "directory.pdl") })
		f.Process(0, "app/0", func(p *sim.Process) error {
			directory := program.Address{NIC: sim.NICID(1), ID: 20}
			lookUp := func(key uint64) (found, value uint64, err error) {
				programs := program.On(p.Weft())
				if err := programs.SendHandled(context.Background(), directory, 2, words(number(p), key)); err != nil {
					return 0, 0, err
				}
				h, ok, err := hear(p, 20, time.Second)
				if err != nil || !ok {
					return 0, 0, fmt.Errorf("no answer: %w", err)
				}
				return h.words[0], h.words[1], nil
			}
			for life := range uint64(2) {
				for key := range uint64(50) {
					if found, _, err := lookUp(key); err != nil || found != 0 {
						return fmt.Errorf("life %d: key %d is there before it is set: %d, %w", life, key, found, err)
					}
					if err := program.On(p.Weft()).SendHandled(context.Background(), directory, 1, words(key, key+life)); err != nil {
						return err
					}
					if found, value, err := lookUp(key); err != nil || found != 1 || value != key+life {
						return fmt.Errorf("life %d: key %d is %d, %d, %w", life, key, found, value, err)
					}
				}
				sleep(p, 2*restarted)
			}
			return nil
		})
	})
}
