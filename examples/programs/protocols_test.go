package programs_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/program"
	"github.com/weftnet/weft/sim"
)

// heard is a message of a program: its trigger and its words.
type heard struct {
	trigger weft.Tag
	words   []uint64
}

// hear waits for a message of program id. ok is false if none has come within the time.
func hear(p *sim.Process, id program.ID, within time.Duration) (h heard, ok bool, err error) {
	ctx, cancel := p.Runtime().WithTimeout(context.Background(), within)
	defer cancel()
	var b [64]byte
	m, err := p.Recv(ctx, program.NameOf(id), weft.AnyTag, b[:])
	if err != nil {
		if ctx.Err() != nil {
			err = nil
		}
		return h, false, err
	}
	for w := range slices.Chunk(b[:m.Len], 8) {
		h.words = append(h.words, binary.LittleEndian.Uint64(w))
	}
	h.trigger = m.Tag
	return h, true, nil
}

// Words for which a slow process has no room go back and come again. The process gets each once.
// Only the words of a restarted NIC are lost.
func TestWhatIsReturnedComesAgainAndOnce(t *testing.T) { // PANIC-7
	each(t, 2, func(t *testing.T, f *sim.Fabric) {
		load(t, f, 0, 420, "resender.pdl")
		reboots(f, 1, func() { load(t, f, 1, 421, "returner.pdl") })
		got := map[uint64]int{}
		const words, second = 60, 1000
		f.Serve(1, "slow/0", func(p *sim.Process) error {
			for {
				if err := handled(p, 421, 2, number(p)); err != nil {
					return nil // its NIC has gone
				}
				h, ok, err := hear(p, 421, time.Hour)
				if err != nil || !ok {
					return nil
				}
				got[h.words[0]]++
				sleep(p, 5*time.Millisecond)
			}
		})
		f.Process(0, "fast/0", func(p *sim.Process) error {
			for _, first := range []uint64{0, second} {
				for i := range uint64(words) {
					if err := handled(p, 420, 1, uint64(sim.NICID(1)), first+i); err != nil {
						return err
					}
				}
				sleep(p, 2*restarted)
			}
			if err := handled(p, 420, 3, number(p)); err != nil {
				return err
			}
			back, _, err := hear(p, 420, time.Second)
			if err != nil || back.words[0] == 0 {
				return fmt.Errorf("%d words came back, %v: there was room for all", back.words[0], err)
			}
			for i := range uint64(words) {
				if got[i] != 1 || got[second+i] != 1 {
					return fmt.Errorf("word %d has come %d times, and when the NIC had begun anew %d times", i, got[i], got[second+i])
				}
			}
			return nil
		})
	})
}

// All members hear the same messages, in the same order. A restarted member hears a later part
// of them.
func TestMembersHearOneOrder(t *testing.T) { // PANIC-7
	const members, restarts, saidEach = 3, 2, 12
	each(t, members, func(t *testing.T, f *sim.Fabric) {
		load(t, f, 0, 430, "ordered.pdl")
		load(t, f, 1, 430, "ordered.pdl")
		reboots(f, restarts, func() { load(t, f, restarts, 430, "ordered.pdl") })
		moved := func(nic uint64) {
			for host := range restarts {
				if err := simulated.Engine(f, host).Programs().Post(430, 6, words(restarts, nic)); err != nil {
					t.Error(err)
				}
				simulated.Turn(f, host)
			}
		}
		f.After(restartsAt, func() { moved(0) })
		f.After(restarted+100*time.Millisecond, func() { moved(uint64(sim.NICID(restarts))) })
		var lives [members]int
		var order [members][]string // of the member's current life
		for host := range members {
			f.Serve(host, fmt.Sprint("member/", host), func(p *sim.Process) error {
				lives[host]++
				order[host] = nil
				first := uint64(0)
				if host == 0 {
					first = 1
				}
				setUp := []uint64{members, uint64(host), number(p), first, uint64(lives[host]) << 32}
				for i := range members {
					setUp = append(setUp, uint64(sim.NICID(i)))
				}
				if err := handled(p, 430, 1, setUp...); err != nil {
					return err
				}
				p.Start("speaker", func(p *sim.Process) error {
					say := func(from int) error {
						for i := range saidEach {
							sleep(p, time.Duration(p.Rand().Int64N(int64(100*time.Millisecond))))
							if err := handled(p, 430, 2, uint64(1000*host+from+i)); err != nil {
								return err
							}
						}
						return nil
					}
					begin := restarted + 500*time.Millisecond
					if lives[host] == 1 {
						sleep(p, 100*time.Millisecond) // all are set up
						if err := say(0); err != nil {
							return err
						}
						// it has the token when the other NIC goes
						if host == 0 {
							sleep(p, restartsAt-200*time.Millisecond-f.Elapsed())
							if err := handled(p, 430, 2, 777); err != nil {
								return err
							}
						}
					}
					sleep(p, begin-f.Elapsed())
					return say(500)
				})
				for {
					h, ok, err := hear(p, 430, time.Hour)
					if err != nil || !ok {
						return nil // its NIC has gone
					}
					order[host] = append(order[host], fmt.Sprint(h.words))
				}
			})
		}
		f.Process(0, "judge/0", func(p *sim.Process) error {
			sleep(p, restarted+5*time.Second)
			if want := 2*members*saidEach + 1; len(order[0]) != want || lives[restarts] != 2 {
				return fmt.Errorf("%d words were heard, want %d; %d lives", len(order[0]), want, lives[restarts])
			}
			if !slices.Equal(order[0], order[1]) {
				return fmt.Errorf("one member hears %v, the other %v", order[0], order[1])
			}
			later := order[restarts]
			if len(later) < saidEach || !slices.Equal(later, order[0][len(order[0])-len(later):]) {
				return fmt.Errorf("the member that began anew hears %v, the others %v", later, order[0])
			}
			return nil
		})
	})
}

// A pageUser is a process that reads and writes pages with the directory's permission.
type pageUser struct {
	p     *sim.Process
	place uint64
	heeds uint64              // the number of the next message
	early map[uint64]heard    // messages that came early
	mode  map[uint64]weft.Tag // of the pages that it has: 2 to read, 3 to write
	all   []*pageUser
}

const pagesProgram = 440

// ask sends a message to the directory, at host 0.
func (u *pageUser) ask(trigger uint32, message ...uint64) error {
	return program.On(u.p.Weft()).SendHandled(context.Background(), program.Address{NIC: sim.NICID(0), ID: pagesProgram}, trigger, words(message...))
}

// heed takes the next message of the directory. If the message says so, it gives up a page.
func (u *pageUser) heed() (h heard, ok bool, err error) {
	for {
		if h, ok = u.early[u.heeds]; ok {
			break
		}
		if h, ok, err = hear(u.p, pagesProgram, 10*time.Second); err != nil || !ok {
			return h, false, err
		}
		u.early[h.words[1]] = h
	}
	delete(u.early, u.heeds)
	u.heeds++
	if h.trigger == 4 {
		delete(u.mode, h.words[0])
		return h, true, u.ask(4, h.words[0], u.place)
	}
	return h, true, nil
}

// get asks the directory for a page, to read or to write.
func (u *pageUser) get(page uint64, mode weft.Tag) error {
	if err := u.ask(uint32(mode), page, u.place); err != nil {
		return err
	}
	for {
		h, ok, err := u.heed()
		switch {
		case err != nil:
			return err
		case !ok:
			return fmt.Errorf("process %d waits for page %d in vain", u.place, page)
		case h.trigger == 6:
			sleep(u.p, 200*time.Microsecond)
			if err := u.ask(uint32(mode), page, u.place); err != nil {
				return err
			}
		case h.trigger == mode && h.words[0] == page:
			u.mode[page] = mode
			return u.judge(page)
		}
	}
}

// judge checks the directory's promise: many processes read a page, or one writes it.
func (u *pageUser) judge(page uint64) error {
	for _, o := range u.all {
		if other := o.mode[page]; o != u && other != 0 && (other == 3 || u.mode[page] == 3) {
			return fmt.Errorf("process %d has page %d by trigger %d, and process %d by %d", u.place, page, u.mode[page], o.place, other)
		}
	}
	return nil
}

func TestOneWritesAPageOrManyRead(t *testing.T) { // PANIC-7
	const users, pages = 4, 3
	each(t, users, func(t *testing.T, f *sim.Fabric) {
		load(t, f, 0, pagesProgram, "pages.pdl")
		all := make([]*pageUser, users)
		for i := range all {
			all[i] = &pageUser{}
		}
		var got, lives [users]int
		reboots(f, users-1, func() {})
		f.After(restartsAt, func() { // the directory is told
			all[users-1].mode = nil
			if err := simulated.Engine(f, 0).Programs().Post(pagesProgram, 5, words(users-1)); err != nil {
				t.Error(err)
			}
			simulated.Turn(f, 0)
		})
		for host := range users {
			f.Serve(host, fmt.Sprint("user/", host), func(p *sim.Process) error {
				lives[host]++
				u := all[host]
				*u = pageUser{p: p, place: uint64(host), early: map[uint64]heard{}, mode: map[uint64]weft.Tag{}, all: all}
				err := u.ask(1, u.place, number(p))
				for err == nil {
					if f.Elapsed() > 2*restarted { // it goes on giving up pages
						_, _, err = u.heed()
						continue
					}
					page, mode := p.Rand().Uint64N(pages), weft.Tag(2+p.Rand().Uint64N(2))
					if err = u.get(page, mode); err == nil {
						got[host]++
						sleep(p, time.Duration(p.Rand().Int64N(int64(4*time.Millisecond))))
					}
				}
				if host == users-1 && lives[host] == 1 {
					return nil // its NIC has gone
				}
				if f.Elapsed() > 3*restarted {
					return nil
				}
				return err
			})
		}
		f.Process(0, "judge/0", func(p *sim.Process) error {
			sleep(p, 2*restarted+5*time.Second)
			for host, n := range got {
				if n < 50 {
					return fmt.Errorf("process %d got a page %d times; all: %v", host, n, got)
				}
			}
			if lives[users-1] != 2 {
				return fmt.Errorf("%d lives", lives[users-1])
			}
			return nil
		})
	})
}
