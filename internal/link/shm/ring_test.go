package shm

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"
)

// heapRing returns a ring in ordinary memory, so that the race detector sees it.
func heapRing(size int) *ring {
	words := make([]uint64, (dataAt+size)/8)
	return newRing(bytesOf(words), 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9)
}

// send sends a frame, and returns false if there is no room.
func (w *writer) send(most int, frame []byte) bool {
	b := w.reserve(most)
	if b == nil {
		return false
	}
	w.commit(copy(b, frame))
	return true
}

func TestTheReaderSeesABatchWhenItIsPublishedAndNotBefore(t *testing.T) {
	r := heapRing(4096)
	w, rd := newWriter(r), newReader(r, 1000)
	for i := range 3 {
		if !w.send(1000, []byte{byte(i)}) {
			t.Fatal("an empty ring takes no frame")
		}
		if f, err := rd.next(); f != nil || err != nil {
			t.Fatalf("before publish the reader finds %v, %v", f, err)
		}
	}
	w.publish()
	for i := range 3 {
		f, err := rd.next()
		if err != nil || !bytes.Equal(f, []byte{byte(i)}) {
			t.Fatalf("frame %d is %v, %v", i, f, err)
		}
		rd.done(len(f))
	}
	if f, _ := rd.next(); f != nil {
		t.Errorf("a fourth frame of %d bytes has come from nowhere", len(f))
	}
}

// Compares a ring with the simplest second version, a slice. Every frame for which reserve found
// room comes out, whole and in order, and both agree on the frames in between.
func TestARingIsAQueueOfFrames(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := heapRing(1 << (9 + rng.IntN(6)))
		most := int(r.size) / 4
		w, rd := newWriter(r), newReader(r, most)
		var queue [][]byte
		published := 0
		for step := range 2000 {
			switch rng.IntN(3) {
			case 0:
				f := make([]byte, rng.IntN(most+1))
				for i := range f {
					f[i] = byte(rng.Uint32())
				}
				// post equals send and publish if there is obviously room.
				if w.held == nil && len(f) >= 48 && rng.IntN(2) > 0 {
					var head [6]uint64
					for i := range head {
						head[i] = binary.LittleEndian.Uint64(f[8*i:])
					}
					if w.post(&head, f[48:]) {
						queue = append(queue, f)
						published = len(queue)
						continue
					}
				}
				if w.send(most, f) {
					queue = append(queue, f)
				} else if len(queue) == 0 && rd.told == rd.pos {
					t.Fatalf("seed %d, step %d: an empty ring has no room", seed, step)
				}
			case 1:
				w.publish()
				published = len(queue)
			case 2:
				f, err := rd.next()
				if err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
				if (f != nil) != (published > 0) {
					t.Fatalf("seed %d, step %d: the reader finds a frame: %v; %d are published", seed, step, f != nil, published)
				}
				if f == nil {
					continue
				}
				if !bytes.Equal(f, queue[0]) {
					t.Fatalf("seed %d, step %d: a frame of %d bytes came out as another of %d", seed, step, len(queue[0]), len(f))
				}
				rd.done(len(f))
				queue, published = queue[1:], published-1
			}
		}
	}
}

// The content of an earlier lap may be anything, even the words of that lap's records.
func TestWordsOfAnEarlierLapAreNotARecord(t *testing.T) {
	r := heapRing(4096)
	w, rd := newWriter(r), newReader(r, 1024)
	for lap := range 50 {
		for range 7 {
			f := make([]byte, 500)
			// Copies of first words, of this lap and of earlier ones.
			for i := 0; i+8 <= len(f); i += 8 {
				binary.NativeEndian.PutUint64(f[i:], w.firstKey^(w.pos-w.size*uint64(i/8%3)))
			}
			if !w.send(1024, f) {
				t.Fatalf("lap %d: no room", lap)
			}
			w.publish()
			got, err := rd.next()
			if err != nil || !bytes.Equal(got, f) {
				t.Fatalf("lap %d: a frame of %d bytes came out as %d, %v", lap, len(f), len(got), err)
			}
			rd.done(len(got))
			if got, _ := rd.next(); got != nil {
				t.Fatalf("lap %d: a record of an earlier lap was taken for a new one", lap)
			}
		}
	}
}

func TestARecordBeyondTheRingIsAnError(t *testing.T) {
	for _, length := range []uint64{1025, 5000, padLength - 1} {
		r := heapRing(4096)
		w, rd := newWriter(r), newReader(r, 1024)
		w.put(length, 64)
		w.publish()
		if f, err := rd.next(); err == nil {
			t.Errorf("a record that claims %d bytes is read as %d; expected an error", length, len(f))
		}
	}
}

// The reader's position is a word of another process. A position beyond the written data, or
// before an earlier report, makes no room, even if reserve is called several times.
func TestAReaderThatHasConsumedWhatIsNotThereMakesNoRoom(t *testing.T) {
	for _, nonsense := range []uint64{1 << 60, 1 << 13, 1<<64 - 4096} {
		r := heapRing(4096)
		w, rd := newWriter(r), newReader(r, 1000)
		for w.send(1000, nil) {
		}
		w.publish()
		told := r.read.consumed
		r.read.consumed = nonsense
		for range 3 {
			if w.send(1000, nil) {
				t.Errorf("a full ring whose reader has consumed %#x takes a frame", nonsense)
			}
		}
		r.read.consumed = told
		for f, _ := rd.next(); f != nil; f, _ = rd.next() {
			rd.done(len(f))
		}
		if !w.send(1000, nil) {
			t.Error("a ring that has been read takes no frame")
		}
	}
}

func TestOnlyTheFirstRecordForASleeperWakes(t *testing.T) {
	r := heapRing(4096)
	w, rd := newWriter(r), newReader(r, 100)
	wakes := func() (n int) {
		for range 3 {
			w.send(100, []byte("x"))
			if w.publish() {
				n++
			}
		}
		return n
	}
	if n := wakes(); n != 0 {
		t.Errorf("%d wake-ups of a reader that is awake", n)
	}
	if !rd.sleep() {
		t.Error("a reader may sleep though there are records")
	}
	rd.awake()
	for f, _ := rd.next(); f != nil; f, _ = rd.next() {
		rd.done(len(f))
	}
	if rd.sleep() {
		t.Error("an empty ring says that it is ready")
	}
	if n := wakes(); n != 1 {
		t.Errorf("three records for a sleeper wake it %d times; expected 1", n)
	}
}

// Both halves run at full speed, for the race detector. The reader sleeps from time to time, and
// then must be woken.
func TestBothHalvesAtFullSpeed(t *testing.T) {
	const frames = 100_000
	r := heapRing(1 << 14)
	wake := make(chan struct{}, 1)
	go func() {
		w := newWriter(r)
		var f [1000]byte
		for i := 0; i < frames; {
			n := 8 + i*7%900
			binary.LittleEndian.PutUint64(f[:], uint64(i))
			f[n-1] = byte(i)
			ok := w.send(1000, f[:n])
			if ok {
				i++
			}
			if !ok || i%5 == 0 || i == frames {
				if w.publish() {
					wake <- struct{}{}
				}
			}
			if !ok {
				runtime.Gosched()
			}
		}
	}()
	rd := newReader(r, 1000)
	for i := 0; i < frames; {
		f, err := rd.next()
		if err != nil {
			t.Fatal(err)
		}
		if f == nil {
			if i%3 == 0 && !rd.sleep() {
				<-wake
			} else {
				rd.awake()
				select { // the writer may have seen the word before it was cleared
				case <-wake:
				default:
				}
				runtime.Gosched()
			}
			continue
		}
		if n := 8 + i*7%900; len(f) != n || binary.LittleEndian.Uint64(f)&0xffffff != uint64(i)&0xffffff && n > 8 || f[n-1] != byte(i) {
			t.Fatalf("frame %d came out wrong: %d bytes", i, len(f))
		}
		rd.done(len(f))
		i++
	}
}
