package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/metrics"
)

// metricsFlags adds the flags for the address and the token of the metrics.
func metricsFlags(f *pflag.FlagSet, c *daemon.Config) {
	f.Var(&checkedFlag{
		kind: "ADDRESS",
		text: "off",
		want: metrics.WantAddress,
		set: func(s string) bool {
			c.Metrics = s
			_, err := metrics.ParseAddress(s, "")
			return err == nil && s != "" // for example from an unset variable
		},
	}, "metrics", "serve /metrics for Prometheus, /healthz, /readyz and /debug/pprof/ at ADDRESS: "+
		"HOST:PORT; unix:PATH; unix for metrics.sock in the state directory; or off")
	f.StringVar(&c.MetricsTokenFile, "metrics-token-file", "",
		"answer visitors of --metrics by TCP only if they have the token in `FILE`; "+
			"without it, HOST must be an address of loopback")
}

// mergeMetrics puts the given flags over the configuration's keys about metrics.
func (o *nicOptions) mergeMetrics(c *cobra.Command, conf *daemon.Config) {
	if c.Flags().Changed("metrics") {
		conf.Metrics = o.config.Metrics
		conf.Override("metrics")
	}
	if c.Flags().Changed("metrics-token-file") {
		conf.MetricsTokenFile = o.config.MetricsTokenFile
		conf.Override("metrics_token_file")
	}
}
