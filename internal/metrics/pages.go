package metrics

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strconv"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weftnet/weft/internal/limits"
)

// The pages of a Server.
const (
	metricsPath = "/metrics"
	healthPath  = "/healthz"
	readyPath   = "/readyz"
	pprofPath   = "/debug/pprof/"
)

// pages returns the handler of all pages.
func (s *Server) pages(h *health) http.Handler {
	m := http.NewServeMux()
	m.Handle("GET "+metricsPath, promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: limits.MetricsAtATime,
		ErrorLog:            slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelWarn)}))
	m.HandleFunc("GET "+healthPath, answer(h.alive))
	m.HandleFunc("GET "+readyPath, answer(h.ready))
	profiles := oneAtATime()
	m.Handle("GET "+pprofPath, profiles(pprof.Index))
	m.Handle("GET "+pprofPath+"cmdline", profiles(pprof.Cmdline))
	m.Handle("GET "+pprofPath+"profile", profiles(pprof.Profile))
	m.Handle("GET "+pprofPath+"symbol", profiles(pprof.Symbol))
	m.Handle("GET "+pprofPath+"trace", profiles(pprof.Trace))
	return m
}

// answer returns the handler of a check: ok with status 200, or the reason with status 503.
func answer(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// oneAtATime returns a wrapper for handlers of profiles. It makes one profile at a time, of at most
// limits.MetricsProfile.
func oneAtATime() func(http.HandlerFunc) http.Handler {
	turn := make(chan struct{}, 1)
	return func(profile http.HandlerFunc) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if text := r.URL.Query().Get("seconds"); !lasts(text) {
				http.Error(w, fmt.Sprintf("seconds=%.20q; expected more than 0 and at most %v", text,
					limits.MetricsProfile.Seconds()), http.StatusBadRequest)
				return
			}
			select {
			case turn <- struct{}{}:
			default:
				w.Header().Set("Retry-After", "60")
				http.Error(w, "another profile is in progress; ask again when it has ended",
					http.StatusServiceUnavailable)
				return
			}
			defer func() { <-turn }()
			profile(w, r)
		})
	}
}

// lasts reports whether a visitor may ask for a profile of so many seconds; empty: the default.
func lasts(seconds string) bool {
	d, err := strconv.ParseFloat(seconds, 64)
	return seconds == "" || err == nil && d > 0 && d <= limits.MetricsProfile.Seconds()
}
