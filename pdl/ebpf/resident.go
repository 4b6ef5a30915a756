package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// piecesFlag is BPF_F_XDP_HAS_FRAGS.
const piecesFlag = 1 << 5

// load loads instructions into the kernel, together with the maps that they name.
func (h *Host) load(name string, code asm.Instructions, own map[string]*ebpf.Map) (*ebpf.Program, error) {
	shared := map[string]*ebpf.Map{
		mapSessions: h.sessions, mapSteps: h.steps, mapSlots: h.slots, mapDisplays: h.displays,
		mapBells: h.bells, mapTables: h.tables}
	code = slices.Clone(code)
	for i := range code {
		in := &code[i]
		if !in.IsLoadFromMap() {
			continue
		}
		m := shared[in.Reference()]
		if m == nil {
			m = own[in.Reference()]
		}
		if m == nil {
			return nil, fmt.Errorf("loading %s: there is no map %s", name, in.Reference())
		}
		if err := in.AssociateMap(m); err != nil {
			return nil, fmt.Errorf("loading %s: %w", name, err)
		}
	}
	spec := &ebpf.ProgramSpec{Name: name, Type: ebpf.XDP, License: "Apache-2.0", Instructions: code}
	if h.cfg.Pieces {
		spec.Flags = piecesFlag
	}
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", name, err)
	}
	return p, nil
}

// A Resident is a program in the kernel. Only one goroutine at a time may call its methods. The
// program may run meanwhile.
type Resident struct {
	host    *Host
	m       *prog.Module
	o       Options
	data    *ebpf.Map
	memory  *ebpf.Memory
	state   []byte // the first page of data, or nil
	program *ebpf.Program
	slot    int // -1: it gets no messages
}

// Load loads the program into the kernel. It gets no messages before Attach.
func (obj *Object) Load(h *Host) (r *Resident, err error) {
	r = &Resident{host: h, m: obj.m, o: obj.o, slot: -1}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("load program %s into the driver: %w", obj.m.Name, err), r.Close())
			r = nil
		}
	}()
	if obj.o.Path != h.cfg.Path || obj.o.Service != h.cfg.Service {
		return r, errors.New("it was compiled for another path or service")
	}
	r.data, err = ebpf.NewMap(&ebpf.MapSpec{Name: "weft_data", Type: ebpf.Array,
		KeySize: 4, ValueSize: uint32(room(obj.m)), MaxEntries: 1, Flags: mmapable})
	if err != nil {
		return r, fmt.Errorf("making its data: %w", err)
	}
	if r.memory, err = r.data.Memory(); err != nil {
		return r, fmt.Errorf("mapping its data: %w", err)
	}
	if err = r.mapState(); err != nil {
		return r, err
	}
	r.program, err = h.loadOver(r.data, obj)
	return r, err
}

// loadOver loads a program into the kernel that uses an existing data map.
func (h *Host) loadOver(data *ebpf.Map, obj *Object) (*ebpf.Program, error) {
	own := map[string]*ebpf.Map{mapData: data}
	for id, s := range obj.o.Segments {
		own[segmentMap(id)] = s.Map
	}
	return h.load("weft_resident", obj.code, own)
}

// mmapable is BPF_F_MMAPABLE.
const mmapable = 1 << 10

// setWord writes a word of the program's memory.
func (r *Resident) setWord(at int, v int64) error {
	_, err := r.memory.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(v)), int64(at))
	return err
}

// Start makes the program accept messages. words is its data, as the virtual machine has left it
// after the initialisation: all words of the module, or none for zeros.
func (r *Resident) Start(words []int64) error {
	if len(words) != 0 && len(words) != r.m.DataWords {
		return fmt.Errorf("start program %s in the driver: %d words of data, expected %d",
			r.m.Name, len(words), r.m.DataWords)
	}
	if err := r.SetWords(words); err != nil {
		return fmt.Errorf("start program %s in the driver: %w", r.m.Name, err)
	}
	return r.setWord(stateStatus, statusIdle)
}

// Stop makes the program refuse all messages.
func (r *Resident) Stop() error { return r.setWord(stateStatus, statusStopped) }

// SetWords writes the program's data; no words means zeros. Use Take to prevent activations
// meanwhile.
func (r *Resident) SetWords(words []int64) error {
	if len(words) == 0 {
		words = make([]int64, r.m.DataWords)
	}
	_, err := r.memory.WriteAt(bytesOf(words), int64(at(0)))
	return err
}

// bytesOf returns the memory of words. Both sides use the byte order of the processor.
func bytesOf(words []int64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
}

// SetClock sets the number that CLOCK adds to the kernel's clock (CLOCK_MONOTONIC), in ns. With
// FrozenClock it sets the value of CLOCK itself.
func (r *Resident) SetClock(ns int64) error { return r.setWord(stateClock, ns) }

// Words returns a copy of the program's data. During an activation, some words may be older than
// others.
func (r *Resident) Words() ([]int64, error) {
	words := make([]int64, r.m.DataWords)
	return words, r.ReadWords(words)
}

// ReadWords is Words into memory of the caller. It must have as many words as the module.
func (r *Resident) ReadWords(words []int64) error {
	if len(words) != r.m.DataWords {
		return fmt.Errorf("read the data of program %s in the driver: into %d words, expected %d",
			r.m.Name, len(words), r.m.DataWords)
	}
	if _, err := r.memory.ReadAt(bytesOf(words), int64(at(0))); err != nil {
		return fmt.Errorf("read the data of program %s in the driver: %w", r.m.Name, err)
	}
	return nil
}

// Counts holds the counters of a program in the driver that the virtual machine does not have.
type Counts struct {
	Sends     uint64 // replies sent
	SendsLost uint64 // replies that could not be sent
	// Handed counts the messages passed to the engine, because the reply may not fit into the
	// frame or the path.
	Handed       uint64
	DisplaysLost uint64 // numbers for which the ring had no room
	Busy         uint64 // messages lost because another processor was busy for too long
	Replays      uint64 // messages lost because their counter was not above the last one
	// Flags counts the flags set and locks cleared. A process that waits for one must be woken.
	Flags   uint64
	Stopped bool // it accepts no more messages
}

// Profile returns what the program has cost and done since it was loaded.
func (r *Resident) Profile() (p vm.Profile, c Counts, err error) {
	var b [stateEnd]byte
	if _, err := r.memory.ReadAt(b[:], 0); err != nil {
		return p, c, fmt.Errorf("read the state of program %s in the driver: %w", r.m.Name, err)
	}
	word := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	p.Activations, p.Instructions, p.Refused = word(stateActivations), word(stateInstructions), word(stateRefused)
	for cause := range p.Aborts {
		p.Aborts[cause] = word(stateAborts + 8*cause)
	}
	if p.Aborted() > 0 {
		p.LastLine, p.LastCause = r.m.LineAt(int(word(stateLastPC))), vm.Cause(word(stateCause))
	}
	return p, Counts{word(stateSends), word(stateSendsLost), word(stateHanded), word(stateDisplaysLost),
		word(stateBusy), word(stateReplays), word(stateFlags),
		word(stateStatus) == statusStopped}, nil
}

// Attach directs the messages for the program to it.
func (r *Resident) Attach() error {
	if r.slot >= 0 {
		return nil
	}
	slot := slices.Index(r.host.taken[:], false)
	if slot < 0 {
		return fmt.Errorf("attach program %s: %d reside in the driver, which is all there may be",
			r.m.Name, MostResident)
	}
	if err := r.host.steps.Put(uint32(stepFirst+slot), r.program); err != nil {
		return fmt.Errorf("attach program %s: %w", r.m.Name, err)
	}
	if err := r.host.slots.Update(r.o.ID, uint32(stepFirst+slot), ebpf.UpdateNoExist); err != nil {
		return errors.Join(fmt.Errorf("attach program %s as number %d: %w", r.m.Name, r.o.ID, err),
			r.host.steps.Delete(uint32(stepFirst+slot)))
	}
	r.slot, r.host.taken[slot] = slot, true
	return nil
}

// Detach directs the messages for the program to the engine. The program keeps its data.
func (r *Resident) Detach() error {
	if r.slot < 0 {
		return nil
	}
	err := errors.Join(r.host.slots.Delete(r.o.ID), r.host.steps.Delete(uint32(stepFirst+r.slot)))
	r.host.taken[r.slot], r.slot = false, -1
	return err
}

// Withdraw detaches and stops the program. It returns the program's data, and whether it had
// already stopped. A message that was let in before and waits for another activation is refused,
// since its effect on the data would be lost. Start and Attach continue the program.
func (r *Resident) Withdraw() (words []int64, stopped bool, err error) {
	if err = r.Detach(); err != nil {
		return nil, false, err
	}
	if err = r.Take(); err != nil {
		return nil, false, err
	}
	defer r.Give()
	stopped = r.Stopped()
	if err = r.Stop(); err != nil {
		return nil, false, err
	}
	words, err = r.Words()
	return words, stopped, err
}

// Close removes the program from the kernel.
func (r *Resident) Close() error {
	err := errors.Join(r.Detach(), r.unmapState())
	if r.program != nil {
		err = errors.Join(err, r.program.Close())
	}
	if r.data != nil {
		err = errors.Join(err, r.data.Close())
	}
	r.program, r.data = nil, nil
	return err
}
