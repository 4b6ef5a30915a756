package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	weftlib "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/program"
)

// plainResident is the part of a configuration that lets programs reside in the driver of a
// sealed link.
const plainResident = "[programs]\nplain_resident = true\n"

// residentNICs starts two daemons on separate hosts, joined by a cable that AF_XDP drives. Both
// configurations end with more. If that is not possible, it skips the test, with the reason.
func residentNICs(t *testing.T, more string) (sockets [2]string, pids [2]int) {
	t.Helper()
	p := residentNICsOf(t, testbed.DefaultMTU, more)
	return p.sockets, p.pids
}

// residentPair holds the daemons of residentNICs, with their hosts.
type residentPair struct {
	bed     *testbed.Testbed
	sockets [2]string
	pids    [2]int
	logs    [2]lockedBuffer
}

// residentNICsOf is residentNICs on a cable with an MTU in bytes.
func residentNICsOf(t *testing.T, mtu int, more string) *residentPair {
	t.Helper()
	bed, err := testbed.New(testbed.Config{Hosts: 2, MTU: mtu})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { bed.Close() })
	dir, p := t.TempDir(), &residentPair{bed: bed}
	sockets := &p.sockets
	for i := range sockets {
		text := fmt.Sprintf("id = %q\nlisten = \"%v:7700\"\nlink = \"xdp\"\n%s", nicIDs[i], bed.Host(i).Addr(), more)
		for k := range sockets {
			text += boundNode(t, k, filepath.Join(dir, fmt.Sprint(k)), fmt.Sprintf("%v:7700", bed.Host(k).Addr()))
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.toml", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sockets[i] = filepath.Join(dir, fmt.Sprintf("%d.sock", i))
		c := bed.Host(i).Command(t.Context(), "/proc/self/exe", "nic", "--config", file, "--socket", sockets[i], "--state-dir", filepath.Join(dir, fmt.Sprint(i)))
		c.Env = append(os.Environ(), asWeft+"=1")
		log := &p.logs[i]
		c.Stderr = log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		p.pids[i] = c.Process.Pid
		eventually(t, "a NIC is up", func() bool {
			if strings.Contains(log.String(), "AF_XDP unavailable") {
				t.Skip(log.String())
			}
			return strings.Contains(log.String(), "NIC is up")
		})
	}
	for _, s := range sockets {
		eventually(t, "the NICs are up", func() bool { return strings.Contains(must(t, "nodes", "--socket", s), " up ") })
	}
	return p
}

// switches returns how often the threads of a process have gone to sleep.
func switches(t *testing.T, pid int) (n int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if m := regexp.MustCompile(`(?m)^voluntary_ctxt_switches:\s*(\d+)`).FindSubmatch(b); m != nil {
			k, _ := strconv.Atoi(string(m[1]))
			n += k
		}
	}
	return n
}

// framesIn returns how many frames have come to a NIC's engine.
func framesIn(t *testing.T, socket string) int {
	t.Helper()
	var r struct {
		Counters map[string]float64 `json:"counters"`
	}
	out := must(t, "stat", "--json", "--socket", socket)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err, out)
	}
	n, ok := r.Counters["link_frames_in"]
	if !ok {
		t.Fatalf("no link_frames_in in %s", out)
	}
	return int(n)
}

const residentExchanges = 2000

// manySource sends to program 415 of a NIC again and again, each time after the answer has come.
// At the end it displays the number of answers.
const manySource = `PROGRAM many: CONST exchanges = 2000;
VAR peer, n, data[8]; TRIGGERS 1, 10;
BEGIN END;
MESSAGE 1: BEGIN peer = PACKET[0]; n = 0; SEND data[0] LEN 64 AS 12 TO 415 AT peer END;
MESSAGE 10: BEGIN
    n = n + 1;
    IF n < exchanges THEN BEGIN SEND data[0] LEN 64 AS 12 TO 415 AT peer; AWAIT END;
    DISPLAY n
END;
END;
`

// echoSource answers and counts its answers. Trigger 13 displays the count, and adds to it.
const echoSource = `PROGRAM echo: VAR n; TRIGGERS 12, 13, 14;
BEGIN n = 5 END;
MESSAGE 12: BEGIN n = n + 1; SEND PACKET[0] LEN PACKETLEN AS 10 TO 416 AT SOURCE END;
MESSAGE 13: BEGIN DISPLAY n; n = n + PACKET[0] END;
MESSAGE 14: BEGIN STOP END;
END;
`

// The driver answers a message for a program there: the engine of the NIC gets no frame for it,
// and the NIC's process sleeps.
func TestAProgramInTheDriverAnswersWhileItsNICSleeps(t *testing.T) {
	sockets, pids := residentNICs(t, plainResident)
	here, there := sockets[0], sockets[1]
	echo := sourceFile(t, "echo", echoSource)
	log := func(program, socket string) []string {
		return strings.Fields(must(t, "program", "log", program, "--socket", socket))
	}
	if out := must(t, "program", "load", echo, "--id", "415", "--resident", "xdp", "--socket", there); !strings.Contains(out, "in the driver of its link") {
		t.Fatalf("loading said %q", out)
	}
	must(t, "program", "load", sourceFile(t, "many", manySource), "--id", "416", "--resident", "vm", "--socket", here)
	nic := fmt.Sprint(0x0060dd7fff8c) // nicIDs[1]
	shown := 0
	run := func() (frames, slept int) {
		t.Helper()
		frames, slept = framesIn(t, there), switches(t, pids[1])
		must(t, "program", "send", "416", "1", nic, "--socket", here)
		shown++
		eventually(t, "all are answered", func() bool { return len(log("416", here)) == shown })
		return framesIn(t, there) - frames, switches(t, pids[1]) - slept
	}
	eventually(t, "the other NIC knows that it is resident", func() bool { f, _ := run(); return f < residentExchanges/4 })
	if frames, slept := run(); frames > residentExchanges/10 || slept > residentExchanges/4 {
		t.Errorf("%d answers cost the far NIC %d frames, and its process has been woken about %d times", residentExchanges, frames, slept)
	}
	if out := must(t, "program", "list", "--socket", there); !regexp.MustCompile(`(?m)^415 +echo .*running, resident: xdp +3 +(\d{4,}) +0 `).MatchString(out) {
		t.Errorf("the list of programs is\n%s", out)
	}

	// A message that comes to the engine finds the same variables, and leaves them to the
	// driver.
	must(t, "program", "send", "415", "13", "1000", "--socket", there)
	must(t, "program", "send", "415", "13", "0", "--socket", there)
	var first, second int
	eventually(t, "the count is displayed", func() bool { n, _ := fmt.Sscan(strings.Join(log("415", there), " "), &first, &second); return n == 2 })
	if first < 5+residentExchanges || (first-5)%residentExchanges > shown || second != first+1000 {
		t.Errorf("the program in the driver has counted %d, and then %d", first, second)
	}
	run()
	must(t, "program", "load", echo, "--id", "415", "--replace", "--resident", "vm", "--socket", there)
	must(t, "program", "send", "415", "13", "0", "--socket", there)
	eventually(t, "the count goes on in the virtual machine", func() bool {
		l := log("415", there)
		return len(l) == 3 && l[2] == fmt.Sprint(second+residentExchanges)
	})
	if frames, _ := run(); frames < residentExchanges {
		t.Errorf("%d answers of the virtual machine cost %d frames: what the test counts is not what comes", residentExchanges, frames)
	}
	must(t, "program", "unload", "415", "--socket", there)
}

func TestAProgramInTheDriverShowsWhatItDisplaysAndStops(t *testing.T) {
	sockets, _ := residentNICs(t, plainResident)
	source := `PROGRAM echo: VAR n; TRIGGERS 12, 14;
BEGIN n = 7 END;
MESSAGE 12: BEGIN DISPLAY n; n = n + 1 END;
MESSAGE 14: BEGIN STOP END;
END;
`
	ask := `PROGRAM ask: TRIGGERS 1; VAR d; BEGIN END; MESSAGE 1: BEGIN SEND d LEN 8 AS PACKET[1] TO 415 AT PACKET[0] END; END;`
	here, there := sockets[0], sockets[1]
	must(t, "program", "load", sourceFile(t, "echo", source), "--id", "415", "--resident", "xdp", "--socket", there)
	must(t, "program", "load", sourceFile(t, "ask", strings.Replace(ask, "TRIGGERS 1; VAR d;", "VAR d; TRIGGERS 1;", 1)), "--id", "416", "--socket", here)
	send := func(trigger string) {
		must(t, "program", "send", "416", "1", fmt.Sprint(0x0060dd7fff8c), trigger, "--socket", here)
	}
	for want := 7; want < 10; want++ {
		send("12")
		eventually(t, "it is displayed", func() bool {
			l := strings.Fields(must(t, "program", "log", "415", "--socket", there))
			return len(l) == want-6 && l[want-7] == fmt.Sprint(want)
		})
	}
	send("14")
	eventually(t, "it has stopped", func() bool {
		return regexp.MustCompile(`(?m)^415 +echo .*stopped, resident: xdp`).MatchString(must(t, "program", "list", "--socket", there))
	})
}

func TestAProgramThatCannotResideInTheDriverSaysWhy(t *testing.T) {
	sockets, _ := residentNICs(t, plainResident)
	twice := sourceFile(t, "twice", `PROGRAM twice: VAR n; TRIGGERS 1;
BEGIN END;
MESSAGE 1: BEGIN
    SEND n LEN 8 AS 1 TO 2 AT SOURCE;
    SEND n LEN 8 AS 1 TO 2 AT SOURCE
END;
END;
`)
	status, _, stderr := weft("program", "load", twice, "--resident", "xdp", "--socket", sockets[0])
	if status == 0 || !strings.Contains(stderr, "line 5: a second SEND") || !strings.Contains(stderr, "loaded nowhere") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if out := must(t, "program", "load", twice, "--resident", "auto", "--socket", sockets[0]); !strings.Contains(out, "in the virtual machine, since") || !strings.Contains(out, "line 5: a second SEND") {
		t.Errorf("loading said %q", out)
	}
	udp := startProgramNICs(t, 1)[0]
	echo := sourceFile(t, "echo", echoSource)
	if status, _, stderr := weft("program", "load", echo, "--resident", "xdp", "--socket", udp); status == 0 || !strings.Contains(stderr, "is not AF_XDP") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if status, _, stderr := weft("program", "load", echo, "--resident", "on", "--socket", udp); status != exitUsage || !strings.Contains(stderr, "expected one of auto, vm, xdp") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// A program in the driver delivers into a segment and sets a flag. A process of the daemon that
// sleeps on that flag wakes.
func TestAProgramInTheDriverWakesAProcessByAFlag(t *testing.T) { // PANIC-24, PANIC-25
	sockets, _ := residentNICs(t, plainResident)
	here, there := sockets[0], sockets[1]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := weftlib.Attach(ctx, weftlib.AttachConfig{Socket: there, Name: weftlib.Name{App: "sleeper"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := p.SharedSegment(1, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	take := `PROGRAM take: TRIGGERS 12; BEGIN END;
MESSAGE 12: BEGIN DELIVER PACKET[0] OFFSET 8 INTO 1 LEN 8; CLEAR LOCK 257; SET FLAG 256 END; END;`
	ask := `PROGRAM ask: VAR n; TRIGGERS 1; BEGIN END;
MESSAGE 1: BEGIN n = PACKET[1]; SEND n LEN 8 AS 12 TO 415 AT PACKET[0] END; END;`
	must(t, "program", "load", sourceFile(t, "take", take), "--id", "415", "--resident", "xdp", "--socket", there)
	must(t, "program", "load", sourceFile(t, "ask", ask), "--id", "416", "--socket", here)
	for round := 1; round <= 5; round++ {
		s.Lock(1)
		woken := make(chan error)
		go func() { woken <- s.WaitFlag(ctx, 0) }()
		time.Sleep(5 * time.Millisecond) // let it sleep
		must(t, "program", "send", "416", "1", fmt.Sprint(0x0060dd7fff8c), fmt.Sprint(round), "--socket", here)
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint64(s.Bytes()[8:]); got != uint64(round) || s.Locked(1) {
			t.Errorf("round %d: the program has delivered %d; the lock is set: %v", round, got, s.Locked(1))
		}
	}
	if out := must(t, "program", "list", "--socket", there); !regexp.MustCompile(`(?m)^415 +take .*resident: xdp +1 +6 +0 `).MatchString(out) {
		t.Errorf("the list of programs is\n%s", out)
	}
}

// If a program in the driver cannot reach a segment, the tool says so and why, as long as the
// segment exists. The program reaches the other segments.
func TestASegmentThatIsTooLongForTheDriverIsSaidToBe(t *testing.T) { // PANIC-23
	sockets, _ := residentNICs(t, plainResident)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := weftlib.Attach(ctx, weftlib.AttachConfig{Socket: sockets[1], Name: weftlib.Name{App: "owner"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	take := `PROGRAM take: TRIGGERS 12; BEGIN END; MESSAGE 12: BEGIN DELIVER PACKET[0] OFFSET 8 INTO 9 LEN 8 END; END;`
	must(t, "program", "load", sourceFile(t, "take", take), "--id", "415", "--resident", "xdp", "--socket", sockets[1])
	const why = "segment 9 in the driver: 16777216 bytes; at most 16777215"
	lacks := func(want bool) {
		t.Helper()
		for _, args := range [][]string{{"list"}, {"profile", "take"}} {
			if out := must(t, append(append([]string{"program"}, args...), "--socket", sockets[1])...); strings.Contains(out, why) != want {
				t.Errorf("weft program %v says, want the reason: %v\n%s", args, want, out)
			}
		}
	}
	lacks(false)
	s, err := p.SharedSegment(9, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	lacks(true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	lacks(false)
}

// The asker is a process, or a program that is not resident itself. The driver knows nothing but
// their numbers.
func TestAProgramInTheDriverAnswersWhatHasAsked(t *testing.T) { // PANIC-4
	sockets, _ := residentNICs(t, plainResident)
	here, there := sockets[0], sockets[1]
	must(t, "program", "load", "../../examples/programs/directory.pdl", "--id", "20", "--resident", "xdp", "--socket", there)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := weftlib.Attach(ctx, weftlib.AttachConfig{Socket: here, Name: weftlib.Name{App: "asker"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	directory := program.Address{NIC: 0x0060dd7fff8c, ID: 20} // nicIDs[1]
	programs := program.On(p)
	if err := programs.SendHandled(ctx, directory, 1, binary.LittleEndian.AppendUint64(nil, 7), binary.LittleEndian.AppendUint64(nil, 49)); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := programs.Send(ctx, directory, 2, binary.LittleEndian.AppendUint64(nil, uint64(programs.Number())), binary.LittleEndian.AppendUint64(nil, 7)); err != nil {
			t.Fatal(err)
		}
		var answer [16]byte
		if _, err := p.Recv(ctx, program.NameOf(20), 2, answer[:]); err != nil || answer[0] != 1 || answer[8] != 49 {
			t.Fatalf("the answer is %v, %v", answer, err)
		}
	}
	ask := `PROGRAM ask: VAR q[2]; TRIGGERS 1, 2; BEGIN q[0] = 416; q[1] = 7 END;
MESSAGE 1: BEGIN SEND q[0] LEN 16 AS 2 TO 20 AT PACKET[0] END;
MESSAGE 2: BEGIN DISPLAY PACKET[1] END; END;`
	must(t, "program", "load", sourceFile(t, "ask", ask), "--id", "416", "--socket", here)
	must(t, "program", "send", "416", "1", fmt.Sprint(uint64(directory.NIC)), "--socket", here)
	eventually(t, "the program has its answer", func() bool { return strings.TrimSpace(must(t, "program", "log", "416", "--socket", here)) == "49" })
}

// The keys of a sealed link stay in the NIC, and a program in the driver would need them.
func TestOnASealedLinkNoProgramResidesInTheDriver(t *testing.T) {
	sockets, _ := residentNICs(t, "")
	echo := sourceFile(t, "echo", echoSource)
	const why = "echo cannot reside in the driver: the link is sealed, and the keys of its frames never enter eBPF maps; plain_resident = true under [programs]"
	status, _, stderr := weft("program", "load", echo, "--id", "415", "--resident", "xdp", "--socket", sockets[0])
	if status == 0 || !strings.Contains(stderr, why) {
		t.Errorf("--resident xdp: %d %s; want %q", status, stderr, why)
	}
	if out := must(t, "program", "load", echo, "--id", "415", "--resident", "auto", "--socket", sockets[0]); !strings.Contains(out, why) {
		t.Errorf("--resident auto says %s; want %q", out, why)
	}
	if out := must(t, "program", "list", "--socket", sockets[0]); !strings.Contains(out, "resident: vm") {
		t.Errorf("the list says %s; want a program that resides in the virtual machine", out)
	}
}
