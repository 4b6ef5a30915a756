package launch

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/mutate"
)

// hear takes the messages of the launcher. It receives the messages of all processes and drops
// all others: otherwise they would fill the memory in which messages of the launcher wait.
func (k *keeper) hear() {
	buf := make([]byte, maxMessage)
	within, cancel := k.rt.WithTimeout(k.ctx, StartWithin)
	defer cancel()
	h := hearing{keeper: k, ctx: within}
	for {
		m, err := k.p.Recv(h.ctx, weft.AnyProcess, weft.AnyTag, buf)
		cut := errors.Is(err, weft.ErrTruncated)
		switch {
		case err != nil && !cut:
			if errors.Is(err, context.DeadlineExceeded) {
				k.change(func() { k.gone = errNoStart })
				k.end(errNoStart, 0)
			}
			return
		case !k.isLauncher(m.Addr) || m.Tag != tag:
			continue
		case cut:
			err = fmt.Errorf("message of %d bytes; expected at most %d", m.Full, maxMessage)
		default:
			err = h.take(buf[:m.Len])
		}
		if err != nil {
			k.end(fmt.Errorf("the launcher sent a %w", err), 0)
		}
	}
}

// isLauncher reports whether a message is the launcher's. The address of the sender decides.
func (k *keeper) isLauncher(at weft.Address) bool {
	return at == k.launcherAt || k.o.Defect == mutate.KeeperStrangerObeyed
}

// hearing is the state of hear.
type hearing struct {
	*keeper
	ctx   context.Context // of the next receive
	start []byte          // pieces of the start so far
}

// take handles one message of the launcher.
func (h *hearing) take(b []byte) error {
	m, err := parse(b, false)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case startMsg:
		h.heardClock(m.clock)
		if h.start = append(h.start, m.data...); len(h.start) > MaxStartBytes {
			return fmt.Errorf("%w: a start of more than %d bytes", errMalformed, MaxStartBytes)
		}
		if m.more {
			return nil
		}
		text := h.start
		h.ctx, h.start = h.keeper.ctx, nil
		return h.begin(text)
	case stageMsg:
		h.ctx = h.keeper.ctx // the launcher waits for other hosts now, and its end is noticed
	}
	return h.heed(m)
}

// watch waits for the end of the launcher: its process, its NIC or its host. The launcher sends no
// message with this tag.
func (k *keeper) watch() {
	_, err := k.launcher.Recv(k.ctx, lifelineTag, nil)
	if k.ctx.Err() != nil || k.o.Defect == mutate.KeeperNoLifeline {
		return
	}
	_ = k.rt.Sleep(k.ctx, lastWords) // the launcher's last message may be an acknowledgement
	k.mute()
	gone := fmt.Errorf("the launcher is gone: %w", err)
	if err == nil {
		gone = fmt.Errorf("the launcher sent a %w: tag %d", errMalformed, lifelineTag)
	}
	k.change(func() { k.gone = gone })
	k.end(gone, k.patience())
}

// begin takes the start. A start that comes too late shows that the launcher has not received the
// keeper's last message.
func (k *keeper) begin(text []byte) error {
	s, err := parseStart(text)
	if err == nil {
		err = k.fits(s)
	}
	if err != nil {
		return err
	}
	k.change(func() {
		if k.why != nil {
			k.again = true
		} else if k.start == nil {
			k.start = s
		}
	})
	return nil
}

// fits refuses a start for another reservation than this one.
func (k *keeper) fits(s *Start) error {
	r := k.reserved
	switch {
	case s.Job != r.Job || s.Restart != r.Restart || s.Size != r.Size:
		return fmt.Errorf("%w: start of %s with %d ranks; reserved was %s with %d", errMalformed, s.App(), s.Size,
			r.Application(), r.Size)
	case len(s.Ranks) != r.Ranks || s.Ranks[0] != r.First || s.Ranks[len(s.Ranks)-1] != r.First+r.Ranks-1:
		return fmt.Errorf("%w: start of ranks %d…; reserved were %d to %d", errMalformed, s.Ranks[0], r.First,
			r.First+r.Ranks-1)
	case s.Program != r.Program || s.Dir != r.Dir:
		return fmt.Errorf("%w: start of %s in %s; reserved was %s in %s", errMalformed, s.Program,
			s.Dir, r.Program, r.Dir)
	}
	return nil
}

// heed handles every message but the start.
func (k *keeper) heed(m message) error {
	switch m := m.(type) {
	case pingMsg:
		k.heardClock(m.clock)
	case ackMsg:
		if k.o.Defect == mutate.KeeperAckForgotten {
			break
		}
		k.change(func() { k.acked = true })
	case askMsg:
		k.answer(m)
	case endMsg:
		k.heardClock(m.clock)
		k.end(errAsked, m.grace)
	case stageMsg:
		return k.stage(m)
	case releaseMsg:
		k.kvs.release(m)
	case stdinMsg:
		return k.input(m)
	case signalMsg:
		if set, _ := k.ranks(); set != nil {
			set.Signal(syscall.Signal(m.signal))
		}
	}
	return nil
}

// input feeds a rank. The launcher sends only input that the rank wants, so an error means that
// the rank has ended.
func (k *keeper) input(m stdinMsg) error {
	set, err := k.ranks()
	if set == nil {
		return err
	}
	if len(m.data) == 0 {
		set.CloseStdin(m.rank)
	} else {
		_ = set.Feed(m.rank, m.data)
	}
	return nil
}

// ranks returns the ranks. If they are being started, it waits until all of them have started:
// ranks that have begun may already want input. After the end of the job there are none, and no
// error.
func (k *keeper) ranks() (Set, error) {
	k.mu.Lock()
	begun := k.start != nil || k.why != nil
	k.mu.Unlock()
	if !begun {
		return nil, fmt.Errorf("%w: it came before the start", errMalformed)
	}
	_ = k.started.Wait(k.ctx)
	k.started.Open()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set, nil
}

// stage brings staged content to this host, and tells the launcher the refusals.
func (k *keeper) stage(m stageMsg) error {
	k.mu.Lock()
	twice := k.stages || k.start != nil
	k.stages = true
	k.mu.Unlock()
	if twice {
		return fmt.Errorf("%w: staging twice, or after the start", errMalformed)
	}
	k.rt.Go(func() {
		refusals := []ctl.Refusal{}
		if k.o.Stage == nil {
			refusals = append(refusals, ctl.Refusal{What: ctl.RefusedProgram, Text: "this host takes no staged content",
				Cure: "run without --stage"})
		} else if err := k.o.Stage(k.ctx, k.p, append([]byte(nil), m.manifest...), m.hosts); err != nil {
			refusals = append(refusals, ctl.Refusal{What: ctl.RefusedProgram, Text: short(err.Error())})
		}
		_ = k.say(stagedMsg{refusals})
	})
	return nil
}
