package pdl

import "strings"

// maxNesting limits the nesting of statements and expressions, and so the stack of recursive
// walks.
const maxNesting = 100

// A parser reads a program by recursive descent: one function for each rule of grammar.txt.
// After an error it goes on behind the statement or declaration, so that one run shows all
// errors.
type parser struct {
	scan   *scanner
	report *report
	tok    token // the next token, not yet taken
	ahead  token // the token after it, if peeked
	looked bool
	last   token // the token taken last; at first an empty one at the beginning
	failed bool  // since the current statement began: further errors are not reported
	ended  bool  // the missing end of the file was reported
	depth  int
	deep   bool // nested too deeply, which was reported

	// A declaration stands in the wrong place, so its names do not count as undeclared.
	misplaced bool
	// Keywords that were declared as names: their uses are not reported again.
	misnamed map[kind]bool
}

// parse reads a source. It returns the parts that it understood, even if there are errors.
func parse(src []byte, r *report) *Program {
	p := &parser{scan: newScanner(src, r), report: r, misnamed: make(map[kind]bool)}
	p.next()
	p.last.end = Pos{1, 1}
	prog := p.program()
	prog.broken = prog.broken || p.misplaced
	prog.comments = p.scan.comments
	return prog
}

func (p *parser) next() token {
	p.last = p.tok
	if p.looked {
		p.tok, p.looked = p.ahead, false
	} else {
		p.tok = p.scan.next()
	}
	if p.tok.kind == kindBad {
		p.failed = true // reported by the scanner
	}
	return p.last
}

func (p *parser) peek() token {
	if !p.looked {
		p.ahead, p.looked = p.scan.next(), true
	}
	return p.ahead
}

func (p *parser) at(k ...kind) bool {
	for _, k := range k {
		if p.tok.kind == k {
			return true
		}
	}
	return false
}

func (p *parser) accept(k kind) bool {
	if p.tok.kind != k {
		return false
	}
	p.next()
	return true
}

// expect takes a token of the given kind, or reports that it is missing.
func (p *parser) expect(k kind, where string) (token, bool) {
	if p.tok.kind == k {
		return p.next(), true
	}
	wanted := string(k)
	if k != kindIdent && k != kindInteger && !isKeyword(wanted) {
		wanted = "'" + wanted + "'"
	}
	if k == kindIdent {
		wanted = "a name"
		if isKeyword(string(p.tok.kind)) {
			p.complain(p.tok.pos, "%s is a keyword; expected a name%s", p.tok.what(), where)
			return p.tok, false
		}
	}
	p.unexpected(wanted + where)
	return p.tok, false
}

func (p *parser) unexpected(wanted string) {
	pos := p.tok.pos
	if p.at(kindEOF) { // shown once, behind the last token
		p.failed = p.failed || p.ended
		p.ended = true
		pos = p.last.end
	}
	p.failed = p.failed || p.misnamed[p.tok.kind]
	p.complain(pos, "%s: expected %s", p.tok.quoted(), wanted)
}

// complain reports an error of the current statement, unless one was reported already.
func (p *parser) complain(pos Pos, format string, args ...any) {
	if !p.failed {
		p.report.errorf(pos, format, args...)
	}
	p.failed = true
}

// deeper counts a recursive call of a rule. It returns false if the nesting is too deep, and
// reports that once: everything inside is at least as deep.
func (p *parser) deeper() bool {
	p.depth++
	if p.depth > maxNesting && !p.deep {
		p.complain(p.tok.pos, "nested more than %d deep", maxNesting)
		p.deep = true
	}
	p.failed = p.failed || p.depth > maxNesting
	return p.depth <= maxNesting
}

// skipTo skips tokens up to one of the given kinds or the end of the file.
func (p *parser) skipTo(k ...kind) {
	for !p.at(k...) && !p.at(kindEOF) {
		p.next()
	}
	p.failed = false
}

func (p *parser) program() *Program {
	prog := new(Program)
	for p.at(kindBad) { // reported by the scanner
		p.next()
	}
	p.failed = false
	p.expect("PROGRAM", " at the beginning")
	if t, ok := p.expect(kindIdent, " for the program"); ok {
		prog.Name, prog.Pos = t.text, t.pos
	} else if p.peek().kind == ":" { // a keyword as the name: the rest can still be read
		p.next()
	}
	if _, ok := p.expect(":", " behind the program's name"); !ok {
		p.accept(";")
	}
	p.failed = false
	p.declarations(prog)
	if p.at("BEGIN") {
		prog.Init = p.block()
		p.accept(";")
	}
	p.messages(prog)
	return prog
}

// declarations reads up to the initialisation, or up to a token that shows that there is none.
// It skips what does not belong there, and so still reads a declaration that follows.
func (p *parser) declarations(prog *Program) {
	for !p.at("BEGIN") {
		if p.at("CONST", "VAR", "TRIGGERS") {
			p.declaration(prog)
			continue
		}
		p.unexpected("CONST, VAR, TRIGGERS, or BEGIN of the initialisation")
		for !p.at("CONST", "VAR", "TRIGGERS", "BEGIN", "MESSAGE", "END", kindEOF) {
			prog.broken = prog.broken || !p.at(kindBad) // perhaps meant as a declaration
			p.next()
		}
		p.failed = false
		if p.at("MESSAGE", "END", kindEOF) {
			return
		}
	}
}

// messages reads the message blocks and the END of the program.
func (p *parser) messages(prog *Program) {
	for {
		switch {
		case p.at("MESSAGE"):
			p.failed = false
			prog.Messages = append(prog.Messages, p.message())
		case p.at("END"):
			prog.end = p.next().pos
			p.accept(";")
			if !p.at(kindEOF) {
				p.unexpected("nothing behind the END of the program")
			}
			return
		case p.at(kindEOF):
			p.unexpected("END of the program")
			prog.end = p.tok.pos
			return
		default:
			p.unexpected("MESSAGE, or END of the program")
			p.next()
			p.skipTo("MESSAGE", "END")
		}
	}
}

func (p *parser) declaration(prog *Program) {
	word := p.next()
	d := Decl{Pos: word.pos, Keyword: string(word.kind)}
	for {
		d.Items = append(d.Items, p.tok.pos)
		switch word.kind {
		case "TRIGGERS":
			prog.Triggers = append(prog.Triggers, &Trigger{Number: p.whole()})
		case "VAR":
			p.variable(prog)
		default:
			p.constant(prog)
		}
		if p.failed || !p.accept(",") {
			break
		}
	}
	d.End = p.tok.pos
	prog.Decls = append(prog.Decls, d)
	if _, ok := p.expect(";", " or , in the declaration"); !ok {
		prog.broken = true
		if n := len(prog.Vars); word.kind == "VAR" && n > 0 {
			prog.Vars[n-1].vague = true // perhaps meant as an array
		}
		p.skipTo(";", "CONST", "VAR", "TRIGGERS", "BEGIN", "MESSAGE", "END")
		p.accept(";")
	}
}

// declared takes a declared name.
func (p *parser) declared(where string) token {
	t, ok := p.expect(kindIdent, where)
	if !ok && isKeyword(string(t.kind)) {
		p.misnamed[t.kind] = true
	}
	return t
}

func (p *parser) variable(prog *Program) {
	t := p.declared(" for a variable")
	v := &Var{Name: t.text, Pos: t.pos}
	if p.accept("[") {
		v.Size = p.whole()
		if _, ok := p.expect("]", " behind the array's size"); !ok {
			v.Size = &Bad{v.Size.Start()}
		}
	}
	prog.Vars = append(prog.Vars, v)
}

func (p *parser) constant(prog *Program) {
	t := p.declared(" for a constant")
	p.expect("=", " behind the constant's name")
	prog.Consts = append(prog.Consts, &Const{Name: t.text, Pos: t.pos, Value: p.whole()})
}

func (p *parser) message() *Message {
	m := &Message{Pos: p.next().pos, Trigger: p.expr()}
	p.expect(":", " behind the trigger")
	if !p.at("BEGIN") {
		p.unexpected("BEGIN of the message's block")
		p.skipTo("BEGIN", "MESSAGE", "END")
		if p.accept("END") { // the block's END, unless nothing follows: then there is no other
			p.accept(";")
			p.ended = p.ended || p.at(kindEOF)
		}
	}
	p.failed = false
	for p.at("BEGIN") {
		m.Blocks = append(m.Blocks, p.block())
		p.accept(";")
	}
	return m
}

func (p *parser) block() *Block {
	b := &Block{Pos: p.next().pos}
	for {
		p.failed = p.at(kindBad) // reported by the scanner
		if p.at("ELSE") {
			p.report.errorf(p.tok.pos, "ELSE without IF: a ; before ELSE ends the statement")
			p.next()
		}
		if !p.at(";", "END", "MESSAGE", kindEOF) {
			if s := p.statement(); s != nil {
				b.Stmts = append(b.Stmts, s)
			}
		}
		if p.accept(";") {
			continue
		}
		if p.at("END") {
			b.End = p.next().pos
			return b
		}
		p.unexpected("';' or END of the block")
		if p.at("MESSAGE", kindEOF) { // the END is missing
			b.End = p.tok.pos
			return b
		}
		p.recover()
	}
}

// recover skips the rest of a statement that could not be read.
func (p *parser) recover() {
	if !statementBegins(p.tok.kind) || p.tok.kind == kindIdent || p.last.kind == p.tok.kind {
		p.next()
	}
	for !p.at(";", "END", "MESSAGE", kindEOF) && (p.tok.kind == kindIdent || !statementBegins(p.tok.kind)) {
		p.next()
	}
	p.failed = false
}

func statementBegins(k kind) bool {
	switch k {
	case kindIdent, "BEGIN", "IF", "WHILE", "SEND", "DELIVER",
		"GET", "DISPLAY", "SET", "CLEAR", "AWAIT", "STOP", "PASS", "DROP":
		return true
	}
	return false
}

// statement reads one statement, and returns nil if there is none. If one is nested too deeply,
// it skips the rest of the handler: the blocks around the statement could not go on behind it.
func (p *parser) statement() Stmt {
	defer func() { p.depth-- }()
	if !p.deeper() {
		p.skipTo("MESSAGE", kindEOF)
		p.failed = true
		return nil
	}
	switch p.tok.kind {
	case "BEGIN":
		return p.block()
	case kindIdent:
		s := &Assign{Target: p.ref()}
		p.expect("=", " of an assignment")
		s.Value = p.expr()
		return s
	case "PACKET", "PACKETBYTE":
		p.report.errorf(p.tok.pos, "%s can be read, and not written: GET … FROM PACKET copies it to a variable",
			p.tok.what())
		p.failed = true
		return nil
	case "IF":
		return p.ifStatement()
	case "WHILE":
		s := &While{Pos: p.next().pos, Cond: p.expr()}
		p.expect("DO", " behind the condition")
		s.Body = p.body("DO")
		return s
	case "SEND":
		return p.send()
	case "DELIVER", "GET":
		return p.move()
	}
	return p.act()
}

// body reads the statement behind THEN, ELSE or DO, which must be there.
func (p *parser) body(behind string) Stmt {
	if p.failed {
		return nil
	}
	if !statementBegins(p.tok.kind) {
		p.unexpected("a statement behind " + behind)
		return nil
	}
	return p.statement()
}

func (p *parser) ifStatement() Stmt {
	s := &If{Pos: p.next().pos, Cond: p.expr()}
	p.expect("THEN", " behind the condition")
	s.Then = p.body("THEN")
	if p.at("ELSE") {
		s.ElsePos = p.next().pos
		s.Else = p.body("ELSE")
	}
	return s
}

func (p *parser) send() Stmt {
	s := &Send{Pos: p.next().pos, What: p.place(), toSymbol: -1, atSymbol: -1}
	p.expect("LEN", " behind what is sent")
	s.Len = p.expr()
	p.expect("AS", " behind the length")
	s.As = p.expr()
	p.expect("TO", " behind the trigger")
	s.To = p.destination(false)
	if p.accept("AT") {
		if s.All = p.accept("*"); !s.All {
			s.At = p.destination(true)
		}
	}
	return s
}

// destination reads what stands behind TO or AT.
func (p *parser) destination(node bool) Expr {
	if p.at(kindString) {
		t := p.next()
		return &Str{t.pos, t.text}
	}
	if node && p.at(kindInteger) && p.peek().kind == ":" {
		return p.address()
	}
	return p.expr()
}

// address reads the eight octets of a NIC id.
func (p *parser) address() Expr {
	a := &Address{Pos: p.tok.pos}
	var text []string
	for i := range 8 {
		if i > 0 {
			if _, ok := p.expect(":", ": an address is eight numbers, as 0:0:0:96:221:127:255:140"); !ok {
				return &Bad{a.Pos}
			}
		}
		t, ok := p.expect(kindInteger, ": an address is eight numbers, as 0:0:0:96:221:127:255:140")
		if !ok {
			return &Bad{a.Pos}
		}
		if t.num < 0 || t.num > 255 {
			p.report.errorf(t.pos, "%s in an address: expected 0 to 255", t.text)
		}
		a.Value = a.Value<<8 | uint64(uint8(t.num))
		text = append(text, t.text)
	}
	a.Text = strings.Join(text, ":")
	return a
}

func (p *parser) move() Stmt {
	t := p.next()
	s := &Move{Pos: t.pos, Get: t.kind == "GET"}
	if s.Get {
		if p.at("PACKET", "PACKETBYTE") {
			p.report.errorf(p.tok.pos, "%s can be read, and not written: expected a variable", p.tok.what())
			p.failed = true
		}
		s.What = p.ref()
	} else {
		s.What = p.place()
	}
	p.expect("OFFSET", " behind the variable")
	s.Offset = p.expr()
	switch {
	case !s.Get:
		p.expect("INTO", " behind the offset")
		s.Segment = p.expr()
	default:
		p.expect("FROM", " behind the offset")
		if s.FromPacket = p.at("PACKET") && p.peek().kind != "["; s.FromPacket {
			p.next()
		} else {
			s.Segment = p.expr()
		}
	}
	p.expect("LEN", " behind the segment")
	s.Len = p.expr()
	return s
}

func (p *parser) act() Stmt {
	s := &Act{Pos: p.tok.pos, What: string(p.tok.kind)}
	switch p.tok.kind {
	case "AWAIT", "STOP", "DROP":
		p.next()
	case "PASS":
		p.next()
		if p.tok.kind == kindIdent && strings.EqualFold(p.tok.text, wordBehindPass) {
			p.next()
			s.What, s.X = "PASS AFTER", p.expr()
		}
	case "DISPLAY":
		p.next()
		s.X = p.expr()
	case "SET":
		p.next()
		p.expect("FLAG", " behind SET")
		s.What, s.X = "SET FLAG", p.expr()
	case "CLEAR":
		p.next()
		p.expect("LOCK", " behind CLEAR")
		s.What, s.X = "CLEAR LOCK", p.expr()
	case "CONST", "VAR", "TRIGGERS":
		p.misplaced = true
		p.unexpected("a statement: declarations stand before the first BEGIN")
		return nil
	case "/", "*":
		p.unexpected("a statement: # begins a comment")
		return nil
	default:
		p.unexpected("a statement")
		return nil
	}
	return s
}
