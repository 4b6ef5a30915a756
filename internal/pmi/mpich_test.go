package pmi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// compilePi compiles the MPI program of testdata with MPICH's compiler.
func compilePi(t *testing.T) (program string) {
	t.Helper()
	cc, err := exec.LookPath("mpicc.mpich")
	if err != nil {
		t.Skipf("no compiler of MPICH (package mpich): %v", err)
	}
	program = filepath.Join(t.TempDir(), "pi")
	if out, err := exec.Command(cc, "-O1", "-o", program, "testdata/pi.c", "-lm").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// runMPI runs an MPI program: ranks[h] are under the server of host h. It returns the output of
// the ranks and how each ended.
func runMPI(t *testing.T, ctx context.Context, argv []string, ranks ...[]int) (output string, ended []error, f *fabric) {
	t.Helper()
	var hosts []int
	for h, r := range ranks {
		for range r {
			hosts = append(hosts, h)
		}
	}
	f = newFabric(len(ranks))
	ended = make([]error, len(hosts))
	var out bytes.Buffer
	var all sync.WaitGroup
	for h, r := range ranks {
		s, err := NewServer(ServerConfig{Name: "job-1", Size: len(hosts), Ranks: r, Mapping: Mapping(hosts), Refused: func(rank int, why error) {
			t.Errorf("the server refuses rank %d: %v", rank, why)
		}}, f.hosts[h])
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, rank := range r {
			child, err := s.Connect(rank)
			if err != nil {
				t.Fatal(err)
			}
			x := exec.CommandContext(ctx, argv[0], argv[1:]...)
			x.ExtraFiles = []*os.File{child}
			x.Env = append(append(os.Environ(), "PMI_FD=3"), s.Environment(rank)...)
			if rank == 0 {
				x.Stdout = &out
			}
			if err := errors.Join(x.Start(), child.Close()); err != nil {
				t.Fatal(err)
			}
			all.Go(func() { ended[rank] = x.Wait() })
		}
	}
	all.Wait()
	return out.String(), ended, f
}

func TestAnMPIProgramOfMPICHRunsOnTheServer(t *testing.T) {
	program := compilePi(t)
	for what, ranks := range map[string][][]int{
		"one rank": {{0}}, "four ranks": {{0, 1, 2, 3}}, "two hosts": {{0, 1}, {2, 3}}, "three hosts": {{0}, {1, 2}, {3}},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			out, ended, f := runMPI(t, ctx, []string{program}, ranks...)
			if err := errors.Join(ended...); err != nil || len(f.aborts) > 0 {
				t.Fatalf("ranks: %v; aborts %q", err, f.aborts)
			}
			n := len(ended)
			want := fmt.Sprintf("%d ranks: pi is 3.141593, off by less than 1e-6: yes; the ring adds up to %d\n", n, n*(n-1)/2)
			if out != want {
				t.Errorf("output %q; expected %q", out, want)
			}
		})
	}
}

// MPICH's client does not send its abort to the server: it ends with the status.
func TestARankOfMPICHThatAbortsEndsWithItsStatus(t *testing.T) {
	program := compilePi(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, ended, f := runMPI(t, ctx, []string{program, "abort"}, []int{0})
	var status *exec.ExitError
	if !errors.As(ended[0], &status) || status.ExitCode() != 9 || len(f.aborts) > 0 {
		t.Errorf("the rank ends with %v, aborts %q; expected status 9", ended[0], f.aborts)
	}
}
