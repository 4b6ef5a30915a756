package pdl

// A Program is a parsed source. What could not be parsed is left out, or stands in it as nil.
type Program struct {
	Name     string // as written
	Pos      Pos
	Consts   []*Const
	Vars     []*Var
	Triggers []*Trigger
	Decls    []Decl // groups of the above, in the order of the source, for the formatter
	Init     *Block
	Messages []*Message

	end      Pos // of the last END
	comments []comment
	broken   bool // a declaration could not be parsed, so what is undeclared may be no mistake
}

// A Decl is one CONST, VAR or TRIGGERS declaration: where it begins, where each of what it declares does, and where its ; is.
type Decl struct {
	Pos     Pos
	Keyword string
	Items   []Pos
	End     Pos
}

// A Const is a named constant.
type Const struct {
	Name  string
	Pos   Pos
	Value Expr
	value int64 // once checked
	known bool  // the value; else what is wrong with it was reported
	state int   // of checking it: 0 not begun, 1 under way, 2 done
}

// A Var is a variable: a word, or an array of words.
type Var struct {
	Name  string
	Pos   Pos
	Size  Expr // nil for a word
	words int  // once checked
	vague bool // how many there are meant to be is not known, as was reported; without a size, whether it is an array
	base  int  // once compiled
}

// A Trigger is a number declared under TRIGGERS.
type Trigger struct {
	Number Expr
	value  int64
	known  bool
}

// A Message is the handler of a trigger: one or more blocks (PANIC-27).
type Message struct {
	Pos     Pos
	Trigger Expr
	Blocks  []*Block
	value   int64
	known   bool
}

// A Stmt is a statement.
type Stmt interface{ Start() Pos }

// An Expr is an expression. Everything is a word of 64 bits.
type Expr interface{ Start() Pos }

type (
	// A Block is BEGIN … END.
	Block struct {
		Pos   Pos
		Stmts []Stmt
		End   Pos
	}
	// An Assign is Target = Value.
	Assign struct {
		Target Expr
		Value  Expr
	}
	// An If is IF Cond THEN Then ELSE Else, where Else may be nil.
	If struct {
		Pos  Pos
		Cond Expr
		Then Stmt
		Else Stmt

		ElsePos Pos
	}
	// A While is WHILE Cond DO Body.
	While struct {
		Pos  Pos
		Cond Expr
		Body Stmt
	}
	// A Send is SEND What LEN Len AS As TO To AT At, where At may be nil (PANIC-31). All is AT *: to each NIC that has the program.
	Send struct {
		Pos                Pos
		What               Expr
		Len, As, To, At    Expr
		All                bool
		toSymbol, atSymbol int // that they name, once checked, or -1
	}
	// A Move is DELIVER What OFFSET Offset INTO Segment LEN Len, or GET … FROM … (PANIC-32, PANIC-33). FromPacket is GET … FROM
	// PACKET.
	Move struct {
		Pos                  Pos
		Get                  bool
		What                 Expr
		Offset, Segment, Len Expr
		FromPacket           bool
	}
	// An Act is a statement of a keyword or two and an operand, which may be nil: DISPLAY, SET FLAG, CLEAR LOCK, AWAIT, STOP,
	// PASS, PASS AFTER, DROP.
	Act struct {
		Pos  Pos
		What string
		X    Expr
	}
)

// Start returns where the statement begins.
func (s *Block) Start() Pos  { return s.Pos }
func (s *Assign) Start() Pos { return s.Target.Start() }
func (s *If) Start() Pos     { return s.Pos }
func (s *While) Start() Pos  { return s.Pos }
func (s *Send) Start() Pos   { return s.Pos }
func (s *Move) Start() Pos   { return s.Pos }
func (s *Act) Start() Pos    { return s.Pos }

type (
	// A Number is one that is written out.
	Number struct {
		Pos   Pos
		Text  string
		Value int64
	}
	// A Ref is a name, with an index if it has one.
	Ref struct {
		Pos   Pos
		Name  string
		Index Expr
		v     *Var
		c     *Const
	}
	// A Packet is PACKET[Index] or, if Byte is set, PACKETBYTE[Index].
	Packet struct {
		Pos   Pos
		Byte  bool
		Index Expr
	}
	// A Builtin is CLOCK, PACKETLEN or SOURCE.
	Builtin struct {
		Pos  Pos
		Name string
	}
	// A LockTest is LOCK(X).
	LockTest struct {
		Pos Pos
		X   Expr
	}
	// A Unary is an operator and what stands behind it.
	Unary struct {
		Pos Pos
		Op  string
		X   Expr
	}
	// A Binary is an operator between two expressions.
	Binary struct {
		OpPos Pos
		Op    string
		X, Y  Expr
	}
	// A Paren is an expression in parentheses.
	Paren struct {
		Pos Pos
		X   Expr
	}
	// An Address is a NIC id of eight octets.
	Address struct {
		Pos   Pos
		Value uint64
		Text  string
	}
	// A Str is a name in quotes: of a program or node.
	Str struct {
		Pos  Pos
		Text string
	}
	// A Bad is what could not be parsed. It was reported.
	Bad struct{ Pos Pos }
)

// Start returns where the expression begins.
func (e *Number) Start() Pos   { return e.Pos }
func (e *Ref) Start() Pos      { return e.Pos }
func (e *Packet) Start() Pos   { return e.Pos }
func (e *Builtin) Start() Pos  { return e.Pos }
func (e *LockTest) Start() Pos { return e.Pos }
func (e *Unary) Start() Pos    { return e.Pos }
func (e *Binary) Start() Pos   { return e.X.Start() }
func (e *Paren) Start() Pos    { return e.Pos }
func (e *Address) Start() Pos  { return e.Pos }
func (e *Str) Start() Pos      { return e.Pos }
func (e *Bad) Start() Pos      { return e.Pos }

// unit is how many bytes the index counts in.
func (e *Packet) unit() int64 {
	if e.Byte {
		return 1
	}
	return 8
}

// unparen returns an expression without the parentheses around it.
func unparen(e Expr) Expr {
	for {
		p, ok := e.(*Paren)
		if !ok {
			return e
		}
		e = p.X
	}
}

// walk calls f for every expression in e, those outside first.
func walk(e Expr, f func(Expr)) {
	if e == nil {
		return
	}
	f(e)
	switch e := e.(type) {
	case *Ref:
		walk(e.Index, f)
	case *Packet:
		walk(e.Index, f)
	case *LockTest:
		walk(e.X, f)
	case *Unary:
		walk(e.X, f)
	case *Binary:
		walk(e.X, f)
		walk(e.Y, f)
	case *Paren:
		walk(e.X, f)
	}
}
