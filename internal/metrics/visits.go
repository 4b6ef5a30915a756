package metrics

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/newcomers"
)

// visits counts the visitors, and logs the refused ones.
type visits struct {
	requests *prometheus.CounterVec
	ousted   prometheus.Counter
	lines    *newcomers.Lines
}

func newVisits() visits {
	return visits{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_metrics_requests_total",
			Help: "Requests to the metrics, by page and status; 403: the visitor was refused"},
			[]string{"page", "code"}),
		ousted: prometheus.NewCounter(prometheus.CounterOpts{Name: "weft_metrics_connections_ousted_total",
			Help: "Connections to the metrics that were closed because there were too many"}),
		lines: new(newcomers.Lines),
	}
}

func (v *visits) register(r *prometheus.Registry) error {
	for _, page := range []string{metricsPath, pprofPath} { // so that the first refusal is an increase
		v.requests.WithLabelValues(page, strconv.Itoa(http.StatusForbidden))
	}
	return errors.Join(r.Register(v.requests), r.Register(v.ousted))
}

// watched counts the requests of a handler, and passes on those that the guard permits.
func (s *Server) watched(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.begin() {
			http.Error(w, "the NIC is going down", http.StatusServiceUnavailable)
			return
		}
		defer s.answers.Done()
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			s.visits.requests.WithLabelValues(pageOf(r.URL.Path), strconv.Itoa(seen.status)).Inc()
		}()
		if r.ContentLength != 0 {
			refuseBody(seen)
			return
		}
		if why := s.guard.refusal(r); why != "" {
			s.tellRefusal(r, why)
			http.Error(seen, why, http.StatusForbidden)
			return
		}
		pages.ServeHTTP(seen, r)
	})
}

// refuseBody refuses a request with a body. Before it sends an answer, net/http waits for the rest
// of the body, unless the connection then closes. A visitor that never sends it would hold the
// answer, and Close with it.
func refuseBody(w http.ResponseWriter) {
	// What is left of the body is read after the answer, for a visitor that sends it first.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(limits.MetricsRead))
	w.Header().Set("Connection", "close")
	http.Error(w, "the request has a body; expected none", http.StatusBadRequest)
}

// tellRefusal logs a refused visitor, at a bounded rate.
func (s *Server) tellRefusal(r *http.Request, why string) {
	missed, ok := s.visits.lines.Print("refused", time.Now())
	if !ok {
		return
	}
	s.cfg.Log.Warn("a visitor of the metrics is refused", "from", r.RemoteAddr, "page", pageOf(r.URL.Path), "why", why,
		"lines_left_out", missed)
}

// pageOf returns the value of the label page: one of a few, for any path.
func pageOf(path string) string {
	switch {
	case path == metricsPath, path == healthPath, path == readyPath:
		return path
	case strings.HasPrefix(path, pprofPath):
		return pprofPath
	}
	return "other"
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap gives [http.ResponseController] the writer below, for its deadlines.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
