package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/testenv"
	"github.com/weftnet/weft/internal/userfault"
	"github.com/weftnet/weft/netmem"
)

// pagedInC builds the C program.
func pagedInC(t *testing.T) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("there is no gcc here")
	}
	binary := filepath.Join(t.TempDir(), "paged")
	if out, err := exec.Command(gcc, "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", binary, "testdata/paged.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// pages starts page servers with size bytes each, and returns the flags for their clients.
func pages(t *testing.T, servers int, size string) (flags []string) {
	t.Helper()
	first := testenv.Loopback(t)
	for i := range servers {
		name := "mem/" + strconv.Itoa(i)
		args := []string{"mem", "serve", "--name", name, "--size", size, "--listen", first}
		if i > 0 {
			args = append(args[:len(args)-1], "127.0.0.1:0", "--node", first)
		}
		runWeft(t, name+" lends ", args...)
		flags = append(flags, "--server", name)
	}
	return append(flags, "--listen", "127.0.0.1:0", "--node", first)
}

// A program in Go and one in C fill memory, of which a quarter is local, change it and verify
// it.
func TestAProgramsMemoryIsNetworkMemory(t *testing.T) {
	if err := userfault.Check(); err != nil {
		t.Skip(err)
	}
	size, resident, changes := "16MiB", "4MiB", "500"
	if testing.Short() {
		size, resident, changes = "2MiB", "512KiB", "100"
	}
	flags := pages(t, 2, "64MiB")
	args := append([]string{"mem", "map", "--copies", "2", "--size", size, "--resident", resident, "--report", "20ms"}, flags...)
	t.Run("Go", func(t *testing.T) {
		t.Setenv(asPaged, changes)
		usePaged(t, append(args, "--", os.Args[0]), "collections\n")
	})
	t.Run("C", func(t *testing.T) {
		usePaged(t, append(args, "--", pagedInC(t), "-t", "4", "-n", changes), "bytes are as they were written\n")
	})
}

func usePaged(t *testing.T, args []string, want string) {
	t.Helper()
	var out, errs lockedBuffer // the program and weft both write to them
	status := run(t.Context(), args, &out, &errs)
	if status != 0 || !strings.HasSuffix(out.String(), want) || strings.Contains(errs.String(), "SIGBUS") {
		t.Errorf("status %d: %s%s", status, out.String(), errs.String())
	}
	if !strings.Contains(errs.String(), `"pager":{"mapped":`) {
		t.Errorf("no report of the pager: %s", errs.String())
	}
}

// None of a hundred runs, 50 of each program, hangs or reads a wrong byte.
func TestNoRunOfAHundredHangs(t *testing.T) {
	if !*long {
		t.Skip("takes minutes: -args -long")
	}
	useBoth(t, "64MiB", "16MiB", "4MiB", "500", 50)
}

func TestAGigabyteOfWhichAQuarterIsResident(t *testing.T) {
	if !*long {
		t.Skip("takes minutes: -args -long")
	}
	useBoth(t, "1280MiB", "1GiB", "256MiB", "2000", 1)
}

// useBoth runs each of the two programs times times, with a page server that lends lent bytes.
func useBoth(t *testing.T, lent, size, resident, changes string, times int) {
	if err := userfault.Check(); err != nil {
		t.Skip(err)
	}
	binary := pagedInC(t)
	args := append([]string{"mem", "map", "--size", size, "--resident", resident, "--report", "50ms"}, pages(t, 1, lent)...)
	for range times {
		begun := time.Now()
		usePaged(t, append(args, "--", binary, "-n", changes), "bytes are as they were written\n")
		inC := time.Since(begun)
		t.Setenv(asPaged, changes)
		usePaged(t, append(args, "--", os.Args[0]), "collections\n")
		t.Setenv(asPaged, "")
		t.Logf("%s, %s resident: %v in C, %v in Go", size, resident, inC, time.Since(begun)-inC)
	}
}

// When the servers die, a program that touches their memory ends with a reason, and does not
// hang.
func TestAProgramWhosePageServersDieIsTold(t *testing.T) {
	if err := userfault.Check(); err != nil {
		t.Skip(err)
	}
	binary := pagedInC(t)
	addr := testenv.Loopback(t)
	ctx, kill := context.WithCancel(t.Context())
	var out, errs lockedBuffer
	dead := make(chan int, 1)
	go func() {
		dead <- run(ctx, []string{"mem", "serve", "--name", "mem/0", "--size", "64MiB", "--listen", addr}, &out, &errs)
	}()
	defer func() { kill(); <-dead }()
	for deadline := time.Now().Add(patience); !strings.Contains(out.String(), "mem/0 lends"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no server: %s%s", out.String(), errs.String())
		}
	}
	var said lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), []string{"mem", "map", "--size", "4MiB", "--resident", "1MiB", "--server", "mem/0", "--report", "10ms", "--io-timeout", "2s",
			"--listen", "127.0.0.1:0", "--node", addr, "--", binary, "-n", "100000000"}, &said, &said)
	}()
	// all pages are filled
	for deadline := time.Now().Add(patience); !strings.Contains(said.String(), `"pages":1024,`); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) || len(ended) > 0 {
			t.Fatalf("the program does not fill its memory: %s", said.String())
		}
	}
	kill()
	if status := <-ended; status != 128+7 { // SIGBUS, as a shell reports it
		t.Errorf("status %d: %s", status, said.String())
	}
	if !strings.Contains(said.String(), "weft: map: a program gets SIGBUS for want of 4096 bytes at ") {
		t.Errorf("no reason is logged: %s", said.String())
	}
}

// If two programs ask at once, one gets the memory and the other says why it has none: the
// C program as netmem.Map does.
func TestAProgramInCSaysWhyItHasNoMemory(t *testing.T) {
	if err := userfault.Check(); err != nil {
		t.Skip(err)
	}
	binary := pagedInC(t)
	at := filepath.Join(t.TempDir(), "map.sock")
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	var said lockedBuffer
	args := append([]string{"mem", "map", "--size", "1MiB", "--resident", "256KiB", "--unix", at}, pages(t, 1, "16MiB")...)
	go func() { ended <- run(ctx, args, &said, &said) }()
	await(t, "the memory", func() bool { return strings.Contains(said.String(), "gives 1MiB") })
	t.Setenv(netmem.MapVariable, at)
	first, err := netmem.Map(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	const want = "network memory: another program has the memory; expected one at a time\n"
	if out, err := exec.Command(binary).CombinedOutput(); err == nil || string(out) != want {
		t.Errorf("%v: %q; want %q", err, out, want)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	end()
	if status := <-ended; status != 0 {
		t.Errorf("status %d: %s", status, said.String())
	}
	const gone = "network memory: No such file or directory\n"
	if out, err := exec.Command(binary).CombinedOutput(); err == nil || string(out) != gone {
		t.Errorf("%v: %q; want %q", err, out, gone)
	}
}

func TestMappedMemorySaysWhatIsWrong(t *testing.T) {
	if err := userfault.Check(); err != nil {
		t.Skip(err)
	}
	flags := " " + strings.Join(pages(t, 1, "1MiB"), " ")
	for _, c := range []struct {
		line   string
		status int
		want   string
	}{
		{"mem map --size 1MiB --server mem/0 -- true", exitUsage, "no --resident given: expected the limit of local memory, such as 1GiB"},
		{"mem map --resident 1MiB --server mem/0 -- true", exitUsage, "no --size given: expected the size of the volume"},
		{"mem map --size 1MiB --resident 5000 --server mem/0 -- true", exitUsage, `invalid argument "5000" for "--resident" flag: expected a number of bytes such as 64MiB or 8GiB, a multiple of 4096`},
		{"mem map --size 5000 --resident 1MiB --server mem/0 -- true", exitUsage, `invalid argument "5000" for "--size" flag`},
		{"mem map --size 1MiB --resident 128KiB --server mem/0 -- true", exitUsage, "--resident is 131072 bytes: expected a multiple of 4096, the size of a page, and at least 262144"},
		{"mem map --size 1MiB --resident 2MiB --server mem/0 -- true", exitUsage, "--resident is 2097152 bytes: expected at most 1048576, the --size"},
		{"mem map --size 1MiB --resident 512KiB --server mem/0", exitUsage, "no command and no --unix: expected a command to run, or a socket at which programs ask for memory"},
		{"mem map --size 1MiB --resident 512KiB" + flags + " -- /no/such/program", 127, ""},
		{"mem map --size 2MiB --resident 512KiB" + flags + " -- true", exitFailed, "netmem: a volume of 2097152 bytes, in copies: 1, on servers: 1; they have room for 1048576"},
		{"mem map --size 1MiB --resident 512KiB --unix /no/such/dir/sock" + flags + " -- true", exitFailed, "listen unixpacket /no/such/dir/sock: bind: no such file"},
		{"mem map --size 1MiB --resident 512KiB" + flags + " -- false", 1, ""},
	} {
		status, _, stderr := weft(strings.Fields(c.line)...)
		if status != c.status || c.want != "" && !strings.HasPrefix(stderr, "weft: "+c.want) {
			t.Errorf("weft %s: status %d, standard error %q; want %d and %q", c.line, status, stderr, c.status, c.want)
		}
	}
}

func TestAMappingNeedsAPager(t *testing.T) {
	t.Setenv(netmem.MapVariable, "")
	if _, err := netmem.Map(t.Context(), ""); err == nil || err.Error() != "netmem: map: no socket given, and WEFT_MEM is not set: expected to be started by weft mem map" {
		t.Error(err)
	}
	if _, err := netmem.Map(t.Context(), filepath.Join(t.TempDir(), "no")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}
