package rel

// Account is how many segments one user of a module has queued or under way. The owner of a Module keeps one for each of those
// that share the rooms.
type Account struct{ segments int }

// Segments is how many there are now.
func (a *Account) Segments() int { return a.segments }

// Charge has the segments that begin from now on counted in a; nil is no account. Records that go with a segment
// which has begun already cost nothing: the account that begins it pays.
func (m *Module) Charge(a *Account) { m.pool.account = a }

// Shares reports whether a segment charged to a may begin: a has fewer than may begin besides. So one account never gets more than half of
// all rooms, however slow or dead the peers are; two get a third each, and n leave one part in n+1 to the next that comes. One that is alone is not
// held up, as with a fixed share.
func (m *Module) Shares(a *Account) bool { return a.segments == 0 || a.segments < m.Vacancies() }

// Vacancies is how many more segments may begin, all peers and accounts together, until there are as many as rooms: what
// is queued will want one.
func (m *Module) Vacancies() int { return m.cfg.Rooms - m.reserve - m.pool.inUse }
