package pdl

// constant returns the value of an expression if it is known at compile time. The names must be
// bound.
func constant(e Expr) (v int64, known bool) {
	switch e := e.(type) {
	case *Number:
		return e.Value, true
	case *Address:
		return int64(e.Value), true
	case *Paren:
		return constant(e.X)
	case *Ref:
		if e.c != nil && e.Index == nil {
			return e.c.value, e.c.known
		}
	case *Unary:
		if x, ok := constant(e.X); ok {
			return unary(e.Op, x), true
		}
	case *Binary:
		x, okX := constant(e.X)
		y, okY := constant(e.Y)
		if okX && okY {
			return binary(e.Op, x, y)
		}
	}
	return 0, false
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func unary(op string, x int64) int64 {
	switch op {
	case "-":
		return -x
	case "~":
		return ^x
	}
	return truth(x == 0) // NOT
}

// binary evaluates an operator. ok is false for a division by zero.
func binary(op string, x, y int64) (v int64, ok bool) {
	switch op {
	case "+":
		return x + y, true
	case "-":
		return x - y, true
	case "*":
		return x * y, true
	case "/", "%":
		switch {
		case y == 0:
			return 0, false
		case op == "/":
			return x / y, true
		}
		return x % y, true
	case "&":
		return x & y, true
	case "|":
		return x | y, true
	case "^":
		return x ^ y, true
	case "<<":
		return x << (uint64(y) & 63), true
	case ">>":
		return x >> (uint64(y) & 63), true
	case ">>>":
		return int64(uint64(x) >> (uint64(y) & 63)), true
	}
	return truth(holds(op, x, y)), true
}

// holds evaluates a comparison, AND or OR.
func holds(op string, x, y int64) bool {
	switch op {
	case "=", "==":
		return x == y
	case "<>", "!=":
		return x != y
	case "<":
		return x < y
	case "<=":
		return x <= y
	case ">":
		return x > y
	case ">=":
		return x >= y
	case "AND":
		return x != 0 && y != 0
	}
	return x != 0 || y != 0 // OR
}
