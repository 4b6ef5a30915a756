package pdl

// expr reads an expression. It never returns nil: after an error it returns a Bad.
func (p *parser) expr() Expr {
	if p.failed { // the tokens here belong to something else
		return &Bad{p.tok.pos}
	}
	defer func() { p.depth-- }()
	if !p.deeper() {
		return &Bad{p.tok.pos}
	}
	return p.level(0)
}

// whole reads the expression of a declaration. It returns a Bad if the parser failed inside the
// expression: the part that it read has another value, and each use of that value would be a second
// error with the same cause.
func (p *parser) whole() Expr {
	e := p.expr()
	if p.failed {
		return &Bad{e.Start()}
	}
	return e
}

// levels are the binary operators, those that bind least first.
var levels = [][]kind{
	{"OR"},
	{"AND"},
	{"<", "<=", ">", ">=", "==", "=", "<>", "!="},
	{"+", "-", "|", "^"},
	{"*", "/", "%", "&", "<<", ">>", ">>>"},
}

// maxChain limits the operators of one level in a row, since each adds a step to the depth of
// the tree.
const maxChain = 1000

const relations = 2 // the level of comparisons, which do not chain

func (p *parser) level(n int) Expr {
	if n == len(levels) {
		return p.factor()
	}
	if n == relations && p.at("NOT") {
		defer func() { p.depth-- }()
		if !p.deeper() {
			return &Bad{p.tok.pos}
		}
		return &Unary{p.next().pos, "NOT", p.level(relations)}
	}
	x := p.level(n + 1)
	for i := 0; p.at(levels[n]...) && !p.failed; i++ {
		if n == relations && i > 0 {
			p.report.errorf(p.tok.pos, "comparisons do not chain: join two by AND")
			p.failed = true
			break
		}
		if i == maxChain {
			p.report.errorf(p.tok.pos, "more than %d operators in a row", maxChain)
			p.failed = true
			break
		}
		op := p.next()
		x = &Binary{op.pos, string(op.kind), x, p.level(n + 1)}
	}
	return x
}

func (p *parser) factor() Expr {
	t := p.tok
	switch t.kind {
	case "-", "~":
		defer func() { p.depth-- }()
		if !p.deeper() {
			return &Bad{t.pos}
		}
		p.next()
		if t.kind == "-" {
			p.tok.least = false
		}
		return &Unary{t.pos, string(t.kind), p.factor()}
	case kindInteger:
		if t.least {
			p.report.errorf(t.pos, noNumber, t.text)
		}
		p.next()
		if t.bad || t.least {
			return &Bad{t.pos}
		}
		return &Number{t.pos, t.text, t.num}
	case kindIdent:
		return p.ref()
	case "PACKET", "PACKETBYTE":
		return p.packet()
	case "CLOCK", "PACKETLEN", "SOURCE":
		p.next()
		return &Builtin{t.pos, string(t.kind)}
	case "LOCK":
		p.next()
		p.expect("(", " behind LOCK")
		x := p.expr()
		p.expect(")", " behind the number of the lock")
		return &LockTest{t.pos, x}
	case "(":
		p.next()
		x := p.expr()
		p.expect(")", "")
		return &Paren{t.pos, x}
	}
	p.unexpected("an expression")
	return &Bad{t.pos}
}

// ref reads a name, with an index if it has one.
func (p *parser) ref() Expr {
	t, ok := p.expect(kindIdent, ": a variable's")
	if !ok {
		return &Bad{t.pos}
	}
	r := &Ref{Pos: t.pos, Name: t.text}
	if p.accept("[") {
		r.Index = p.expr()
		p.expect("]", " behind the index")
	}
	return r
}

func (p *parser) packet() Expr {
	t := p.next()
	e := &Packet{Pos: t.pos, Byte: t.kind == "PACKETBYTE"}
	p.expect("[", " behind "+t.what())
	e.Index = p.expr()
	p.expect("]", " behind the index")
	return e
}

// place reads the operand of SEND or DELIVER: a variable or the packet, perhaps from an element
// on.
func (p *parser) place() Expr {
	if p.at("PACKET", "PACKETBYTE") {
		return p.packet()
	}
	return p.ref()
}
