package pagepeer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/netmem"
)

// table is a server of both dialects, one for each connection, with the commands that the
// clients here use. Its answers are those of Redis 7.0 and memcached 1.6.
type table struct {
	mu   sync.Mutex
	kept map[string][]byte
	bend func(key string) string // returns the key that is looked up instead of key
}

func (s *table) serve(c net.Conn) error {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		words, value, isRedis, err := command(r)
		if err != nil {
			return err
		}
		s.mu.Lock()
		answer := ""
		switch kept := s.kept[s.bend(words[1])]; {
		case strings.EqualFold(words[0], "set"):
			s.kept[words[1]] = value
			answer = map[bool]string{true: "+OK\r\n", false: "STORED\r\n"}[isRedis]
		case isRedis && kept == nil:
			answer = "$-1\r\n"
		case isRedis:
			answer = "$" + strconv.Itoa(len(kept)) + "\r\n" + string(kept) + "\r\n"
		case kept == nil:
			answer = "END\r\n"
		default:
			answer = "VALUE " + words[1] + " 0 " + strconv.Itoa(len(kept)) + "\r\n" + string(kept) + "\r\nEND\r\n"
		}
		s.mu.Unlock()
		if _, err := io.WriteString(c, answer); err != nil {
			return err
		}
	}
}

// command reads a command with its value.
func command(r *bufio.Reader) (words []string, value []byte, isRedis bool, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, nil, false, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	sized := func(n string) ([]byte, error) {
		size, err := strconv.Atoi(n)
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		_, err = io.ReadFull(r, b)
		return b[:size], err
	}
	if n, ok := strings.CutPrefix(line, "*"); ok {
		count, _ := strconv.Atoi(n)
		for range count {
			head, err := r.ReadString('\n')
			if err != nil {
				return nil, nil, true, err
			}
			if value, err = sized(strings.Trim(head, "$\r\n")); err != nil {
				return nil, nil, true, err
			}
			words = append(words, string(value))
		}
		return words, value, true, nil
	}
	words = strings.Fields(line)
	if words[0] == "set" {
		value, err = sized(words[4])
	}
	return words, value, false, err
}

// listening starts a table that answers for the key bend(key) instead of key.
func listening(t *testing.T, bend func(string) string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &table{kept: make(map[string][]byte), bend: bend}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = s.serve(c) }() // the client reports the error
		}
	}()
	return l.Addr().String()
}

func itself(key string) string { return key }

// servers starts the servers of the tested peers, by the beginning of their kind: those of Weft
// use UDP.
var servers = map[string]func(t *testing.T) string{
	"redis":         func(t *testing.T) string { return listening(t, itself) },
	"memcached":     func(t *testing.T) string { return listening(t, itself) },
	"weft-udp":      pageServer,
	"weft-call-udp": callsServer,
}

func pageServer(t *testing.T) string {
	p, err := weft.Open(t.Context(), weft.Config{Name: PageServer, Plain: true, Link: weft.UDP("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	s, err := netmem.Serve(p, netmem.ServerConfig{Bytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); p.Close() })
	return p.NIC().Addr()
}

func callsServer(t *testing.T) string {
	out, in := io.Pipe()
	go func() { in.CloseWithError(ServeCalls(t.Context(), "", "127.0.0.1", in)) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestEveryPeerReadsThePagesThatItHasPut(t *testing.T) {
	tested := 0
	for _, p := range All() {
		start := servers[strings.TrimSuffix(p.Kind, "-pipelined")]
		if start == nil {
			continue // its link does not work on loopback
		}
		tested++
		t.Run(p.Kind, func(t *testing.T) {
			jobs := contest.PageJobs(10*time.Millisecond).Upto(contest.PageSize, p.Measures...)
			var out bytes.Buffer
			if err := Measure(t.Context(), p.Kind, "127.0.0.1", start(t), jobs, &out); err != nil {
				t.Fatal(err)
			}
			d := json.NewDecoder(&out)
			for _, j := range jobs {
				var s contest.Sample
				if err := d.Decode(&s); err != nil {
					t.Fatal(err)
				}
				if s.Measure != j.Measure || s.Size != j.Size || s.Value <= 0 || (s.Steps.Total() > 0) != (j.Measure == contest.Latency) {
					t.Errorf("asked for %v, told %+v", j, s)
				}
			}
			if d.More() {
				t.Error("told more than was asked")
			}
		})
	}
	if tested != 6 {
		t.Errorf("%d peers were tested, expected 6", tested)
	}
}

func TestAnotherPageThanWasAskedForIsAnError(t *testing.T) {
	other := func(string) string { return key(7) }
	for kind, measure := range map[string]string{"redis": contest.Latency, "redis-pipelined": contest.Reads, "memcached": contest.Reads, "memcached-pipelined": contest.Reads} {
		jobs := contest.Jobs{{Measure: measure, Size: pageBytes, Time: time.Second}}
		err := Measure(t.Context(), kind, "", listening(t, other), jobs, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "page 7 came as the answer for page ") {
			t.Errorf("%s: error %v", kind, err)
		}
	}
}

func TestAPageThatIsNotThereIsAnError(t *testing.T) {
	none := func(string) string { return "none" }
	for kind, want := range map[string]string{"redis": `a GET is answered with "$-1"`, "memcached": `a get is answered with "END"`} {
		jobs := contest.Jobs{{Measure: contest.Latency, Size: pageBytes, Time: time.Second}}
		if err := Measure(t.Context(), kind, "", listening(t, none), jobs, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, expected %q", kind, err, want)
		}
	}
}

// These are real answers of Redis and memcached to a set, a get, a get of a missing key, and
// nonsense.
func TestRecordedAnswersAreRead(t *testing.T) {
	for _, c := range []struct {
		file string
		d    dialect
		says string
	}{{"redis.txt", resp{}, "-ERR"}, {"memcached.txt", memcache{}, "ERROR"}} {
		b, err := os.ReadFile("testdata/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(bytes.NewReader(b))
		value := make([]byte, 16)
		if err := errors.Join(c.d.readStored(r), c.d.readValue(r, value)); err != nil || string(value) != "0123456789abcdef" {
			t.Errorf("%s: a value of %q, error %v", c.file, value, err)
		}
		for _, want := range []string{"is answered with", c.says} {
			if err := c.d.readValue(r, value); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, expected %q", c.file, err, want)
			}
		}
	}
}

func TestABodyThatDoesNotEndWhereItShouldIsAnError(t *testing.T) {
	for d, text := range map[dialect]string{resp{}: "$4\r\nabcdef\r\n", memcache{}: "VALUE k 0 4\r\nabcd\r\nVALUE\r\n"} {
		if err := d.readValue(bufio.NewReader(strings.NewReader(text)), make([]byte, 4)); err == nil || !strings.Contains(err.Error(), "stands behind a value") {
			t.Errorf("%q: error %v", text, err)
		}
	}
	for d, text := range map[dialect]string{resp{}: "$8\r\nabcdefgh\r\n", memcache{}: "VALUE k 0 8\r\nabcdefgh\r\nEND\r\n"} {
		if err := d.readValue(bufio.NewReader(strings.NewReader(text)), make([]byte, 4)); err == nil {
			t.Errorf("%q was taken for a value of 4 bytes", text)
		}
	}
}

func TestAnUnknownKindAndAWrongSizeAreRefused(t *testing.T) {
	if err := Measure(context.Background(), "pigeon", "", "", nil, io.Discard); err == nil || !strings.Contains(err.Error(), `"pigeon"`) {
		t.Errorf("error %v", err)
	}
	jobs := contest.Jobs{{Measure: contest.Latency, Size: 64, Time: time.Millisecond}}
	if err := Measure(t.Context(), "redis", "", listening(t, itself), jobs, io.Discard); err == nil || !strings.Contains(err.Error(), "64 bytes: expected pages of 4096") {
		t.Errorf("error %v", err)
	}
}
