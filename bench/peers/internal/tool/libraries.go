package tool

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/ground"
	"github.com/weftnet/weft/internal/testenv"
)

// sources holds the sources of the contestants that are libraries for C.
//
//go:embed csrc
var sources embed.FS

// compile writes the sources to dir and compiles one of them there.
func compile(
	ctx context.Context, dir, packages, compiler, name string, libraries ...string,
) (binary string, err error) {
	if err := need(packages, compiler); err != nil {
		return "", err
	}
	for _, file := range []string{"measure.h", name + ".c"} {
		text, err := sources.ReadFile("csrc/" + file)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			return "", err
		}
	}
	binary = filepath.Join(dir, name)
	argv := append([]string{compiler, "-O2", "-o", binary, filepath.Join(dir, name+".c")}, libraries...)
	return binary, compiles(ctx, packages, argv...)
}

// ZeroMQ is libzmq in two C programs, over ipc on one host and tcp between two.
type ZeroMQ struct{ binary, dir string }

// NewZeroMQ compiles them in a directory.
func NewZeroMQ(ctx context.Context, dir string) (*ZeroMQ, error) {
	binary, err := compile(ctx, dir, "gcc libc6-dev libzmq3-dev", "gcc", "zmq", "-lzmq")
	return &ZeroMQ{binary, dir}, err
}

// Run does the jobs on a site.
func (z *ZeroMQ) Run(ctx context.Context, s *ground.Site, jobs contest.Jobs) ([]contest.Sample, error) {
	endpoint := "ipc://" + filepath.Join(z.dir, "zmq.sock")
	if s.Hosts() {
		port, err := testenv.TakePort()
		if err != nil {
			return nil, err
		}
		endpoint = fmt.Sprintf("tcp://%s:%d", s.Addr(1), port)
	}
	server := s.Program(ctx, 1, z.binary, "server", endpoint)
	if _, err := server.StartServer(); err != nil {
		return nil, err
	}
	defer server.End()
	out, err := s.Program(ctx, 0, z.binary, "client", endpoint, jobs.String()).Output()
	samples, bad := parseSamples(out)
	return samples, errors.Join(err, bad)
}

// OpenMPI is a C program with two ranks, over vader (shared memory) on one host and tcp between
// two.
type OpenMPI struct{ binary, dir string }

// NewOpenMPI compiles it in a directory.
func NewOpenMPI(ctx context.Context, dir string) (*OpenMPI, error) {
	const packages = "openmpi-bin libopenmpi-dev gcc libc6-dev"
	if err := need(packages, "mpirun"); err != nil {
		return nil, err
	}
	binary, err := compile(ctx, dir, packages, "mpicc", "mpi")
	return &OpenMPI{binary, dir}, err
}

// Run does the jobs on a site.
func (m *OpenMPI) Run(ctx context.Context, s *ground.Site, jobs contest.Jobs) ([]contest.Sample, error) {
	launch := []string{"mpirun", "-n", "2", "--mca", "btl", "self,vader"}
	if s.Hosts() {
		agent, end, err := m.agent(ctx, s)
		if err != nil {
			return nil, err
		}
		defer end()
		// By default each host would bind its rank to its first processor, and that is the same
		// processor here.
		launch = []string{"taskset", "-c", "0", "mpirun", "-n", "2", "--bind-to", "none", "--host",
			s.Addr(0) + ":1," + s.Addr(1) + ":1", "--mca", "plm_rsh_agent", agent,
			"--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"}
	}
	if os.Getuid() == 0 {
		launch = append(launch, "--allow-run-as-root")
	}
	launcher := s.Program(ctx, 0, launch[0], append(launch[1:], m.binary, jobs.String())...)
	launcher.Env = append(os.Environ(), "TMPDIR="+m.dir) // for its sessions
	out, err := launcher.Output()
	samples, bad := parseSamples(out)
	return samples, errors.Join(err, bad)
}

// agent writes the script by which mpirun starts its daemon on another host. Like ssh, the
// script runs a command there: in the network namespace of an idle program, and on the last
// processor.
func (m *OpenMPI) agent(ctx context.Context, s *ground.Site) (name string, end func(), err error) {
	if err := need("util-linux", "nsenter", "taskset"); err != nil {
		return "", nil, err
	}
	holder := s.Program(ctx, 1, "sh", "-c", "echo here; exec sleep 1000")
	if _, err := holder.StartServer(); err != nil {
		return "", nil, err
	}
	name = filepath.Join(m.dir, "agent")
	script := []string{"#!/bin/sh", "shift # the host",
		fmt.Sprintf(`exec taskset -c %d nsenter --net=/proc/%d/ns/net sh -c "$*"`, runtime.NumCPU()-1,
			holder.Process.Pid), ""}
	if err := os.WriteFile(name, []byte(strings.Join(script, "\n")), 0o700); err != nil {
		holder.End()
		return "", nil, err
	}
	return name, holder.End, nil
}
