package prog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// Reasons for which Decode refuses its input.
var (
	ErrNotModule = errors.New("not a compiled program")
	ErrVersion   = errors.New("compiled for another version of Weft")
	ErrTruncated = errors.New("truncated")
	ErrAltered   = errors.New("altered since it was compiled")
	ErrMalformed = errors.New("malformed")
)

// Decode reads an encoded module. The input may be any bytes. The returned module is well
// formed, but only Verify tells whether it is safe to run.
func Decode(b []byte) (*Module, error) {
	m, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("decode program: %w", err)
	}
	return m, nil
}

func decode(b []byte) (*Module, error) {
	if n := min(len(b), len(magic)); n == 0 || string(b[:n]) != magic[:n] {
		return nil, ErrNotModule
	}
	if len(b) < len(magic)+2 {
		return nil, ErrTruncated // no source begins like that
	}
	if v := binary.LittleEndian.Uint16(b[len(magic):]); v != Version {
		return nil, fmt.Errorf("%w: its version is %d, expected %d", ErrVersion, v, Version)
	}
	if len(b) > MaxModule {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrMalformed, len(b), MaxModule)
	}
	r := &reader{b: b[len(magic)+2:]}
	m := r.module()
	switch {
	case errors.Is(r.err, ErrMalformed) && !intact(b):
		return nil, ErrAltered // no compiler writes such a module
	case r.err != nil:
		return nil, r.err
	case len(r.b) < sha256.Size:
		return nil, ErrTruncated
	case len(r.b) > sha256.Size:
		return nil, fmt.Errorf("%w: %d bytes too many", ErrMalformed, len(r.b)-sha256.Size)
	}
	if !intact(b) {
		return nil, ErrAltered
	}
	return m, nil
}

// intact reports whether an encoding ends with the hash of the bytes before.
func intact(b []byte) bool {
	end := max(len(b)-sha256.Size, 0)
	sum := sha256.Sum256(b[:end])
	return string(sum[:]) == string(b[end:])
}

// A reader decodes an encoding. After the first error it returns zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && len(r.b) < n {
		r.err = ErrTruncated
	}
	if r.err != nil {
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) u8() int {
	if b := r.take(1); b != nil {
		return int(b[0])
	}
	return 0
}

// count reads the number of items that follow. Each takes at least size bytes, so a false number
// costs no memory.
func (r *reader) count(what string, width, most, size int) int {
	b := r.take(width)
	if b == nil {
		return 0
	}
	n := int(binary.LittleEndian.Uint16(b))
	if width == 4 {
		n = int(binary.LittleEndian.Uint32(b))
	}
	switch {
	case n > most:
		r.malformed("%d %s, at most %d are allowed", n, what, most)
		return 0
	case n*size > len(r.b):
		r.err = ErrTruncated
		return 0
	}
	return n
}

func (r *reader) u32() int {
	if b := r.take(4); b != nil {
		return int(binary.LittleEndian.Uint32(b))
	}
	return 0
}

func (r *reader) malformed(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}

func (r *reader) name(of string) string {
	b := r.take(r.u8())
	if r.err == nil && !ValidName(string(b)) {
		r.malformed("the name of a %s is %q", of, b)
	}
	return string(b)
}

// ValidName reports whether a module may contain a name: printable ASCII without space and
// quotes, neither empty nor longer than MaxName.
func ValidName(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '"' {
			return false
		}
	}
	return s != "" && len(s) <= MaxName
}

func (r *reader) module() *Module {
	m := &Module{Name: r.name("program"), DataWords: r.u32(), Init: r.u32()}
	r.triggers(m)
	r.names(m)
	r.variables(m)
	r.lines(m)
	m.Code = make([]Word, r.count("instructions", 4, MaxCode, 8))
	for i := range m.Code {
		m.Code[i] = Word(binary.LittleEndian.Uint64(r.take(8)))
	}
	return m
}

func (r *reader) triggers(m *Module) {
	m.Triggers = make([]Trigger, r.count("triggers", 2, MaxTriggers, 8))
	for i := range m.Triggers {
		m.Triggers[i] = Trigger{uint32(r.u32()), r.u32()}
		if i > 0 && m.Triggers[i].Number <= m.Triggers[i-1].Number {
			r.malformed("the triggers are not in order")
		}
	}
}

func (r *reader) names(m *Module) {
	m.Names = make([]Symbol, r.count("names", 2, MaxNames, 2))
	for i := range m.Names {
		kind := SymbolKind(r.u8())
		if kind != ProgramName && kind != NodeName {
			r.malformed("name %d is of kind %d", i, kind)
		}
		m.Names[i] = Symbol{kind, r.name(kind.String())}
	}
}

func (r *reader) variables(m *Module) {
	m.Variables = make([]Var, r.count("variables", 2, MaxVariables, 10))
	for i := range m.Variables {
		array := r.u8()
		v := Var{Name: r.name("variable"), Range: Range{r.u32(), r.u32()}, Array: array == 1}
		if array > 1 || v.Len < 1 || v.Base+v.Len > m.DataWords {
			r.malformed("variable %q lies outside the data", v.Name)
		}
		m.Variables[i] = v
	}
}

func (r *reader) lines(m *Module) {
	m.Lines = make([]Line, r.count("lines", 4, MaxCode, 8))
	for i := range m.Lines {
		m.Lines[i] = Line{r.u32(), r.u32()}
		if i > 0 && m.Lines[i].PC <= m.Lines[i-1].PC {
			r.malformed("the lines are not in order")
		}
	}
}
