package pmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// talk returns the answers to some lines.
func talk(s *session, lines ...string) (answers []string) {
	for _, line := range lines {
		reply, what, _, err := s.answer([]byte(line))
		switch {
		case err != nil:
			reply = "error: " + err.Error()
		case what == abort:
			reply = "abort"
		}
		answers = append(answers, reply)
	}
	return answers
}

func newSession() *session {
	return &session{job: "job-1", size: 4, mapping: "(vector,(0,2,2))", space: newFabric(1).hosts[0]}
}

func TestTheServerAnswersEachRequest(t *testing.T) {
	s := newSession()
	for _, c := range []struct{ line, want string }{
		{"cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1"},
		{"cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"},
		{"cmd=get_appnum", "cmd=appnum rc=0 appnum=0"},
		{"cmd=get_universe_size", "cmd=universe_size rc=0 size=4"},
		{"cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=job-1"},
		{"cmd=get kvsname=job-1 key=PMI_process_mapping", "cmd=get_result rc=0 msg=success value=(vector,(0,2,2))"},
		{"cmd=get kvsname=job-1 key=PMI_hwloc_xmlfile", "cmd=get_result rc=0 msg=success value="},
		{"cmd=put kvsname=job-1 key=P0-card value=a$b=c#1", "cmd=put_result rc=0 msg=success"},
		{"  key=P0-card \t kvsname=job-1 flavor=new cmd=get ", "cmd=get_result rc=0 msg=success value=a$b=c#1"},
		{"cmd=get kvsname=job-1 key=P1-card", "cmd=get_result rc=-1 msg=key_P1-card_was_not_found"},
		{"cmd=get kvsname=job-2 key=P0-card", `cmd=get_result rc=-1 msg=kvsname_is_"job-2";_expected_"job-1"`},
		{"cmd=put kvsname=job-1 key=P0-card value=b", "cmd=put_result rc=-1 msg=the_key_has_a_value"},
		{"cmd=put kvsname=job-1 key=PMI_own value=b", "cmd=put_result rc=-1 msg=keys_that_begin_with_PMI__are_the_launcher's"},
		{"cmd=put kvsname=job-1 key=s value=two words", "cmd=put_result rc=0 msg=success"},
		{"cmd=barrier_in", "cmd=barrier_out rc=0"},
		{"cmd=publish_name service=s port=p", "cmd=publish_result rc=-1 msg=weft_run_has_no_names_of_services"},
		{"cmd=lookup_name service=s", "cmd=lookup_result rc=-1 msg=weft_run_has_no_names_of_services"},
		{"cmd=abort exitcode=3", "abort"},
		{"cmd=finalize", "cmd=finalize_ack rc=0"},
		{"cmd=make_coffee", `error: unknown command "make_coffee"`},
		{"cmd=init pmi_version=one", "error: malformed line: pmi_version=one of init; expected a number"},
		{"", `error: malformed line: "" has no cmd`},
		{"key=a", `error: malformed line: "key=a" has no cmd`},
		{"hello", `error: malformed line: "hello"; expected NAME=VALUE`},
		{"cmd=get key=a key=b", `error: malformed line: two values of "key"`},
		{"cmd=get\x00", "error: malformed line: byte 0x0 at 7; expected visible ASCII characters"},
		{"cmd=get " + strings.Repeat("a=b ", 2000), "error: malformed line: 8008 bytes; expected at most 4096"},
	} {
		if got := talk(s, c.line)[0]; got != c.want {
			t.Errorf("%.80q: %q; expected %q", c.line, got, c.want)
		}
	}
}

func TestTheServerNegotiatesTheLowerVersion(t *testing.T) {
	for asked, want := range map[string]string{
		"1 pmi_subversion=0": "rc=0 pmi_version=1 pmi_subversion=0",
		"1 pmi_subversion=1": "rc=0 pmi_version=1 pmi_subversion=1",
		"1 pmi_subversion=2": "rc=0 pmi_version=1 pmi_subversion=1",
		"2 pmi_subversion=0": "rc=0 pmi_version=1 pmi_subversion=1",
		"0 pmi_subversion=9": "rc=-1 pmi_version=1 pmi_subversion=1",
	} {
		if got := talk(newSession(), "cmd=init pmi_version="+asked)[0]; got != "cmd=response_to_init "+want {
			t.Errorf("version %s: %q; expected %q", asked, got, want)
		}
	}
}

func TestASpawnIsRefusedAsAWhole(t *testing.T) {
	got := talk(newSession(), "mcmd=spawn", "nprocs=2", "execname=/bin/a b", "cmd=barrier_in", "endcmd", "cmd=get_appnum")
	want := []string{"", "", "", "", "cmd=spawn_result rc=-1 msg=weft_run_starts_no_further_processes", "cmd=appnum rc=0 appnum=0"}
	if !slices.Equal(got, want) {
		t.Errorf("answers %q; expected %q", got, want)
	}
	endless := slices.Repeat([]string{"arg1=x"}, spawnLines)
	if got := talk(newSession(), append([]string{"mcmd=spawn"}, endless...)...); !strings.HasPrefix(got[len(got)-1], "error: malformed line: a spawn request of more than") {
		t.Errorf("an endless spawn request: %q", got[len(got)-1])
	}
}

func TestARankCannotFillTheSpace(t *testing.T) {
	s := newSession()
	refused := func(line string) bool { return strings.HasPrefix(talk(s, line)[0], "cmd=put_result rc=-1") }
	for _, kv := range [][2]string{{strings.Repeat("k", KeyBytes), "v"}, {"k", strings.Repeat("v", ValueBytes)}, {"", "v"}} {
		if !refused("cmd=put kvsname=job-1 key=" + kv[0] + " value=" + kv[1]) {
			t.Errorf("a key of %d and a value of %d bytes are accepted", len(kv[0]), len(kv[1]))
		}
	}
	value := strings.Repeat("v", ValueBytes-1)
	n := 0
	for ; n < rankPuts && !refused(fmt.Sprintf("cmd=put kvsname=job-1 key=k%d value=%s", n, value)); n++ {
	}
	if n < rankBytes/(ValueBytes+KeyBytes) || n > rankBytes/ValueBytes {
		t.Errorf("a rank may put %d large values", n)
	}
	s = newSession()
	for n = 0; n < 2*rankPuts && !refused(fmt.Sprintf("cmd=put kvsname=job-1 key=k%d value=", n)); n++ {
	}
	if n != rankPuts {
		t.Errorf("a rank may put %d empty values; expected %d", n, rankPuts)
	}
}

func TestMappingsShowBlocksOfRanks(t *testing.T) {
	for _, c := range []struct {
		hosts []int
		want  string
		one   bool
	}{
		{[]int{0}, "(vector,(0,1,1))", true},
		{[]int{0, 0, 0}, "(vector,(0,1,3))", true},
		{[]int{0, 0, 1, 1}, "(vector,(0,2,2))", false},
		{[]int{0, 1, 0, 1}, "(vector,(0,2,1),(0,2,1))", false},
		{[]int{0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}, "(vector,(0,2,2),(2,2,4))", false},
		{[]int{2, 2, 0}, "(vector,(2,1,2),(0,1,1))", false},
		{nil, "", false},
	} {
		got := Mapping(c.hosts)
		if got != c.want || OneHost(got) != c.one {
			t.Errorf("hosts %v: %s, one host %v; expected %s, %v", c.hosts, got, OneHost(got), c.want, c.one)
		}
	}
	long := make([]int, 4096)
	for i := range long {
		long[i] = i * 7 % 4096
	}
	if got := Mapping(long); got != "" {
		t.Errorf("a mapping of %d bytes; expected none, since it is longer than a value", len(got))
	}
	for text, want := range map[string]bool{
		"(vector,(0,1,2),(0,1,4))": true, "(vector,(0,1,2),(1,1,4))": false, "": false, "(vector)": false, "(vector,())": false,
		"(vector,(0,1))": false, "(vector,(a,1,2))": false, "(vector,(0,1,-2))": false, "x(vector,(0,1,2))": false,
	} {
		if OneHost(text) != want {
			t.Errorf("one host by %q: %v", text, !want)
		}
	}
}

// serve starts servers for the ranks of a job: ranks[h] are on host h. It returns a client of
// each rank.
func serve(t *testing.T, ranks ...[]int) (clients map[int]*Client, f *fabric) {
	t.Helper()
	size := 0
	for _, r := range ranks {
		size += len(r)
	}
	f, clients = newFabric(len(ranks)), make(map[int]*Client)
	for h, r := range ranks {
		s, err := NewServer(ServerConfig{Name: "job-1", Size: size, Ranks: r}, f.hosts[h])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		for _, rank := range r {
			child, err := s.Connect(rank)
			if err != nil {
				t.Fatal(err)
			}
			// The child's end is passed by number, as in the environment of a rank; takeOver
			// closes it.
			c, err := Dial(t.Context(), At{FD: ownFD(t, child)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() }) // most are closed already
			clients[rank] = c
		}
	}
	return clients, f
}

func TestRanksOfSeveralHostsExchangeValues(t *testing.T) {
	clients, _ := serve(t, []int{0, 1}, []int{2}, []int{3, 4, 5})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for rank, c := range clients {
		all.Go(func() {
			for round := range 3 {
				key := func(of int) string { return fmt.Sprintf("round-%d-rank-%d", round, of) }
				err := errors.Join(c.Put(ctx, key(rank), fmt.Sprint(rank*100+round)), c.Barrier(ctx))
				for of := range clients {
					v, e := c.Get(ctx, key(of))
					if err = errors.Join(err, e); v != fmt.Sprint(of*100+round) {
						t.Errorf("rank %d reads %q of rank %d", rank, v, of)
					}
				}
				if err = errors.Join(err, c.Barrier(ctx)); err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
			if one, err := c.OneHost(ctx); one || err != nil || c.Name() != "job-1" {
				t.Errorf("rank %d: one host %v, %v, job %q", rank, one, err, c.Name())
			}
			if err := c.Finalize(ctx); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	all.Wait()
}

func TestAMissingRankKeepsTheOthersInTheBarrier(t *testing.T) {
	clients, _ := serve(t, []int{0, 1})
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() { waits <- clients[0].Barrier(ctx) }()
	select {
	case err := <-waits:
		t.Errorf("the barrier is over without rank 1: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("the barrier ends with %v; expected the error of its context", err)
	}
}

func TestTheServerReportsAbortsAndBreaches(t *testing.T) {
	f := newFabric(1)
	refused := make(chan error, 4)
	s, err := NewServer(ServerConfig{Name: "job-1", Size: 4, Ranks: []int{0, 1, 2, 3}, Refused: func(_ int, why error) { refused <- why }}, f.hosts[0])
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	send := func(rank int, text string) {
		t.Helper()
		a, b := net.Pipe()
		served := make(chan struct{})
		go func() { _ = s.Serve(rank, b); close(served) }() // reported to Refused
		// the server may close the pipe in the middle
		_, _ = a.Write([]byte(text))
		select {
		case <-served:
			if strings.HasPrefix(text, "cmd=abort") {
				t.Errorf("rank %d: the server closes the connection after an abort; the rank would go on", rank)
			}
		case <-time.After(20 * time.Millisecond):
		}
		_ = a.Close()
		<-served
	}
	send(1, "cmd=abort exitcode=9 message=out of luck\n")
	send(2, "cmd=abort\n")
	send(0, strings.Repeat("x", 2*LineBytes))
	send(3, "cmd=dance\n")
	if want := []string{`rank 1, status 9, message "out of luck"`, `rank 2, status 1, message "exit code 1"`}; !slices.Equal(f.aborts, want) {
		t.Errorf("aborts %q; expected %q", f.aborts, want)
	}
	for _, want := range []string{"rank 0: malformed line: more than 4096 bytes", `rank 3: unknown command "dance"`} {
		if got := <-refused; got.Error() != want {
			t.Errorf("refused: %v; expected %s", got, want)
		}
	}
	if len(refused) > 0 {
		t.Errorf("refused: %v; expected nothing more", <-refused)
	}
}

func TestClosingTheServerEndsEveryWait(t *testing.T) {
	clients, _ := serve(t, []int{0, 1}, []int{2})
	s, err := NewServer(ServerConfig{Name: "j", Size: 2, Ranks: []int{0, 1}}, newFabric(1).hosts[0])
	if err != nil {
		t.Fatal(err)
	}
	child, err := s.Connect(0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), At{FD: ownFD(t, child)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Barrier(t.Context()) }()
	s.Close()
	if err := <-ended; err == nil {
		t.Error("the barrier of a closed server succeeds")
	}
	if _, err := s.Connect(1); !errors.Is(err, errClosed) {
		t.Errorf("a closed server connects a rank: %v", err)
	}
	if err := clients[2].Put(t.Context(), "a", "b"); err != nil {
		t.Errorf("another server: %v", err)
	}
}

func TestServersWithoutANameOrRanksAreRefused(t *testing.T) {
	for _, cfg := range []ServerConfig{
		{Name: "", Size: 1, Ranks: []int{0}}, {Name: "two words", Size: 1, Ranks: []int{0}}, {Name: strings.Repeat("n", NameBytes), Size: 1, Ranks: []int{0}},
		{Name: "j", Size: 1}, {Name: "j", Size: 1, Ranks: []int{1}}, {Name: "j", Size: 1, Ranks: []int{-1}},
	} {
		if s, err := NewServer(cfg, newFabric(1).hosts[0]); err == nil || s != nil {
			t.Errorf("%+v: %v, %v; expected an error", cfg, s, err)
		}
	}
}

func TestADescriptorThatIsNoSocketStaysOpen(t *testing.T) {
	f, fd := someFile(t)
	if _, err := Dial(t.Context(), At{FD: fd}); err == nil || !strings.Contains(err.Error(), "not an open socket, as PMI_FD promises") {
		t.Errorf("a file as PMI_FD: %v", err)
	}
	if _, err := f.Stat(); err != nil {
		t.Errorf("the file is closed: %v", err)
	}
	if _, err := Dial(t.Context(), At{FD: 1 << 20}); err == nil {
		t.Error("a descriptor that is not open serves PMI")
	}
}

// For any input of a rank, the server answers one line or ends the connection, and stays within
// its bounds.
func FuzzSession(f *testing.F) {
	f.Add("cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=put kvsname=job-1 key=a value=b\ncmd=get kvsname=job-1 key=a\ncmd=barrier_in\ncmd=finalize\n")
	f.Add("mcmd=spawn\nnprocs=1\nendcmd\ncmd=abort exitcode=-7\n")
	f.Add("cmd=get kvsname=job-1 key=PMI_x\ncmd=lookup_name service=x\n")
	f.Fuzz(func(t *testing.T, text string) {
		s := newSession()
		for line := range strings.SplitSeq(text, "\n") {
			reply, _, _, err := s.answer([]byte(line))
			if err != nil {
				return
			}
			if strings.ContainsAny(reply, "\n\x00") || len(reply) > LineBytes {
				t.Fatalf("answer %q to %q", reply, line)
			}
			if reply == "" {
				continue
			}
			if _, err := parse([]byte(reply)); err != nil {
				t.Fatalf("answer %q to %q: %v", reply, line, err)
			}
		}
		if s.puts > rankPuts || s.bytes > rankBytes {
			t.Fatalf("%d puts of %d bytes", s.puts, s.bytes)
		}
	})
}
