package rel

// Account is how many segments somebody has queued or under way. The owner of a Module keeps one for each of those
// between whom it shares the rooms.
type Account struct{ segments int }

// Segments is how many there are now.
func (a *Account) Segments() int { return a.segments }

// Charge has the segments that begin from now on counted in a; nil is nobody's account. Records that go with a segment
// which has begun already cost nothing: whoever begins it pays.
func (m *Module) Charge(a *Account) { m.pool.account = a }

// Vacancies is how many more segments may begin, all peers and accounts together, until there are as many as rooms: what
// is queued will want one.
func (m *Module) Vacancies() int { return m.cfg.Rooms - m.reserve - m.pool.inUse }
