package pdl

// A Program is a parsed source. Parts that could not be parsed are missing, or nil.
type Program struct {
	Name     string // as in the source
	Pos      Pos
	Consts   []*Const
	Vars     []*Var
	Triggers []*Trigger
	// Decls groups the three lists above, in source order, for the formatter.
	Decls    []Decl
	Init     *Block
	Messages []*Message

	end      Pos // position of the last END
	comments []comment
	// A declaration could not be parsed, so an undeclared name may be no mistake.
	broken bool
}

// A Decl is one CONST, VAR or TRIGGERS declaration. Pos is where it begins, Items where each
// declared item begins, and End where its ; is.
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
	value int64 // set by the checker
	// value is valid; else the checker has reported an error.
	known bool
	// Progress of checking: 0 not begun, 1 begun, 2 done.
	state int
}

// A Var is a variable: a word, or an array of words.
type Var struct {
	Name  string
	Pos   Pos
	Size  Expr // nil for a word
	words int  // set by the checker
	// The intended number of words is unknown, which was reported. Without a Size, it is unknown
	// whether this is an array.
	vague bool
	base  int // set by the compiler
}

// A Trigger is a number declared under TRIGGERS.
type Trigger struct {
	Number Expr
	value  int64
	known  bool
}

// A Message is the handler of a trigger: one or more blocks.
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
	// A Send is SEND What LEN Len AS As TO To AT At, where At may be nil. All means AT *: to
	// each NIC that has the program.
	Send struct {
		Pos                Pos
		What               Expr
		Len, As, To, At    Expr
		All                bool
		toSymbol, atSymbol int // symbols that To and At name, set by the checker; -1 for none
	}
	// A Move is DELIVER What OFFSET Offset INTO Segment LEN Len, or GET … FROM …. FromPacket
	// means GET … FROM PACKET.
	Move struct {
		Pos                  Pos
		Get                  bool
		What                 Expr
		Offset, Segment, Len Expr
		FromPacket           bool
	}
	// An Act is a statement of one or two keywords and an operand, which may be nil: DISPLAY,
	// SET FLAG, CLEAR LOCK, AWAIT, STOP, PASS, PASS AFTER, DROP.
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
	// A Number is a literal number.
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
	// A Unary is an operator and its operand.
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
	// A Str is the name of a program or node, in quotes.
	Str struct {
		Pos  Pos
		Text string
	}
	// A Bad stands for an expression that could not be parsed. The error was reported.
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

// unit returns the unit of the index, in bytes.
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

// walk calls f for every expression in e, outer ones first.
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
