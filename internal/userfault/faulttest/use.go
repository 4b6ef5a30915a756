// Package faulttest uses memory as hard as a Go program can. It is for tests of pagers.
package faulttest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

const (
	pageBytes = 4096
	words     = pageBytes / 8
)

// Use fills memory with a different number in each word. Goroutines then change pages at random.
// Use checks each number before a goroutine changes it, and all numbers at the end. Meanwhile it
// forces one garbage collection after another. Each collection stops all goroutines, including
// those that wait for a page. Use returns the number of collections.
func Use(mem []byte, goroutines, changes int) (collections uint32, err error) {
	stop, collecting := make(chan struct{}), sync.WaitGroup{}
	collecting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
				collections++
			}
		}
	})
	err = use(mem, goroutines, changes)
	close(stop)
	collecting.Wait()
	return collections, err
}

func use(mem []byte, goroutines, changes int) error {
	u := &user{mem: unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/8),
		version: make([]uint64, len(mem)/pageBytes)}
	for p := range u.version {
		u.fill(p)
	}
	if err := u.checkAll(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, goroutines)
	for g := range goroutines {
		wg.Go(func() { errs[g] = u.change(g, goroutines, changes) })
	}
	wg.Wait()
	return errors.Join(errors.Join(errs...), u.checkAll())
}

// user is memory with its expected content.
type user struct {
	mem     []uint64
	version []uint64 // of each page
}

// number returns the content of a word of a page.
func number(page, version, word uint64) uint64 {
	z := (page<<32^version)*0x9e3779b97f4a7c15 + word*0xbf58476d1ce4e5b9
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (u *user) fill(page int) {
	for i := range u.mem[page*words:][:words] {
		u.mem[page*words+i] = number(uint64(page), u.version[page], uint64(i))
	}
}

func (u *user) check(page int) error {
	for i, got := range u.mem[page*words:][:words] {
		if want := number(uint64(page), u.version[page], uint64(i)); got != want {
			return fmt.Errorf("page %d, word %d: %#x; expected %#x", page, i, got, want)
		}
	}
	return nil
}

func (u *user) checkAll() error {
	for p := range u.version {
		if err := u.check(p); err != nil {
			return err
		}
	}
	return nil
}

// change changes pages of one remainder modulo the number of goroutines, so no page belongs to
// two goroutines.
func (u *user) change(own, goroutines, changes int) error {
	r := uint64(own) + 1
	for n := range changes {
		r = number(r, uint64(n), 7)
		page := int(r%uint64(len(u.version)/goroutines))*goroutines + own
		if err := u.check(page); err != nil {
			return err
		}
		if r>>63 == 0 {
			u.version[page]++
			u.fill(page)
		}
	}
	return nil
}
