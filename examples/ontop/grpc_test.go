package ontop_test

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/orca"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/examples/ontop"
	"github.com/weftnet/weft/internal/testenv"
	"github.com/weftnet/weft/stream"
)

// interopCases are the cases of gRPC's interop client that use no TLS and no credentials, by the
// client's names. A case that fails prints the reason and ends the program. pick_first_unary is
// left out: it needs a server that tells which of several it is, and gRPC's Go server does not.
var interopCases = []struct {
	name string
	do   func(ctx context.Context, c *grpc.ClientConn, tc grpc_testing.TestServiceClient, dial func() *grpc.ClientConn)
}{
	{"empty_unary", plain(interop.DoEmptyUnaryCall)},
	{"large_unary", plain(interop.DoLargeUnaryCall)},
	{"client_streaming", plain(interop.DoClientStreaming)},
	{"server_streaming", plain(interop.DoServerStreaming)},
	{"ping_pong", plain(interop.DoPingPong)},
	{"empty_stream", plain(interop.DoEmptyStream)},
	{"timeout_on_sleeping_server", plain(interop.DoTimeoutOnSleepingServer)},
	{"cancel_after_begin", plain(interop.DoCancelAfterBegin)},
	{"cancel_after_first_response", plain(interop.DoCancelAfterFirstResponse)},
	{"status_code_and_message", plain(interop.DoStatusCodeAndMessage)},
	{"special_status_message", plain(interop.DoSpecialStatusMessage)},
	{"custom_metadata", plain(interop.DoCustomMetadata)},
	{"unimplemented_method", func(ctx context.Context, c *grpc.ClientConn, _ grpc_testing.TestServiceClient, _ func() *grpc.ClientConn) {
		interop.DoUnimplementedMethod(ctx, c)
	}},
	{"unimplemented_service", func(ctx context.Context, c *grpc.ClientConn, _ grpc_testing.TestServiceClient, _ func() *grpc.ClientConn) {
		interop.DoUnimplementedService(ctx, grpc_testing.NewUnimplementedServiceClient(c))
	}},
	{"rpc_soak", func(ctx context.Context, c *grpc.ClientConn, _ grpc_testing.TestServiceClient, _ func() *grpc.ClientConn) {
		soak(ctx, func() (*grpc.ClientConn, func()) { return c, func() {} })
	}},
	{"channel_soak", func(ctx context.Context, _ *grpc.ClientConn, _ grpc_testing.TestServiceClient, dial func() *grpc.ClientConn) {
		soak(ctx, func() (*grpc.ClientConn, func()) { c := dial(); return c, func() { c.Close() } })
	}},
	{"orca_per_rpc", bare(interop.DoORCAPerRPCTest)},
	{"orca_oob", bare(interop.DoORCAOOBTest)},
}

func plain(do func(context.Context, grpc_testing.TestServiceClient, ...grpc.CallOption)) func(context.Context, *grpc.ClientConn, grpc_testing.TestServiceClient, func() *grpc.ClientConn) {
	return func(ctx context.Context, _ *grpc.ClientConn, tc grpc_testing.TestServiceClient, _ func() *grpc.ClientConn) {
		do(ctx, tc)
	}
}

func bare(do func(context.Context, grpc_testing.TestServiceClient)) func(context.Context, *grpc.ClientConn, grpc_testing.TestServiceClient, func() *grpc.ClientConn) {
	return func(ctx context.Context, _ *grpc.ClientConn, tc grpc_testing.TestServiceClient, _ func() *grpc.ClientConn) {
		do(ctx, tc)
	}
}

// soak makes 10 large calls. Each must succeed; the latency does not matter here.
func soak(ctx context.Context, channel func() (*grpc.ClientConn, func())) {
	interop.DoSoakTest(ctx, interop.SoakTestConfig{RequestSize: 271828, ResponseSize: 314159, Iterations: 10, NumWorkers: 1,
		PerIterationMaxAcceptableLatency: patience, OverallTimeout: patience, ChannelForTest: channel})
}

// runInterop runs the cases against a server of them. reports says that the server sends load
// reports every second. Only gRPC's own program may do so that often.
func runInterop(t *testing.T, d *stream.Dialer, address string, reports bool) {
	ran := 0
	for _, c := range interopCases {
		if c.name == "orca_oob" && !reports {
			continue
		}
		ran++
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var more []grpc.DialOption
			// as the description of the cases says
			if c.name == "orca_per_rpc" || c.name == "orca_oob" {
				more = append(more, grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`))
			}
			dial := func() *grpc.ClientConn {
				conn, err := ontop.GRPC(d, address, more...)
				if err != nil {
					t.Fatal(err)
				}
				return conn
			}
			conn := dial()
			defer conn.Close()
			c.do(ctx, conn, grpc_testing.NewTestServiceClient(conn), dial)
		})
	}
	if ran < 17 {
		t.Errorf("%d cases ran", ran)
	}
}

func TestGRPCsInteropCasesPassOverStreams(t *testing.T) {
	for name, cfg := range map[string]weft.Config{
		"switch":           {Link: weft.NewSwitch().Link()},
		"udp, 2 % of loss": {Link: weft.UDP("127.0.0.1:0"), Faults: &weft.Faults{Loss: 0.02}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Name = weft.Name{App: "app"}
			a := open(t, cfg)
			cfg.Name = weft.Name{App: "client"}
			cfg.Nodes = []weft.Node{{ID: a.NIC().ID(), Addr: a.NIC().Addr()}}
			b := open(t, cfg)
			l, err := stream.Listen(a, "grpc")
			if err != nil {
				t.Fatal(err)
			}
			s := grpc.NewServer(orca.CallMetricsServerOption(nil))
			grpc_testing.RegisterTestServiceServer(s, interop.NewTestServer(interop.NewTestServerOptions{MetricsRecorder: orca.NewServerMetricsRecorder()}))
			go s.Serve(l)
			t.Cleanup(s.Stop)
			runInterop(t, &stream.Dialer{Process: b}, "app/0:grpc", false)
		})
	}
}

// The server is gRPC's own program, which supports TCP only.
func TestGRPCsInteropServerPassesBehindAProxy(t *testing.T) {
	server := filepath.Join(t.TempDir(), "server")
	if out, err := exec.Command("go", "build", "-o", server, "google.golang.org/grpc/interop/server").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address := testenv.Loopback(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GRPC_GO_LOG_SEVERITY_LEVEL", "info")
	here.serve(t, "interop server listening", nil, server, "-port", port)
	runInterop(t, behind(t, "app/0:grpc", address), "app/0:grpc", true)
}
