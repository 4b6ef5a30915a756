// Package examples_test runs the example programs on NICs in memory.
package examples_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/pdl/vm/mem"
)

func TestExamplesAreRightAndFormatted(t *testing.T) {
	files, err := filepath.Glob("*.pdl")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if warnings, err := pdl.Check(file, src); err != nil || len(warnings) > 0 {
			t.Errorf("%v %v", err, warnings)
		}
		if formatted, err := pdl.Format(file, src); err != nil || string(formatted) != string(src) {
			t.Errorf("%s is not in the one form (%v): weft pdl fmt -w brings it there", file, err)
		}
	}
}

// start loads an example on a new NIC and starts it.
func start(t *testing.T, id vm.ID, files ...string) (*mem.Fabric, *mem.NIC) {
	t.Helper()
	f := mem.NewFabric()
	n, err := f.Add(7, "nic", vm.Config{CodeWords: 1000, DataWords: 4000, Programs: 3, Budget: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := pdl.Compile(file, src)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Machine.Load(id+vm.ID(i), m); err != nil {
			t.Fatal(err)
		}
	}
	for i := range files {
		if o := n.Machine.Start(id + vm.ID(i)); o != vm.Awaiting {
			t.Fatalf("%s: %v", files[i], o)
		}
	}
	return f, n
}

func words(list ...uint64) (b []byte) {
	for _, w := range list {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func TestCounterCountsAndAnswers(t *testing.T) {
	f, n := start(t, 1, "counter.pdl")
	for range 3 {
		n.Post(1, 1, nil)
	}
	n.Post(1, 2, words(9, 5))
	f.Run(10)
	if len(n.Sent) != 1 || n.Sent[0].To != (vm.Destination{Program: 9, Trigger: 5, NIC: 7}) || n.Sent[0].Payload[0] != 3 || len(n.Sent[0].Payload) != 16 {
		t.Errorf("sent %+v", n.Sent)
	}
}

func TestPingAndPongFindOneAnotherByName(t *testing.T) {
	f, n := start(t, 1, "ping.pdl", "pong.pdl")
	f.Run(100)
	if len(n.Displayed) != 10 || len(n.Sent) != 20 {
		t.Errorf("displayed %v, sent %d", n.Displayed, len(n.Sent))
	}
}

// sign makes a message that filter.pdl passes.
func sign(rest []byte) []byte {
	const key, stir = 0x51a7c0de5eed1e55, 0x9e3779b97f4a7c15
	b := append(make([]byte, 8), rest...)
	token := uint64(key) ^ uint64(len(b))
	for i := 8; i < len(b); i += 8 {
		var w [8]byte
		copy(w[:], b[i:])
		token = (token ^ binary.LittleEndian.Uint64(w[:])) * stir
	}
	binary.LittleEndian.PutUint64(b, token)
	return b
}

func TestFilterLetsThroughWhatIsSigned(t *testing.T) {
	_, n := start(t, 1, "filter.pdl")
	judge := func(b []byte) vm.Outcome {
		return n.Machine.Dispatch(&vm.Message{Program: 1, Trigger: 1, Payload: b})
	}
	for size := range 40 {
		b := sign(make([]byte, size))
		if o := judge(b); o != vm.Passed {
			t.Errorf("%d bytes that are signed: %v", size, o)
		}
		for i := range b {
			b[i] ^= 4
			if o := judge(b); o != vm.Dropped {
				t.Errorf("%d bytes, the %d. damaged: %v", size, i, o)
			}
			b[i] ^= 4
		}
		if o := judge(b[:len(b)-1]); o != vm.Dropped {
			t.Errorf("%d bytes less one: %v", size, o)
		}
	}
	if o := judge(nil); o != vm.Dropped {
		t.Errorf("nothing: %v", o)
	}
}

func TestBucketLetsThroughARate(t *testing.T) {
	f, n := start(t, 1, "bucket.pdl")
	f.Step = 10_000 // ns per reading of the clock, in which 1,000 tokens come
	judge := func(size int) vm.Outcome {
		return n.Machine.Dispatch(&vm.Message{Program: 1, Trigger: 1, Payload: make([]byte, size)})
	}
	passed := 0
	for range 200 {
		if judge(1500) == vm.Passed {
			passed++
		}
	}
	if want := (64<<10 + 200*1000) / 1500; passed > want || passed < want-1 {
		t.Errorf("%d messages of 1,500 bytes got through, want %d", passed, want)
	}
	f.Step = 1 << 40
	if judge(16384) != vm.Passed {
		t.Error("after a long time the bucket is not full")
	}
}

func TestStoreAnswersReads(t *testing.T) {
	for _, late := range []bool{false, true} {
		f, n := start(t, 1, "store.pdl")
		f.Late = late
		segment := n.Segment(1, 256*64)
		put := func(key, value uint64) {
			place := key * 0x9e3779b97f4a7c15 >> 56
			for binary.LittleEndian.Uint64(segment[place*64:]) != 0 {
				place = (place + 1) & 255
			}
			copy(segment[place*64:], words(key, value))
		}
		for key := uint64(1); key <= 200; key++ {
			put(key, key*key)
		}
		read := func(key uint64) []byte {
			n.Sent = nil
			n.Post(1, 1, words(key, 9, 5))
			f.Run(2)
			if len(n.Sent) != 1 || n.Sent[0].To != (vm.Destination{Program: 9, Trigger: 5, NIC: 7}) {
				t.Fatalf("key %d: sent %+v", key, n.Sent)
			}
			return n.Sent[0].Payload
		}
		for key := uint64(1); key <= 200; key++ {
			if got := read(key); len(got) != 64 || !slices.Equal(got[:16], words(1, key*key)) {
				t.Errorf("key %d: %x", key, got)
			}
		}
		for _, key := range []uint64{0, 201, 1 << 63} {
			if got := read(key); !slices.Equal(got, words(0)) {
				t.Errorf("key %d, which is not there: %x", key, got)
			}
		}
		n.SetLock(1)
		if got := read(1); !slices.Equal(got, words(2)) || !slices.Equal(n.Flags(), []int64{1}) {
			t.Errorf("while the store is locked: %x, flags %v", got, n.Flags())
		}
	}
}
