package ebpf_test

import (
	"errors"
	"strings"
	"testing"

	cilium "github.com/cilium/ebpf"

	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/ebpf"
	"github.com/weftnet/weft/pdl/prog"
)

func compiled(t testing.TB, src string) *prog.Module {
	t.Helper()
	m, err := pdl.Compile("test.pdl", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// handler returns a program with one block, whose first line is line 2.
func handler(body string) string {
	return "PROGRAM p: VAR a, b, c, v[300]; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN\n" + body + "\nEND; END"
}

func TestCheckSaysWhichLineCannotReside(t *testing.T) {
	const send = "SEND a LEN 8 AS 1 TO 2 AT SOURCE;\n"
	for body, want := range map[string]string{
		send: "",
		"IF a THEN\n" + send[:len(send)-2] + "\nELSE\n" + send: "",
		"IF a THEN BEGIN\n" + send + "AWAIT END;\n" + send:     "",
		send + send:                                                                      "line 3: a second SEND",
		"IF a THEN\n" + send + "b = 1;\n" + send:                                         "line 5: a second SEND",
		"WHILE a < 3 DO BEGIN\n" + send + "a = a + 1 END":                                "line 3: a second SEND",
		send + "IF a THEN\nPASS":                                                         "",
		"SEND a LEN 8 AS 1 TO 2":                                                         "line 2: SEND without AT",
		"SEND PACKET[0] LEN 8 AS 1 TO 2":                                                 "line 2: SEND without AT",
		"b = 1;\nSEND a LEN 8 AS 1 TO 2 AT b":                                            "line 3: SEND has another NIC",
		"SEND a LEN 8 AS 1 TO 2 AT 1:2:3:4:5:6:7:8":                                      "line 2: SEND has another NIC",
		"SEND a LEN 8 AS 1 TO 2 AT node":                                                 "line 2: SEND has another NIC",
		"SEND a LEN 8 AS 1 TO log":                                                       "line 2: SEND without AT",
		"SEND a LEN 8 AS 1 TO log AT SOURCE":                                             "line 2: TO log: only the engine knows which program",
		"SEND v[0] LEN 2400 AS 1 TO 2 AT SOURCE":                                         "line 2: SEND of 2400 bytes",
		"WHILE 1 DO\na = a + 1":                                                          "line 2: it cannot be seen that this loop ends",
		"a = 0;\nWHILE a < 9 DO\na = a + 1":                                              "",
		"WHILE a > b DO\na = a - 2":                                                      "",
		"WHILE b < a DO\na = a - 2":                                                      "",
		"WHILE NOT (a >= 9) AND b <> c DO BEGIN\nb = v[a & 7];\na = a + 1 END":           "",
		"WHILE a < 9 DO\na = a - 1":                                                      "line 2: it cannot be seen",
		"WHILE a < 9 DO\na = a * 2":                                                      "line 2: it cannot be seen",
		"WHILE a < 9 OR b DO\na = a + 1":                                                 "line 2: it cannot be seen",
		"WHILE a < b DO BEGIN\na = a + 1;\nb = b + 1 END":                                "line 2: it cannot be seen",
		"WHILE a < 9 DO\nIF b THEN a = a + 1":                                            "line 2: it cannot be seen",
		"WHILE a < 9 DO BEGIN\na = a + 1;\nIF b THEN a = 0 END":                          "line 2: it cannot be seen",
		"WHILE a <> 9 DO\na = a + 1":                                                     "line 2: it cannot be seen",
		"WHILE a < 9 DO BEGIN\nGET a OFFSET 0 FROM 1 LEN 8;\na = a + 1 END":              "line 2: it cannot be seen",
		"b = 1;\nWHILE a < 9 DO BEGIN\na = a + 1;\nc = 0;\nWHILE c < a DO c = c + a END": "line 6: it cannot be seen",
		"WHILE a < 9 DO BEGIN\na = a + 1;\nc = 0;\nWHILE c < a DO c = c + 3 END":         "",
		"WHILE a < PACKET[b] + 3 DO\na = a + 1":                                          "",
		"WHILE a < v[b] DO\na = a + 1":                                                   "line 2: it cannot be seen",
		"WHILE a < CLOCK DO\na = a + 1":                                                  "line 2: it cannot be seen",
		"WHILE a < b + c DO BEGIN\na = a + 1; c = c + 1 END":                             "line 2: it cannot be seen",
		"WHILE a < 9 DO BEGIN\nIF b THEN a = 9;\na = a + 1 END":                          "",
		"WHILE a < 9 DO\nIF b THEN a = 9 ELSE a = a + 1":                                 "",
		"WHILE a <= 9 DO\nIF b THEN a = 9 ELSE a = a + 1":                                "line 2: it cannot be seen",
		"WHILE NOT (a < 9) DO\nIF b THEN a = 8 ELSE a = a - 1":                           "",
		"WHILE NOT (a < 9) DO\nIF b THEN a = 9 ELSE a = a - 1":                           "line 2: it cannot be seen",
		"WHILE a > 9 DO\nIF b THEN a = 9 ELSE a = a - 1":                                 "",
		"WHILE a >= 9 DO\nIF b THEN a = 9 ELSE a = a - 1":                                "line 2: it cannot be seen",
		"WHILE a < 9 DO BEGIN\na = a + 1;\nIF b THEN a = 8 END":                          "line 2: it cannot be seen",
		"WHILE a < c DO\nIF b THEN a = 9 ELSE a = a + 1":                                 "line 2: it cannot be seen",
		"WHILE v[b] DO AWAIT":                                                            "",
		strings.Repeat("a = b / c;\n", 2500):                                             "line 0: it is too long",
	} {
		reasons := ebpf.Check(compiled(t, handler(body)))
		var got string
		if reasons != nil {
			got = reasons.Error()
		}
		if want == "" && got != "" || !strings.HasPrefix(got, want) || len(reasons) > 1 {
			t.Errorf("%.200s\nis refused for %q, expected %q", body, got, want)
		}
	}
	// The initialisation runs in the virtual machine, so it gives no reasons.
	free := compiled(t, "PROGRAM p: VAR a; TRIGGERS 1; BEGIN WHILE 1 DO SEND a LEN 8 AS 1 TO 2; END; MESSAGE 1: BEGIN END; END")
	if reasons := ebpf.Check(free); reasons != nil {
		t.Errorf("for its initialisation: %v", reasons)
	}
}

func TestCompileRefusesWithTheReasons(t *testing.T) {
	m := compiled(t, handler("WHILE 1 DO a = a + 1"))
	_, err := ebpf.Compile(m, ebpf.Options{ID: 1})
	var reasons ebpf.Reasons
	if !errors.Is(err, ebpf.ErrCannotReside) || !errors.As(err, &reasons) || len(reasons) != 1 || reasons[0].Line != 2 {
		t.Errorf("%v", err)
	}
	m = compiled(t, handler("a = 1"))
	for _, o := range []ebpf.Options{{}, {ID: 1, Budget: -1}, {ID: 1, Budget: 1 << 30}, {ID: 1, Segments: map[uint32]ebpf.Segment{1: {Bytes: 8}}}} {
		if _, err := ebpf.Compile(m, o); err == nil || errors.Is(err, ebpf.ErrCannotReside) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	m.Code[0] = 0
	if _, err := ebpf.Compile(m, ebpf.Options{ID: 1}); !errors.Is(err, prog.ErrUnsafe) {
		t.Errorf("a module that is not safe: %v", err)
	}
}

// Instructions that move bytes or set flags are compiled once for each segment. So a program may
// be too long with many segments, but not with few. A jump that goes too far must not reach the
// kernel, where it would lead elsewhere.
func TestAProgramThatIsTooLongWithAllSegmentsIsRefused(t *testing.T) {
	b := newBench(t)
	m := compiled(t, handler(strings.Repeat("DELIVER v[a & 3] OFFSET b INTO PACKET[0] LEN c;\n", 250)))
	if err := ebpf.Check(m); err != nil {
		t.Fatal(err)
	}
	o := b.options()
	o.Segments = make(map[uint32]ebpf.Segment)
	all, err := cilium.NewMap(&cilium.MapSpec{Type: cilium.Array, KeySize: 4, ValueSize: 64 + 8*words, MaxEntries: 1, Flags: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	for id := range uint32(16) {
		o.Segments[id] = ebpf.Segment{Map: all, Bytes: 64, Words: words}
		obj, err := ebpf.Compile(m, o)
		if errors.Is(err, ebpf.ErrCannotReside) && strings.Contains(err.Error(), "too long with ") && id > 0 {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := obj.Load(b.host)
		if err != nil {
			t.Fatalf("with %d segments: %v", id+1, err)
		}
		r.Close()
	}
	t.Error("with 16 segments it is not too long")
}
