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
func (m *Module) Shares(a *Account) bool { return m.sharesAll(a, 1) }

// sharesAll is Shares for n segments that begin together: it holds for the last of them when the others have begun.
func (m *Module) sharesAll(a *Account, n int) bool {
	before := a.segments + n - 1
	return before == 0 || before < m.Vacancies()-(n-1)
}

// Vacancies is how many more segments may begin, all peers and accounts together, until there are as many as rooms: what
// is queued will want one.
func (m *Module) Vacancies() int { return m.cfg.Rooms - m.reserve - m.pool.inUse }
