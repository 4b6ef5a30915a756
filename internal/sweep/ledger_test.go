package sweep

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// book is a ledger with two processes.
type book struct {
	*ledger
	a, b *life
}

func newBook() *book {
	return &book{newLedger(), &life{name: "app/0", sent: map[string]int{}, heard: map[int]heard{}}, &life{name: "app/1", host: 1, clean: true, sent: map[string]int{}, heard: map[int]heard{}}}
}

func (b *book) send(size int, o outcome) *message {
	m := b.prepare(b.a, "app/1", 2, size, false)
	b.post(m, time.Second)
	if o != pending {
		b.end(m, 2*time.Second, o, errors.New("why"))
	}
	return m
}

func (b *book) take(m *message, r receive) {
	got := make([]byte, m.size)
	fill(m.id, got)
	b.deliver(b.b, r, arrival{m.from.name, m.tag, uint64(m.size), got, m.size, false})
}

var anything = receive{anyTag: true}

// check audits, and compares the violations with the expected ones: one for each of the words, in
// alphabetical order.
func (b *book) check(t *testing.T, words ...string) {
	t.Helper()
	b.audit(func(*message) bool { return false }, map[string]*life{"app/0": b.a, "app/1": b.b})
	if len(b.violations) != len(words) {
		t.Fatalf("violations %q; want %d", b.violations, len(words))
	}
	for i, w := range words {
		if !strings.Contains(b.violations[i], w) {
			t.Errorf("violation %q does not say %q", b.violations[i], w)
		}
	}
}

func TestWhatKeepsEveryPromiseIsNoViolation(t *testing.T) {
	b := newBook()
	for _, size := range []int{0, 1, 15, 16, 1000, MaxMessage} {
		b.take(b.send(size, succeeded), anything)
	}
	b.check(t)
}

func TestAMessageDeliveredTwiceIsFound(t *testing.T) {
	b := newBook()
	m := b.send(100, succeeded)
	b.take(m, anything)
	b.take(m, anything)
	b.check(t, "again")
}

func TestAMessageThatNobodySentIsFound(t *testing.T) {
	b := newBook()
	m := b.prepare(b.a, "app/1", 2, 100, false)
	b.take(m, anything)
	b.check(t, "never sent")
}

func TestDamageIsFound(t *testing.T) {
	for _, at := range []int{0, 9, 16, 99} {
		b := newBook()
		m := b.send(100, succeeded)
		got := make([]byte, 100)
		fill(m.id, got)
		got[at] ^= 1
		b.deliver(b.b, anything, arrival{"app/0", m.tag, 100, got, 100, false})
		if len(b.violations) == 0 {
			t.Errorf("byte %d was changed, and the ledger did not see it", at)
		}
	}
}

func TestPiecesInTheWrongPlaceAreFound(t *testing.T) {
	b := make([]byte, 5000)
	fill(7, b)
	copy(b[1000:], b[1001:2001]) // shifted by one byte
	if compare(7, 5000, b) == nil {
		t.Error("it was not seen")
	}
}

func TestTheWrongSourceTagAndReceiverAreFound(t *testing.T) {
	b := newBook()
	m := b.send(20, succeeded)
	b.take(m, receive{from: "app/7", anyTag: true})
	m = b.send(20, succeeded)
	b.take(m, receive{tag: 3})
	m = b.send(20, succeeded)
	m.to = "app/9"
	b.take(m, anything)
	if len(b.violations) != 3 {
		t.Errorf("violations: %q", b.violations)
	}
}

func TestAMessageThatVanishesIsFound(t *testing.T) {
	b := newBook()
	b.send(100, succeeded)
	b.check(t, "never came")
}

func TestAMessageThatVanishesWithItsReceiverIsNone(t *testing.T) {
	b := newBook()
	b.send(100, succeeded)
	b.b.clean = false
	b.check(t)
}

func TestALossThatTheSenderWasToldOfIsNone(t *testing.T) {
	b := newBook()
	b.send(100, succeeded)
	b.a.events = append(b.a.events, event{at: 3 * time.Second, host: 1, count: 1})
	b.check(t)
}

func TestMoreLossesThanTheSenderWasToldOfAreFound(t *testing.T) {
	b := newBook()
	b.send(100, succeeded)
	b.send(100, succeeded)
	b.a.events = append(b.a.events, event{at: 3 * time.Second, host: 1, count: 1})
	b.check(t, "2 messages of app/0 to host 1 were lost")
}

func TestAMessageToAProcessThatHasJustEndedIsNotInDoubt(t *testing.T) {
	for born, words := range map[time.Duration][]string{
		900 * time.Millisecond: nil, // the news of its birth may have been in flight
		100 * time.Millisecond: {"1 messages of app/0 to host 1 were lost"},
	} {
		b := newBook()
		b.newsTake = 500 * time.Millisecond
		b.b.heir, b.b.born = true, born
		b.send(100, succeeded)
		b.a.events = append(b.a.events, event{at: 3 * time.Second, host: 1})
		b.check(t, words...)
	}
}

func TestAMessageReportedDeliveredHasNoSuchExcuse(t *testing.T) {
	b := newBook()
	b.send(100, succeeded).accept = true
	b.a.events = append(b.a.events, event{at: 3 * time.Second, host: 1})
	b.check(t, "reported delivered")
}

func TestAFailureNeedsACause(t *testing.T) {
	b := newBook()
	b.send(100, failed)
	b.send(100, cancelled)
	b.check(t, "without a cause")
}

func TestAnOperationThatNeverEndsIsFound(t *testing.T) {
	b := newBook()
	b.send(100, pending)
	b.check(t, "has not ended")
}

func TestOvertakingIsFound(t *testing.T) {
	b := newBook()
	first, second := b.send(100, succeeded), b.send(100, succeeded)
	b.take(second, receive{number: 0, anyTag: true})
	b.take(first, receive{number: 1, anyTag: true})
	b.check(t, "either would have fitted both")
}

func TestMessagesOfTwoTagsMayOvertakeOneAnother(t *testing.T) {
	b := newBook()
	first, second := b.send(100, succeeded), b.send(100, succeeded)
	second.tag = 3
	b.take(second, receive{number: 0, tag: 3})
	b.take(first, receive{number: 1, anyTag: true})
	b.check(t)
}

func TestAnOutcomeIsReadFromTheError(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want outcome
	}{
		{context.Background(), nil, succeeded},
		{ended, nil, succeeded},
		{ended, context.Canceled, cancelled},
		{ended, errors.New("gone"), failed},
		{context.Background(), errors.New("gone"), failed},
	} {
		if got := outcomeOf(c.ctx, c.err); got != c.want {
			t.Errorf("%v, %v: %d", c.ctx, c.err, got)
		}
	}
}

// inSession assigns a session to all messages that are posted or end from now on.
func (b *book) inSession(s uint32) { b.session = func(*life, string) uint32 { return s } }

func TestAHoleIsFound(t *testing.T) {
	b := newBook()
	b.inSession(7)
	b.send(100, succeeded)
	b.take(b.send(100, succeeded), anything)
	b.trusting = true // messages in doubt are not counted
	b.a.ended = true  // and the sender cannot be told
	b.check(t, "a hole")
}

func TestAMessageInSeveralFramesOfWhoseLossNobodyWasToldIsFoundOverAReliableLink(t *testing.T) {
	for size, want := range map[int][]string{1452: nil, 1453: {"lost after their sends"}, limits.StagedMessage: {"lost after their sends"}, limits.StagedMessage + 1: {"lost after their sends"}} {
		b := newBook()
		b.trusting, b.frame = true, 1452
		b.send(size, succeeded)
		b.a.events = append(b.a.events, event{at: 3 * time.Second, host: 1})
		b.check(t, want...)
	}
}

func TestWhatIsMissingAtTheEndOfASessionIsNoHole(t *testing.T) {
	for _, next := range []uint32{7, 8} {
		b := newBook()
		b.inSession(7)
		b.take(b.send(100, succeeded), anything)
		if next == 7 {
			b.send(100, failed)
			b.send(100, cancelled)
		} else {
			b.send(100, succeeded)
		}
		b.inSession(next)
		b.b.events = append(b.b.events, event{at: time.Second, host: 0})
		b.take(b.send(100, succeeded), anything)
		b.trusting, b.a.ended = true, true
		b.audit(func(*message) bool { return true }, map[string]*life{"app/0": b.a, "app/1": b.b})
		if len(b.violations) > 0 {
			t.Errorf("%q", b.violations)
		}
	}
}

func TestASessionOfWhoseEndNobodyWasToldIsFound(t *testing.T) {
	b := newBook()
	b.inSession(7)
	b.take(b.send(100, succeeded), anything)
	b.inSession(8)
	b.take(b.send(100, succeeded), anything)
	b.check(t, "no event has told")
}

func TestAMessageThatMayHaveLeftInAnotherSessionSaysNothing(t *testing.T) {
	b := newBook()
	b.inSession(7)
	m := b.send(100, pending)
	b.inSession(8)
	b.end(m, 2*time.Second, succeeded, nil)
	b.take(b.send(100, succeeded), anything)
	b.a.ended = true
	b.check(t)
}
