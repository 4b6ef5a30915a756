package rel

// Account counts the segments that one user of a module has queued or in flight. The owner of a
// Module keeps one Account for each user that shares the rooms.
type Account struct{ segments int }

// Segments returns their present number.
func (a *Account) Segments() int { return a.segments }

// Charge counts the segments that begin from now on in a; nil stands for no account. Records
// that join an open segment cost nothing: the account that began the segment pays.
func (m *Module) Charge(a *Account) { m.pool.account = a }

// Shares reports whether a segment charged to a may begin: if a has fewer segments than there
// are vacancies. So one account never gets more than half of all rooms, however slow or dead the
// peers are. Two accounts get a third each, and n accounts leave one part in n+1 to the next. An
// account that is alone is not held up, as it would be with a fixed share.
func (m *Module) Shares(a *Account) bool { return m.sharesAll(a, 1) }

// sharesAll is Shares for n segments that begin together: it holds for the last of them when the
// others have begun.
func (m *Module) sharesAll(a *Account, n int) bool {
	before := a.segments + n - 1
	return before == 0 || before < m.Vacancies()-(n-1)
}

// Vacancies returns how many more segments may begin, of all peers and accounts together, until
// there are as many as rooms. Queued segments count, because each will need a room.
func (m *Module) Vacancies() int { return m.cfg.Rooms - m.reserve - m.pool.inUse }
