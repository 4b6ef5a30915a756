package daemon_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/testbed"
)

// Three hosts are on a network that loses 4 % of the frames. Each has two processes, which stream
// messages to all others. Again and again, processes and daemons are killed, and daemons are
// stopped. Each process keeps a diary in a file that outlives it. From the diaries the test
// judges what each process received from each other (decision 6).

const streamers = 6 // processes, two on each host

// stage holds the hosts, and the present lives of their processes.
type stage struct {
	t       *testing.T
	tb      *testbed.Testbed
	configs []daemon.Config
	daemons []*exec.Cmd
	present [streamers]*streamerLife
	all     []*streamerLife
	rng     *rand.Rand
}

// streamerLife is one life of a process.
type streamerLife struct {
	streamerConfig
	nic   uint32
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan error
}

func (st *stage) host(process int) int { return process % len(st.configs) }

// nicAt returns the id of the NIC of a host.
func nicAt(host int) uint32 { return uint32(host + 1) }

// enter begins a life of a process.
func (st *stage) enter(process int) {
	st.t.Helper()
	n := len(st.all)
	lf := &streamerLife{nic: nicAt(st.host(process)), ended: make(chan error, 1), streamerConfig: streamerConfig{Socket: st.configs[st.host(process)].Socket, Index: process, Life: uint32(n + 1),
		Diary: filepath.Join(filepath.Dir(st.configs[0].Socket), fmt.Sprintf("%d.diary", n+1))}}
	arg, err := json.Marshal(lf.streamerConfig)
	if err != nil {
		st.t.Fatal(err)
	}
	lf.cmd = exec.Command("/proc/self/exe")
	if lf.stdin, err = lf.cmd.StdinPipe(); err != nil {
		st.t.Fatal(err)
	}
	begin(st.t, lf.cmd, lf.cmd.Start, "streamer", string(arg))
	go func() { lf.ended <- lf.cmd.Wait() }()
	st.present[process], st.all = lf, append(st.all, lf)
}

// killProcess kills a process, and begins another of the same name.
func (st *stage) killProcess(process int) {
	lf := st.present[process]
	lf.cmd.Process.Kill()
	<-lf.ended
	st.enter(process)
}

// flood makes the processes of a host flood the others, and returns in the middle of it: some of
// their messages have arrived and wait for lost ones.
func (st *stage) flood(host int) {
	st.t.Helper()
	for i, lf := range st.present {
		if st.host(i) == host {
			if _, err := lf.stdin.Write([]byte{1}); err != nil {
				st.t.Fatal(err)
			}
		}
	}
	time.Sleep(floodTime/4 + time.Duration(st.rng.Int64N(int64(floodTime/4))))
}

// stopDaemon stops a daemon in the middle of a flood, for so long that the others give it up, or
// nearly. All processes live on.
func (st *stage) stopDaemon(host int) {
	st.t.Helper()
	st.flood(host)
	d := st.daemons[host].Process
	if err := d.Signal(syscall.SIGSTOP); err != nil {
		st.t.Fatal(err)
	}
	time.Sleep(streamerUnreachable/2 + time.Duration(st.rng.Int64N(int64(2*streamerUnreachable))))
	if err := d.Signal(syscall.SIGCONT); err != nil {
		st.t.Fatal(err)
	}
}

// killDaemon kills a daemon in the middle of a flood. Its processes end by themselves. After a
// while, the daemon comes back, and other processes with their names.
func (st *stage) killDaemon(host int) {
	st.t.Helper()
	st.flood(host)
	d := st.daemons[host]
	d.Process.Kill()
	d.Wait()
	for i, lf := range st.present {
		if st.host(i) == host {
			if err := ends(st.t, fmt.Sprintf("life %d, whose daemon was killed,", lf.Life), lf.ended); err != nil {
				st.t.Errorf("life %d, whose daemon was killed: %v", lf.Life, err)
			}
		}
	}
	time.Sleep(time.Duration(st.rng.Int64N(int64(3 * streamerUnreachable / 2))))
	st.daemons[host] = beginHost(st.t, st.tb.Host(host), st.configs[host])
	for i := range st.present {
		if st.host(i) == host {
			st.enter(i)
		}
	}
}

// streamerUnreachable is unreachable_after of these daemons.
const streamerUnreachable = time.Second

func TestWhatAProcessReceivesOfAnotherIsAPrefixOfWhatThatOneSent(t *testing.T) {
	lasting, processes, daemons := 6*time.Second, 1500*time.Millisecond, 2*time.Second
	if *long {
		lasting, processes, daemons = 5*time.Minute, 9*time.Second, 16*time.Second
	}
	tb, configs := lossyConfigs(t, 3, "udp", 0.04)
	st := &stage{t: t, tb: tb, configs: configs, daemons: make([]*exec.Cmd, len(configs)), rng: rand.New(rand.NewPCG(1, 2))}
	for i := range configs { // before the first starts
		bind(t, configs, i, fmt.Sprintf("0:0:0:0:0:0:0:%d", nicAt(i)))
	}
	for i := range configs {
		configs[i].UnreachableAfter = daemon.Duration(streamerUnreachable)
		configs[i].Log = "error"
		st.daemons[i] = beginHost(t, tb.Host(i), configs[i])
	}
	for i := range st.present {
		st.enter(i)
	}
	end := time.Now().Add(lasting)
	process, host := 0, 0
	for nextProcess, nextDaemon := time.Now().Add(processes), time.Now().Add(daemons); time.Now().Before(end); {
		if nextProcess.Before(nextDaemon) {
			time.Sleep(time.Until(nextProcess))
			nextProcess = nextProcess.Add(processes)
			st.killProcess(process % streamers)
			process += 5
		} else {
			time.Sleep(time.Until(nextDaemon))
			nextDaemon = nextDaemon.Add(daemons)
			if host%2 == 0 {
				st.killDaemon(host % len(configs))
			} else {
				st.stopDaemon(host % len(configs))
			}
			host++
		}
	}
	st.rest()
	judgeDiaries(t, st.all)
	if drops, err := tb.Drops(); err != nil || drops.Dropped == 0 {
		t.Errorf("the network has lost nothing: %+v, %v", drops, err)
	}
}

// rest waits until each of the last lives has heard from every other, and then ends them.
func (st *stage) rest() {
	st.t.Helper()
	for end := time.Now().Add(patience); !st.allHeard(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			st.t.Fatal("of the processes that live, some hear nothing of others")
		}
	}
	for _, lf := range st.present {
		lf.stdin.Close()
	}
	for _, lf := range st.present {
		if err := ends(st.t, fmt.Sprintf("life %d", lf.Life), lf.ended); err != nil {
			st.t.Errorf("life %d: %v", lf.Life, err)
		}
	}
}

func (st *stage) allHeard() bool {
	for i, lf := range st.present {
		heard := map[uint32]bool{}
		for _, e := range readDiary(st.t, lf.Diary) {
			heard[e.life] = heard[e.life] || e.kind == diaryReceived
		}
		for k, other := range st.present {
			if i != k && !heard[other.Life] {
				return false
			}
		}
	}
	return true
}

// judgeDiaries compares what each life has received from each other with what that one has sent.
func judgeDiaries(t *testing.T, all []*streamerLife) {
	t.Helper()
	type message struct {
		from uint32 // life
		to   byte   // process
		seq  uint32
	}
	sent, taken := map[message]bool{}, map[message]uint32{}
	diaries := make([][]diaryEntry, len(all))
	failed, received, cuts, waited := 0, 0, 0, 0
	for i, lf := range all {
		diaries[i] = readDiary(t, lf.Diary)
		for _, e := range diaries[i] {
			switch e.kind {
			case diarySent:
				sent[message{lf.Life, e.process, e.seq}] = true
			case diaryFailed:
				failed++
			case diaryHung:
				t.Errorf("message %d of life %d to process %d: its sending has not ended", e.seq, lf.Life, e.process)
			case diaryWrong:
				t.Errorf("life %d got a message with wrong bytes: number %d of life %d", lf.Life, e.seq, e.life)
			}
		}
	}
	for i, lf := range all {
		last := map[uint32]uint32{} // message, by life
		// The last message at the time when the end of a session was reported. A first message
		// may still be unread then.
		ends := map[uint32][]uint32{}
		for _, e := range diaries[i] {
			switch e.kind {
			case diaryEnded:
				for _, other := range all {
					if e.life == anyNIC || e.life == other.nic {
						ends[other.Life] = append(ends[other.Life], last[other.Life])
					}
				}
				continue
			case diaryReceived:
			default:
				continue
			}
			received++
			m := message{e.life, byte(lf.Index), e.seq}
			if before, twice := taken[m]; twice {
				t.Errorf("message %d of life %d came to life %d and again to life %d", e.seq, e.life, before, lf.Life)
			}
			taken[m] = lf.Life
			l, begun := last[e.life]
			last[e.life] = e.seq
			if begun && e.seq < l {
				t.Errorf("life %d got message %d of life %d after message %d", lf.Life, e.seq, e.life, l)
			}
			var lost []uint32
			for m.seq = l + 1; begun && m.seq < e.seq; m.seq++ {
				if sent[m] {
					lost = append(lost, m.seq)
				}
			}
			switch told := ends[e.life]; {
			case len(lost) > 0 && len(told) > 0:
				ends[e.life] = told[1:] // each session has one end
				cuts++
				if told[0] < l {
					waited++
				}
			case len(lost) > 0:
				t.Errorf("life %d got messages %d and %d of life %d, and not %d, which were sent without error, and was told of no session's end since what it lacks before", lf.Life, l, e.seq, e.life, lost)
			}
		}
	}
	t.Logf("%d lives, %d messages sent without error, %d failed; %d received, %d sessions whose end did not come, of %d the rest came after it was told", len(all), len(sent), failed, received, cuts, waited)
	if received == 0 || len(sent) == 0 {
		t.Error("nothing was sent and received")
	}
}

// A diary is a file of entries of diaryBytes each. Each entry is one write, so the file is whole
// up to the moment of a kill.
type diaryEntry struct {
	kind    byte
	process byte   // the receiver, or the sender
	life    uint32 // the sender's or receiver's; in diaryEnded, the NIC
	seq     uint32
}

const anyNIC = 0 // events were missed: any session may have ended

const (
	diarySent = iota + 1
	diaryFailed
	diaryHung
	diaryReceived
	diaryEnded // a session with a NIC
	diaryWrong

	diaryBytes = 12
)

func readDiary(t *testing.T, path string) (l []diaryEntry) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for ; len(b) >= diaryBytes; b = b[diaryBytes:] {
		l = append(l, parseDiary(b))
	}
	return l
}
