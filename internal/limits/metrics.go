package limits

import "time"

// The metrics of a daemon (internal/metrics).
const (
	// MetricsConnections bounds the connections to the listener. Prometheus has one, a health
	// check another for a moment, a person a few. Beyond it, the server closes the oldest
	// connection of the source that has the most.
	MetricsConnections = 16

	// MetricsAtATime bounds the concurrent answers. One takes some milliseconds of a core.
	MetricsAtATime = 4

	// MetricsHeader bounds the header of a request: a token and what browsers add.
	MetricsHeader = 8 << 10

	// MetricsRead is the timeout of a request, MetricsWrite that of the answer, and MetricsIdle
	// that of the next request: more than the usual interval of a minute.
	MetricsRead  = 5 * time.Second
	MetricsWrite = 10 * time.Second
	MetricsIdle  = 90 * time.Second

	// MetricsProfile is the longest profile or trace, which costs the daemon time while it lasts.
	MetricsProfile = time.Minute

	// WorstPeers bounds the peers with metrics of their own. All other peers are only in the sums,
	// so a large fabric does not fill the database of an operator.
	WorstPeers = 20

	// HealthEvery bounds the age of the result of a health check. So a flood of requests costs a
	// loop one empty job in this time.
	HealthEvery = time.Second

	// LeastToken and MostToken bound the length of a token, in characters. An attacker could guess
	// a shorter one.
	LeastToken = 16
	MostToken  = 512
)
