package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeMachine returns a machine of two processors with these files.
func fakeMachine(t *testing.T, files map[string]string, may ...int) *machine {
	m := &machine{root: t.TempDir()}
	for _, cpu := range may {
		m.may.Set(cpu)
	}
	good := map[string]string{
		"sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0",
		"sys/devices/system/cpu/cpu1/topology/thread_siblings_list": "1",
		"proc/loadavg": "0.10 0.20 0.30 1/87 1",
	}
	for name, text := range files {
		good[name] = text
	}
	for name, text := range good {
		file := filepath.Join(m.root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestWhatSpoilsARunIsNamed(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	for want, m := range map[string]*machine{
		"":                          fakeMachine(t, nil, 0, 1),
		"pinned to 1 of 2":          fakeMachine(t, nil, 1),
		"one processor":             fakeMachine(t, nil, 0),
		"threads of one core":       fakeMachine(t, map[string]string{cpu + "cpu0/topology/thread_siblings_list": "0-1", cpu + "cpu1/topology/thread_siblings_list": "0-1"}, 0, 1),
		`the governor of cpu1 is "`: fakeMachine(t, map[string]string{cpu + "cpu0/cpufreq/scaling_governor": "performance", cpu + "cpu1/cpufreq/scaling_governor": "powersave"}, 0, 1),
		"allows 1.50 processors":    fakeMachine(t, map[string]string{"sys/fs/cgroup/cpu.max": "150000 100000"}, 0, 1),
		"load 3.2":                  fakeMachine(t, map[string]string{"proc/loadavg": "3.20 1 1 1/1 1"}, 0, 1),
	} {
		got := strings.Join(m.spoils(), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	if m := fakeMachine(t, map[string]string{"sys/fs/cgroup/cpu.max": "max 100000", cpu + "cpu1/online": "0"}, 0); !strings.HasPrefix(strings.Join(m.spoils(), "\n"), "one processor") {
		t.Errorf("a processor that is off counts: %q", m.spoils())
	}
	if len(goSpoils(1)) != 1 || len(goSpoils(2)) != 0 {
		t.Error("GOMAXPROCS of 1 spoils a run, and of 2 does not")
	}
	var real unix.CPUSet
	if err := unix.SchedGetaffinity(0, &real); err == nil && real.Count() > 1 {
		t.Logf("here: %q", Spoils())
	}
}
