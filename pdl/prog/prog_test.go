package prog_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/prog"
)

// sample has every part that a module can have.
const sample = `PROGRAM sample:
CONST n = 3;
VAR count, ring[n], far[300];
TRIGGERS 7, 2;
BEGIN
	count = 0x123456789abcdef0
END;
MESSAGE 7: BEGIN
	WHILE count < 100 DO BEGIN ring[count % n] = PACKETBYTE[count]; count = count + 1 END;
	IF LOCK(1) AND count / 7 > far[9] THEN SEND ring[0] LEN 24 AS 2 TO echo AT "node-b";
END;
MESSAGE 2: BEGIN
	GET far[0] OFFSET 8 FROM 5 LEN 16;
	DISPLAY far[1]; SET FLAG 1; CLEAR LOCK 1
END;
END;
`

func compile(t testing.TB, src string) *prog.Module {
	t.Helper()
	m, err := pdl.Compile("test.pdl", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestModulesComeBackAsTheyWere(t *testing.T) {
	m := compile(t, sample)
	b := m.Encode()
	got, err := prog.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, m) {
		t.Errorf("decoded\n%+v\nencoded\n%+v", got, m)
	}
	if !bytes.Equal(got.Encode(), b) {
		t.Error("what was decoded is encoded otherwise")
	}
	if len(m.Triggers) != 2 || m.Triggers[0].Number != 2 || len(m.Names) != 2 || len(m.Variables) != 3 || len(m.Lines) == 0 {
		t.Errorf("the sample lacks something: %+v", m)
	}
}

func TestEveryTruncatedModuleIsRefused(t *testing.T) {
	b := compile(t, sample).Encode()
	for n := range b {
		if _, err := prog.Decode(b[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a module", n, len(b))
		}
	}
	if _, err := prog.Decode(append(b, 0)); !errors.Is(err, prog.ErrMalformed) {
		t.Errorf("with a byte too many: %v", err)
	}
}

func TestEveryAlteredByteIsNoticed(t *testing.T) {
	b := compile(t, sample).Encode()
	for i := range b {
		altered := bytes.Clone(b)
		altered[i] ^= 0x41
		_, err := prog.Decode(altered)
		if err == nil {
			t.Errorf("byte %d can be altered", i)
		}
		// A length was made shorter.
		if errors.Is(err, prog.ErrMalformed) && !strings.Contains(err.Error(), "bytes too many") {
			t.Errorf("byte %d was altered: %v", i, err)
		}
	}
}

func TestRefusalsSayWhy(t *testing.T) {
	b := compile(t, sample).Encode()
	version := bytes.Clone(b)
	version[4]++
	last := bytes.Clone(b)
	last[len(last)-1]++
	for _, c := range []struct {
		b    []byte
		is   error
		text string
	}{
		{nil, prog.ErrNotModule, "decode program: not a compiled program"},
		{[]byte("W"), prog.ErrTruncated, "decode program: truncated"},
		{[]byte("WPDL\x01"), prog.ErrTruncated, "decode program: truncated"},
		{[]byte("PROGRAM x:"), prog.ErrNotModule, "decode program: not a compiled program"},
		{version, prog.ErrVersion, "decode program: compiled for another version of Weft: its version is 3, expected 2"},
		{b[:100], prog.ErrTruncated, "decode program: truncated"},
		{last, prog.ErrAltered, "decode program: altered since it was compiled"},
	} {
		if _, err := prog.Decode(c.b); !errors.Is(err, c.is) || err.Error() != c.text {
			t.Errorf("%q, want %q", err, c.text)
		}
	}
}

func TestTheVerifierRefusesWhatCouldDoHarm(t *testing.T) {
	await := prog.Make(prog.Await, 0, 0, 0, 0)
	mk := prog.Make
	for _, c := range []struct {
		change func(m *prog.Module)
		want   string
	}{
		{func(m *prog.Module) { m.Code = nil }, "0 instructions, expected 1 to 32768"},
		{func(m *prog.Module) { m.Code = make([]prog.Word, prog.MaxCode+1) }, "32769 instructions, expected 1 to 32768"},
		{func(m *prog.Module) { m.DataWords = 255 }, "255 words of data, expected 256 to 65536"},
		{func(m *prog.Module) { m.DataWords = 65537 }, "65537 words of data, expected 256 to 65536"},
		{func(m *prog.Module) { m.Init = 1 }, "the initialisation begins at 1, outside the code"},
		{func(m *prog.Module) { m.Triggers = []prog.Trigger{{Number: 9, Entry: 1}} }, "trigger 9 begins at 1, outside the code"},
		{func(m *prog.Module) { m.Triggers = []prog.Trigger{{Number: 9}, {Number: 9}} }, "the triggers are not in order"},
		{func(m *prog.Module) { m.Code = []prog.Word{0} }, "instruction 0: 0 is no opcode"},
		{func(m *prog.Module) { m.Code = []prog.Word{255} }, "instruction 0: 255 is no opcode"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Await, 1, 0, 0, 0)} }, "instruction 0: await has a field that it does not use"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Mov, 1, 2, 3, 0), await} }, "instruction 0: mov has a field that it does not use"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Mov, 1, 2, 0, 1), await} }, "instruction 0: mov has a field that it does not use"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Mov, 1, 2, 0, 0)} }, "the last instruction leads out of the code"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Jeq, 1, 2, 0, -1)} }, "the last instruction leads out of the code"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Jmp, 0, 0, 0, 0)} }, "instruction 0: jmp jumps to 1, outside the code"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Jmp, 0, 0, 0, -2)} }, "instruction 0: jmp jumps to -1, outside the code"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Incjlti, 0, 0, 0, 0x7fff), await} }, "instruction 0: incjlti jumps to 32768, outside the code"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Divi, 0, 0, 0, 0), await} }, "instruction 0: divi divides by zero"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Shli, 0, 0, 0, 64), await} }, "instruction 0: shli shifts by 64"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Ld, 0, 0, 0, 300), await} }, "instruction 0: ld reaches word 300, outside the data"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.St, 0, 0, 0, -1), await} }, "instruction 0: st reaches word -1, outside the data"},
		{func(m *prog.Module) {
			m.Code = []prog.Word{mk(prog.Ldx, 0, 0, 0, prog.Range{Base: 299, Len: 2}.Imm()), await}
		}, "instruction 0: ldx reaches words 299 to 300, outside the data"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Lookup, 0, 0, 0, 0), await} }, "instruction 0: lookup has name 0 of 0"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Sendp, 251, 0, 0, 2), await} }, "instruction 0: sendp counts in 2 bytes"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.LdiLdih, 1, 0, 0, 0), await} }, "instruction 0: ldi+ is not followed by ldih"},
		{func(m *prog.Module) { m.Code = []prog.Word{await, mk(prog.LdiLdih, 1, 0, 0, 0)} }, "instruction 1: ldi+ is not followed by ldih"},
		{func(m *prog.Module) { m.Code = []prog.Word{mk(prog.Send, 252, 0, 0, 0), await} }, "instruction 0: send reads behind the registers"},
	} {
		m := &prog.Module{Name: "x", DataWords: 300, Code: []prog.Word{await}}
		if err := m.Verify(); err != nil {
			t.Fatal(err)
		}
		c.change(m)
		if err := m.Verify(); !errors.Is(err, prog.ErrUnsafe) || !strings.HasSuffix(err.Error(), ": "+c.want) {
			t.Errorf("%v, want …%s", err, c.want)
		}
	}
}

// A well formed module is encoded to the bytes that it was decoded from. No input makes decoder,
// verifier or disassembler fail.
func FuzzDecode(f *testing.F) {
	f.Add(compile(f, sample).Encode())
	f.Add([]byte("WPDL\x02\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Without the right hash, no altered input would get further.
		if n := len(b) - sha256.Size; n > 0 {
			sum := sha256.Sum256(b[:n])
			b = append(b[:n:n], sum[:]...)
		}
		m, err := prog.Decode(b)
		if err != nil {
			return
		}
		if !bytes.Equal(m.Encode(), b) {
			t.Error("encoded otherwise than it was decoded")
		}
		if m.Verify() == nil {
			m.Disassemble("")
		}
	})
}

func TestDisassembly(t *testing.T) {
	got := compile(t, sample).Disassemble(sample)
	file := filepath.Join("testdata", "sample.dis")
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("-rewrite accepts it:\n%s", got)
	}
}

func TestLayoutsThatDifferAreToldApart(t *testing.T) {
	const head, tail = "PROGRAM x: VAR ", "; BEGIN END; END"
	a := compile(t, head+"a, b[3]"+tail)
	for decl, same := range map[string]bool{"a, b[3]": true, "A, B[1+2]": true, "a, b[4]": false, "b[3], a": false, "a, c[3]": false, "a, b[3], c": false, "a[1], b[3]": false} {
		if got := a.SameLayout(compile(t, head+decl+tail)); got != same {
			t.Errorf("%s: %v, want %v", decl, got, same)
		}
	}
}
