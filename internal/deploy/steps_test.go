package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
)

// A load is many requests. If any of them fails, the load fails and leaves nothing, unless that
// was the final one.
func TestALoadThatFailsAtAnyOfItsRequestsLeavesNothing(t *testing.T) {
	for n, failed := 1, true; failed; n++ {
		f := newFabric(t, 3)
		asked, at := 0, ""
		f.fails = func(_ registry.NICID, do string) error {
			if asked++; asked == n {
				at = do
				return errDead
			}
			return nil
		}
		placed, err := f.client.Load(t.Context(), f.all(), compiled(t, fmt.Sprintf(counting, 0)), deploy.Options{Start: true})
		failed = at != ""
		f.fails = func(registry.NICID, string) error { return nil }
		// A NIC that does not get it makes the program final by itself.
		if !failed || at == ctl.ProgramSettle {
			if err != nil || len(placed) != 3 {
				t.Errorf("request %d, %q, fails: %v on %d NICs", n, at, err, len(placed))
			}
			f.wantStates("1 counting running", "1 counting running", "1 counting running")
			continue
		}
		if !errors.Is(err, errDead) || placed != nil {
			t.Errorf("request %d, %s, fails: %v on %d NICs", n, at, err, len(placed))
		}
		f.wantStates("", "", "")
		f.wantClean()
	}
}

// sent keeps the requests of a client to one NIC, and answers them like a NIC.
type sent struct {
	requests []ctl.Program
	answer   func(r *ctl.Program) (*ctl.ProgramReply, error)
}

func (s *sent) client() *deploy.Client {
	return &deploy.Client{Ask: func(_ context.Context, _ registry.NICID, r *ctl.Program) (*ctl.ProgramReply, error) {
		s.requests = append(s.requests, *r)
		if s.answer != nil {
			return s.answer(r)
		}
		return &ctl.ProgramReply{Key: 40 + uint64(len(s.requests))}, nil
	}}
}

// Each piece goes under the key from the answer to the piece before. The last bytes make no extra
// piece.
func TestAModuleOfAnyLengthIsBroughtInPiecesThatFit(t *testing.T) {
	for _, size := range []int{0, 1, ctl.ProgramPiece - 1, ctl.ProgramPiece, ctl.ProgramPiece + 1, 2 * ctl.ProgramPiece, 5000} {
		module := make([]byte, size)
		for i := range module {
			module[i] = byte(i * 7 >> 3)
		}
		s := &sent{}
		o := deploy.Options{ID: 5, Replace: true, Start: true, Resident: ctl.ResidentAuto, Guards: "app/1", Outgoing: true, Trigger: 9}
		if _, err := s.client().Load(t.Context(), []registry.NICID{1}, module, o); err != nil {
			t.Fatal(err)
		}
		var got []byte
		key, pieces := uint64(0), max(1, (size+ctl.ProgramPiece-1)/ctl.ProgramPiece)
		for i, r := range s.requests[:pieces] {
			if r.Do != ctl.ProgramPut || r.Key != key || r.Offset != len(got) || r.Total != size || len(r.Bytes) > ctl.ProgramPiece {
				t.Errorf("piece %d of %d bytes: %s under key %d of %d bytes at %d of %d", i, size, r.Do, r.Key, len(r.Bytes), r.Offset, r.Total)
			}
			got, key = append(got, r.Bytes...), 41+uint64(i)
		}
		if !bytes.Equal(got, module) {
			t.Errorf("of %d bytes %d were brought", size, len(got))
		}
		rest := s.requests[pieces:]
		if len(rest) != 3 || rest[0].Do != ctl.ProgramPrepare || rest[1].Do != ctl.ProgramCommit || rest[2].Do != ctl.ProgramSettle {
			t.Fatalf("behind the pieces of %d bytes: %+v", size, rest)
		}
		if p := rest[0]; p.Key != key || p.ID != 5 || !p.Replace || !p.Start || p.Resident != ctl.ResidentAuto || p.Guards != "app/1" || !p.Outgoing || p.Trigger != 9 {
			t.Errorf("it is prepared as %+v", p)
		}
		if rest[1].Key != key+1 || rest[2].Key != key+1 {
			t.Errorf("it is committed under key %d and settled under %d; expected %d", rest[1].Key, rest[2].Key, key+1)
		}
	}
}

// If another tool takes each number as it is chosen, the load gives up after some tries.
func TestALoadThatFindsEachNumberTakenGivesUp(t *testing.T) {
	prepared := 0
	s := &sent{answer: func(r *ctl.Program) (*ctl.ProgramReply, error) {
		if r.Do != ctl.ProgramPrepare {
			return &ctl.ProgramReply{Key: 1}, nil
		}
		if prepared++; r.ID != uint32(prepared) {
			t.Errorf("preparation %d has the number %d", prepared, r.ID)
		}
		return nil, fmt.Errorf("%w: %d", ctl.ErrTaken, r.ID)
	}}
	_, err := s.client().Load(t.Context(), []registry.NICID{1, 2}, compiled(t, fmt.Sprintf(counting, 0)), deploy.Options{})
	if !errors.Is(err, ctl.ErrTaken) || prepared != 1+limits.ProgramPrepared {
		t.Errorf("%v after %d numbers; expected %d", err, prepared, 1+limits.ProgramPrepared)
	}
	s = &sent{answer: func(*ctl.Program) (*ctl.ProgramReply, error) { return nil, errDead }}
	_, err = s.client().Load(t.Context(), []registry.NICID{1, 2}, compiled(t, fmt.Sprintf(counting, 0)), deploy.Options{})
	if !errors.Is(err, errDead) || !strings.Contains(err.Error(), "NIC 0:0:0:0:0:0:0:1") || !strings.Contains(err.Error(), "loaded nowhere") || len(s.requests) != 1 {
		t.Errorf("a NIC that does not list its programs: %v after %d requests", err, len(s.requests))
	}
}

func TestAnErrorNamesItsNICOnce(t *testing.T) {
	named := fmt.Errorf("NIC %v is down", registry.NICID(7))
	for _, c := range []struct {
		nic  registry.NICID
		err  error
		want string
	}{
		{7, errDead, "NIC 0:0:0:0:0:0:0:7: it does not answer"},
		{7, named, named.Error()},
		{8, named, "NIC 0:0:0:0:0:0:0:8: " + named.Error()},
		{0, errDead, "the NIC of this host: it does not answer"},
		{0, errors.New("at 0:0:0:0:0:0:0:0"), "the NIC of this host: at 0:0:0:0:0:0:0:0"},
	} {
		if err := deploy.At(c.nic, c.err); err.Error() != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q; expected %q", err, c.want)
		}
	}
}

func TestListsAndLogsOfManyAnswersComeWhole(t *testing.T) {
	const all = 5
	s := &sent{}
	s.answer = func(r *ctl.Program) (*ctl.ProgramReply, error) {
		reply := &ctl.ProgramReply{First: max(r.From, 2), Values: []int64{int64(max(r.From, 2))}, Programs: []ctl.ProgramInfo{{ID: uint32(r.From)}}}
		if reply.Next = reply.First + 1; r.Do == ctl.ProgramList {
			reply.Next = r.From + 1
		}
		if reply.Next >= all {
			reply.Next = 0
		}
		return reply, nil
	}
	l, err := s.client().List(t.Context(), 1)
	if err != nil || len(l) != all || l[4].ID != 4 || len(s.requests) != all {
		t.Errorf("%d programs, %v after %d requests", len(l), err, len(s.requests))
	}
	values, first, err := s.client().Log(t.Context(), 1, 5, "", 0)
	if err != nil || first != 2 || fmt.Sprint(values) != "[2 3 4]" {
		t.Errorf("the log has %v from %d on, %v", values, first, err)
	}
	for _, ask := range map[string]func(c *deploy.Client) error{
		"list": func(c *deploy.Client) error { _, err := c.List(t.Context(), 1); return err },
		"log":  func(c *deploy.Client) error { _, _, err := c.Log(t.Context(), 1, 5, "", 0); return err },
		"info": func(c *deploy.Client) error { _, err := c.Info(t.Context(), 1, 5, ""); return err },
	} {
		s := &sent{answer: func(*ctl.Program) (*ctl.ProgramReply, error) { return nil, errDead }}
		if err := ask(s.client()); !errors.Is(err, errDead) || len(s.requests) != 1 {
			t.Errorf("%v after %d requests", err, len(s.requests))
		}
	}
}

func TestTheDescriptionOfOneProgramIsOfOneProgram(t *testing.T) {
	for n, good := range map[int]bool{0: false, 1: true, 2: false} {
		s := &sent{answer: func(*ctl.Program) (*ctl.ProgramReply, error) {
			return &ctl.ProgramReply{Programs: make([]ctl.ProgramInfo, n)}, nil
		}}
		info, err := s.client().Info(t.Context(), 3, 5, "pong")
		if good != (err == nil && info != nil) {
			t.Errorf("%d descriptions: %v", n, err)
		}
		if r := s.requests[0]; r.Do != ctl.ProgramList || r.ID != 5 || r.Name != "pong" {
			t.Errorf("asked for %+v", r)
		}
	}
}
