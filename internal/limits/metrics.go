package limits

import "time"

// The metrics of a daemon (internal/metrics).
const (
	// MetricsConnections bounds the connections to the listener. Prometheus has one, a health
	// check another for a moment, a person a few. Beyond it the oldest connection gives way.
	MetricsConnections = 16

	// MetricsAtATime is how many answers are made concurrently. One takes some milliseconds of a
	// core.
	MetricsAtATime = 4

	// MetricsHeader bounds the header of a request: a token and what browsers add.
	MetricsHeader = 8 << 10

	// MetricsRead is the time for a client to send its request, MetricsWrite the time to take the
	// answer, and MetricsIdle the time for its next request: more than the usual interval of a
	// minute.
	MetricsRead  = 5 * time.Second
	MetricsWrite = 10 * time.Second
	MetricsIdle  = 90 * time.Second

	// MetricsProfile is the longest profile or trace, which costs the daemon time while it lasts.
	MetricsProfile = time.Minute

	// WorstPeers is how many peers have metrics of their own. All other peers are in the sums
	// alone, so that a large fabric does not fill the database of an operator.
	WorstPeers = 20

	// HealthEvery is how old the result of a health check may be. A flood of questions so costs a
	// loop one empty job in this time.
	HealthEvery = time.Second

	// LeastToken and MostToken bound the length of a token, in characters. A shorter one could be
	// guessed.
	LeastToken = 16
	MostToken  = 512
)
