package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/ground"
	"github.com/weftnet/weft/bench/peers/internal/pagepeer"
)

// Fio reads random blocks of a device by the Network Block Device protocol. It first writes all
// of the device: a block that was never written need not be fetched.
type Fio struct{ Device Device }

// Device makes a device whose memory is at place 1 of a site. It returns the device's address
// for a program at place 0, and a function that removes the device.
type Device func(ctx context.Context, s *ground.Site) (uri string, end func(), err error)

// NewFio returns an error if fio is not installed.
func NewFio(d Device) (*Fio, error) { return &Fio{d}, need("fio", "fio") }

// deviceBytes is the size of the device.
const deviceBytes = 8 << 20

// Run does the jobs: reads one at a time, or many in flight.
func (f *Fio) Run(ctx context.Context, s *ground.Site, jobs contest.Jobs) ([]contest.Sample, error) {
	uri, end, err := f.Device(ctx, s)
	if err != nil {
		return nil, err
	}
	defer end()
	out, err := s.Program(ctx, 0, "fio", fioArgs(uri, jobs)...).Output()
	if err != nil {
		return nil, err
	}
	return parseFio(out, jobs)
}

// fioArgs returns arguments that fill the device, and then run the jobs in order, each after a
// warm-up of a tenth of its time.
func fioArgs(uri string, jobs contest.Jobs) []string {
	args := []string{"--output-format=json+", "--lat_percentiles=1", "--thread", "--ioengine=nbd", "--uri=" + uri,
		"--size=" + strconv.Itoa(deviceBytes),
		"--name=fill", "--rw=write", "--bs=64k", "--iodepth=16"}
	for _, j := range jobs {
		args = append(args, "--name="+fioName(j), "--stonewall", "--rw=randread", "--bs="+strconv.Itoa(j.Size),
			"--iodepth="+strconv.Itoa(fioDepth(j)),
			"--time_based", fmt.Sprintf("--runtime=%dms", j.Time.Milliseconds()),
			fmt.Sprintf("--ramp_time=%dms", max(j.Time/10, time.Millisecond).Milliseconds()))
	}
	return args
}

func fioName(j contest.Job) string { return fmt.Sprintf("%s:%d", j.Measure, j.Size) }

func fioDepth(j contest.Job) int {
	if j.Measure == contest.Latency {
		return 1
	}
	return contest.ReadDepth
}

// fioRun holds the fields of a job in fio's JSON that are used here.
type fioRun struct {
	Name  string `json:"jobname"`
	Error int    `json:"error"`
	Read  struct {
		IOPS    float64 `json:"iops"`
		Latency struct {
			// how many took so many ns, from the call that begins a read to its end
			Bins map[string]int64 `json:"bins"`
		} `json:"lat_ns"`
	} `json:"read"`
}

// parseFio parses fio's output into the samples of jobs. Lines of its engine precede the JSON.
func parseFio(out string, jobs contest.Jobs) (samples []contest.Sample, err error) {
	var result struct {
		Jobs []fioRun `json:"jobs"`
	}
	_, text, found := strings.Cut("\n"+out, "\n{")
	if !found {
		return nil, errors.New("fio printed no JSON")
	}
	if err := json.Unmarshal([]byte("{"+text), &result); err != nil {
		return nil, fmt.Errorf("fio: %w", err)
	}
	runs := make(map[string]fioRun)
	for _, r := range result.Jobs {
		if r.Error != 0 {
			return nil, fmt.Errorf("fio: job %s ended with error %d", r.Name, r.Error)
		}
		runs[r.Name] = r
	}
	for _, j := range jobs {
		r, ok := runs[fioName(j)]
		if !ok {
			return samples, fmt.Errorf("fio told nothing of %s", fioName(j))
		}
		s, err := r.sample(j)
		if err != nil {
			return samples, err
		}
		samples = append(samples, s)
	}
	return samples, nil
}

func (r *fioRun) sample(j contest.Job) (contest.Sample, error) {
	s := contest.Sample{Measure: j.Measure, Size: j.Size, Value: r.Read.IOPS}
	if j.Measure == contest.Latency {
		for ns, n := range r.Read.Latency.Bins {
			v, err := strconv.ParseFloat(ns, 64)
			if err != nil {
				return s, fmt.Errorf("fio: a time of %q: %w", ns, err)
			}
			s.Steps = append(s.Steps, contest.Step{Nanoseconds: v, Count: n})
		}
		s.Steps = contest.Merge(s.Steps) // in order
		s.Value = s.Steps.At(50)
	}
	if s.Value <= 0 {
		return s, fmt.Errorf("fio read nothing in %s", r.Name)
	}
	return s, nil
}

// NewNbdkit returns an error if nbdkit is not installed, or its plugin that keeps a device in
// memory. nbdkit serves over TCP.
func NewNbdkit() (Device, error) {
	server := overTCP("nbdkit", func(addr, port string) []string {
		return []string{"--foreground", "--ipaddr", addr, "--port", port, "memory", strconv.Itoa(deviceBytes)}
	})
	return func(ctx context.Context, s *ground.Site) (string, func(), error) {
		p, addr, err := server(ctx, s)
		if err != nil {
			return "", nil, err
		}
		return "nbd://" + addr, p.End, nil
	}, need("nbdkit", "nbdkit")
}

// MemNBD returns `weft mem nbd` at a unix socket in dir, with a page server at the other place
// and one copy of each page.
func MemNBD(weft, dir string, link pagepeer.Link) Device {
	server := PageServer(weft, link)
	return func(ctx context.Context, s *ground.Site) (string, func(), error) {
		pages, addr, err := server(ctx, s)
		if err != nil {
			return "", nil, err
		}
		_, port, _ := net.SplitHostPort(addr)
		socket := filepath.Join(dir, "nbd-"+port)
		p := s.Program(ctx, 0, weft, "mem", "nbd", "--server", pagepeer.PageServer.String(), "--size",
			strconv.Itoa(deviceBytes), "--plain", "--unix", socket,
			"--listen", link.Prefix+net.JoinHostPort(s.Addr(0), "0"), "--node", addr)
		if _, err := p.StartServer(); err != nil {
			pages.End()
			return "", nil, err
		}
		return "nbd+unix:///?socket=" + url.QueryEscape(socket), func() { p.End(); pages.End() }, nil
	}
}
