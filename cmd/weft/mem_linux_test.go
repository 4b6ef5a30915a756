package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/testenv"
	"github.com/weftnet/weft/internal/userfault"
	"github.com/weftnet/weft/netmem"
)

// runWeft runs a command line until the test ends. It waits until the command has printed a
// text, and returns its output.
func runWeft(t *testing.T, until string, args ...string) (said *lockedBuffer) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var out, errs lockedBuffer
	var wg sync.WaitGroup
	ended := make(chan int, 1)
	wg.Go(func() { ended <- run(ctx, args, &out, &errs) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if status := <-ended; status != 0 {
			t.Errorf("weft %s: status %d: %s", strings.Join(args, " "), status, errs.String())
		}
	})
	for deadline := time.Now().Add(patience); !strings.Contains(out.String(), until); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) || len(ended) > 0 {
			t.Fatalf("weft %s does not say %q: %s%s", strings.Join(args, " "), until, out.String(), errs.String())
		}
	}
	return &out
}

func TestPageServersTellWhatTheyHave(t *testing.T) {
	addr := testenv.Loopback(t)
	runWeft(t, "mem/0 lends 64MiB at "+addr, "mem", "serve", "--name", "mem/0", "--size", "64MiB", "--quota", "8MiB", "--listen", addr)
	socket := filepath.Join(t.TempDir(), "a.sock")
	startNIC(t, "--socket", socket, "--listen", "127.0.0.1:0", "--node", addr)
	runWeft(t, "mem/1 lends 16MiB", "mem", "serve", "--name", "mem/1", "--size", "16MiB", "--socket", socket)

	status, out, stderr := weft("mem", "stat", "mem/0", "mem/1", "--socket", socket, "--json")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var said []memReading
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var r memReading
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		said = append(said, r)
	}
	if len(said) != 2 || said[0].Server.Index != 0 || said[0].Bytes != 64<<20 || said[0].QuotaBytes != 8<<20 || said[1].Server.Index != 1 || said[1].Bytes != 16<<20 {
		t.Errorf("%+v", said)
	}

	status, out, stderr = weft("mem", "stat", "mem/9", "mem/0", "--socket", socket, "--json", "--timeout", "100ms")
	if status != exitFailed || !strings.Contains(out, `"server":"mem/0"`) || !strings.HasPrefix(stderr, "weft: netmem: statistics of mem/9: ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("of a server that is not there, and one that is: status %d: %s%s", status, out, stderr)
	}

	ctx, cancel := context.WithCancel(context.Background())
	var live lockedBuffer
	var errs bytes.Buffer
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"mem", "stat", "mem/0", "--listen", "127.0.0.1:0", "--node", addr, "--watch", "10ms"}, &live, &errs)
	}()
	for deadline := time.Now().Add(patience); strings.Count(live.String(), "64.0MiB") < 3 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if status := <-ended; status != 0 || strings.Count(live.String(), "64.0MiB") < 3 {
		t.Errorf("status %d: %s%s", status, live.String(), &errs)
	}
}

func TestMemCommandsSayWhatIsWrong(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "a.sock")
	startNIC(t, "--socket", socket, "--listen", "127.0.0.1:0")
	taken := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(taken, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	const alone = " --listen 127.0.0.1:0"
	for _, c := range []struct {
		line   string
		status int
		want   string
	}{
		{"mem serve --size 8MiB", exitUsage, "no --name given: expected the name of a process, such as mem/0"},
		{"mem serve --name mem/0", exitUsage, "no --size given: expected the size of the memory to lend"},
		{"mem serve --name mem/0 --size 8193", exitUsage, `invalid argument "8193" for "--size" flag: expected a number of bytes such as 64MiB or 8GiB, a multiple of 8192`},
		{"mem serve --name mem/0 --size 64MB", exitUsage, `invalid argument "64MB" for "--size" flag: expected a number of bytes such as 64MiB or 8GiB, a multiple of 8192 and more than 0; its unit may be KiB, MiB, GiB, TiB`},
		{"mem serve --name mem/0 --size 9999999999TiB", exitUsage, `invalid argument "9999999999TiB" for "--size" flag`},
		{"mem serve --name mem/0 --size 16KiB --quota 24KiB", exitUsage, "--quota is 24576 bytes: expected at most 16384, the memory and the file together"},
		{"mem serve --name mem/0 --size 16KiB --admit A/b", exitUsage, `invalid argument "A/b" for "--admit" flag: expected a process, such as app/3`},
		{"mem serve --name mem/0 --size 16KiB --admit A", exitUsage, `invalid argument "A" for "--admit" flag: expected a process, such as app/3`},
		{"mem serve --name mem/0 --size 16KiB --admit app/", exitUsage, `invalid argument "app/" for "--admit" flag: expected a process, such as app/3`},
		{"mem serve --name mem/0 --size 16KiB --node 127.0.0.1:1", exitUsage, "--node without --listen"},
		{"mem serve --name mem/0 --size 1024TiB" + alone, exitFailed, "netmem: 137438953616 pages of 8192 bytes: 1145691117351168 bytes of memory; this host has "},
		{"mem serve --name mem/0 --size 2GiB --socket " + socket, exitFailed, "netmem: 262288 pages of 8192 bytes: "},
		{"mem serve --name mem/0 --size 16KiB --spill-size 8KiB", exitUsage, "--spill-size without --spill: expected --spill FILE, too"},
		{"mem serve --name mem/0 --size 16KiB --spill /proc/version --key " + taken + ".key" + alone, exitFailed, "netmem: spill file /proc/version: "},
		{"mem serve --name mem/0 --size 16KiB --spill " + taken + alone, exitFailed, "netmem: spill file " + taken + ": it has something in it"},
		{"mem serve --name mem/0 --size 16KiB --spill " + taken + "x --spill-size 1024TiB" + alone, exitFailed, "netmem: spill file " + taken + "x: 1125899906842624 bytes; the filesystem has "},
		{"mem stat", exitUsage, "no server given: expected the name of one or more page servers, such as mem/0"},
		{"mem stat Mem", exitUsage, `server "Mem": expected the name of a process, such as mem/0`},
		{"mem stat mem/9 --timeout 100ms" + alone, exitFailed, "netmem: statistics of mem/9: weft: resolve mem/9: context deadline exceeded; this NIC knows no other NIC: name one by Config.Nodes or --node (no answer of the server within 100ms)\n"},
	} {
		status, _, stderr := weft(strings.Fields(c.line)...)
		if status != c.status || !strings.HasPrefix(stderr, "weft: "+c.want) {
			t.Errorf("weft %s: status %d, standard error %q; want %d and %q", c.line, status, stderr, c.status, c.want)
		}
	}
	_, _, stderr := weft("mem", "serve", "--name", "mem/0", "--size", "2GiB", "--socket", socket)
	if !strings.Contains(stderr, "its quota is 1073741824 (region_bytes)") {
		t.Errorf("a server that is larger than its daemon allows: %q", stderr)
	}
}

func TestAServerAdmitsTheClientsThatItNames(t *testing.T) {
	var f memServeFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.define(flags)
	if err := flags.Parse([]string{"--admit", "app", "--admit", "other/3"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"app/0": true, "app/7": true, "other/3": true, "other/2": false, "apple/0": false} {
		n, err := fabric.ParseName(name)
		if err != nil || f.admits(n) != want {
			t.Errorf("%s admitted: %v, want %v (%v)", name, !want, want, err)
		}
	}
}

func TestABlockDeviceOutlivesTheDeathsOfItsServers(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"fio", "qemu-img"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s here", tool)
		}
	}
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	load := []string{"MEM_PERIOD=2", "MEM_SECONDS=5", "MEM_RATE=500", "MEM_IMAGE_MIB=16"}
	if *long {
		load = []string{"MEM_PERIOD=10", "MEM_SECONDS=60"}
	}
	r := testbedExec(t, "--hosts", "4", "--loss", "2%", "--", "testdata/mem-host.sh")
	r.Env = append(append(r.Env, "WEFT="+os.Args[0], "MEM_DIR="+t.TempDir()), load...)
	status, out := r.status(t), ""
	out = r.stdout.String() + r.stderr.String()
	for _, want := range []string{"mem/1 is killed", "err= 0", "Images are identical."} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q", want)
		}
	}
	if status != 0 || t.Failed() {
		t.Errorf("status %d: %s", status, out)
	}
}

// PostgreSQL and sqlite keep their files on network memory, while the page servers are killed in
// turn.
func TestDatabasesOnNetworkMemoryLoseNoTransaction(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"pgbench", "sqlite3", "mkfs.ext4", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s here", tool)
		}
	}
	for _, path := range []string{"/dev/fuse", "/dev/loop-control"} {
		if _, err := os.Stat(path); err != nil {
			t.Skip(err)
		}
	}
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	load := []string{"MEM_PERIOD=2", "MEM_SECONDS=6", "MEM_RATE=20"}
	if *long {
		load = []string{"MEM_PERIOD=20", "MEM_SECONDS=300"}
	}
	r := testbedExec(t, "--hosts", "4", "--", "testdata/db-host.sh")
	dir := t.TempDir()
	r.Env = append(append(r.Env, "WEFT="+os.Args[0], "MEM_DIR="+dir), load...)
	status := r.status(t)
	out := r.stdout.String() + r.stderr.String()
	for _, want := range []string{" is killed", "number of failed transactions: 0 (0.000%)", "transactions, and all are there", "the sums are right, and the filesystem is clean"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q", want)
		}
	}
	if t.Logf("%s", out); status != 0 || t.Failed() {
		t.Errorf("status %d", status)
		for i := 1; i < 4; i++ {
			// there is none if it has not started
			log, _ := os.ReadFile(filepath.Join(dir, "log."+strconv.Itoa(i)))
			t.Logf("page server %d: %s", i, log)
		}
	}
}

func TestNetworkMemoryIsServedByNBD(t *testing.T) {
	if _, err := exec.LookPath("nbdinfo"); err != nil {
		t.Skip("there is no nbdinfo here")
	}
	addr := testenv.Loopback(t)
	runWeft(t, "mem/0 lends 64MiB at ", "mem", "serve", "--name", "mem/0", "--size", "64MiB", "--listen", addr)
	at := testenv.Loopback(t)
	said := runWeft(t, "nbd/0 serves 8MiB on 1 server at "+at, "mem", "nbd", "--name", "nbd/0", "--server", "mem/0=2.5", "--size", "8MiB", "--page", "8KiB", "--tcp", at, "--export", "pages", "--report", "10ms",
		"--listen", "127.0.0.1:0", "--node", addr)
	for deadline := time.Now().Add(patience); !strings.Contains(said.String(), `"client":"nbd/0","pages":0,"lacking":0,"servers_up":1,`); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no report: %s", said.String())
		}
	}
	out, err := exec.Command("nbdinfo", "nbd://"+at+"/pages").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "export-size: 8388608") || !strings.Contains(string(out), "block_size_preferred: 8192") {
		t.Errorf("nbdinfo: %v: %s", err, out)
	}
}

// A killed server leaves its socket, and its successor listens there. The socket of a live
// server, and a file that is no socket, stay.
func TestNetworkMemoryIsServedWhereItsServerWasKilled(t *testing.T) {
	flags := pages(t, 1, "16MiB")
	killed := func(network string) (path string) {
		path = filepath.Join(t.TempDir(), "a.sock")
		left, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
		if err != nil {
			t.Fatal(err)
		}
		left.SetUnlinkOnClose(false)
		left.Close()
		return path
	}
	path := killed("unix")
	nbd := append([]string{"mem", "nbd", "--size", "1MiB", "--unix", path, "--name", "nbd/0"}, flags...)
	runWeft(t, " serves 1MiB on 1 server at "+path, nbd...)
	nbd[7] = "nbd/1"
	if status, _, stderr := weft(nbd...); status != exitFailed || stderr != "weft: listen unix: "+path+": address already in use\n" {
		t.Errorf("where one serves: status %d, standard error %q", status, stderr)
	}
	nbd[5] = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(nbd[5], []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := weft(nbd...); status != exitFailed || stderr != "weft: listen unix: "+nbd[5]+" is there and is not a socket\n" {
		t.Errorf("where a file is: status %d, standard error %q", status, stderr)
	}
	if err := userfault.Check(); err != nil {
		t.Skip(err)
	}
	if status, _, stderr := weft(append(append([]string{"mem", "map", "--size", "1MiB", "--resident", "256KiB", "--unix", killed("unixpacket")}, flags...), "--", "true")...); status != 0 {
		t.Errorf("mem map: status %d, standard error %q", status, stderr)
	}
}

// A block device in compressed shards returns the bytes that were written. It and weft mem stat
// say how they are kept.
func TestABlockDeviceMayBeCodedAndCompressed(t *testing.T) {
	addr := testenv.Loopback(t)
	runWeft(t, "mem/0 lends 16MiB at ", "mem", "serve", "--name", "mem/0", "--size", "16MiB", "--listen", addr)
	own := []string{"--listen", "127.0.0.1:0", "--node", addr}
	// nbdcopy has the whole image in flight: the last request takes as long as the copy.
	args := []string{"mem", "nbd", "--size", "8MiB", "--code", "2+1", "--compress", "--io-timeout", "5m", "--server", "mem/0"}
	for _, name := range []string{"mem/1", "mem/2"} {
		runWeft(t, name+" lends 16MiB at ", append([]string{"mem", "serve", "--name", name, "--size", "16MiB"}, own...)...)
		args = append(args, "--server", name)
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "nbd.sock")
	runWeft(t, "8MiB on 3 servers at "+at+", 2+1 shards of a page\n", append(append(args, "--unix", at), own...)...)
	if _, err := exec.LookPath("nbdcopy"); err != nil {
		t.Skip("there is no nbdcopy here")
	}
	image := make([]byte, 8<<20)
	if testing.Short() {
		image = image[:4<<20+4<<10] // more than the 1,000 pages that are read below
	}
	for i := range image {
		image[i] = byte(i>>12 ^ i>>6)
	}
	if err := os.WriteFile(filepath.Join(dir, "in"), image, 0o600); err != nil {
		t.Fatal(err)
	}
	uri := "nbd+unix:///?socket=" + at
	for _, from := range [][]string{{filepath.Join(dir, "in"), uri}, {uri, filepath.Join(dir, "out")}} {
		if out, err := exec.Command("nbdcopy", from...).CombinedOutput(); err != nil {
			t.Fatalf("nbdcopy %s: %v: %s", from, err, out)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "out")); err != nil || !bytes.Equal(got[:min(len(image), len(got))], image) {
		t.Errorf("what is read differs from what was written (%v)", err)
	}
	status, out, stderr := weft(append([]string{"mem", "stat", "mem/0", "mem/1", "mem/2"}, own...)...)
	if lines := strings.Split(strings.TrimSpace(out), "\n"); status != 0 || len(lines) != 4 || !strings.HasSuffix(lines[0], "coding") || !strings.HasSuffix(lines[3], "2+1") {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
	status, out, stderr = weft(append([]string{"mem", "stat", "mem/0", "--json"}, own...)...)
	var r memReading
	if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil || r.Pages < 1000 || r.PlainBytes < 1000*2048 || r.KeptBytes > r.PlainBytes/4 || len(r.Volumes) != 1 || r.Volumes[0].Code != (netmem.Code{Data: 2, Parity: 1}) {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
}

func TestVolumesSayWhatIsWrong(t *testing.T) {
	addr := testenv.Loopback(t)
	runWeft(t, "mem/0 lends 1MiB at ", "mem", "serve", "--name", "mem/0", "--size", "1MiB", "--quota", "512KiB", "--listen", addr)
	at := filepath.Join(t.TempDir(), "nbd.sock")
	nbd := "mem nbd --unix " + at
	own := " --listen 127.0.0.1:0 --node " + addr
	for _, c := range []struct {
		line   string
		status int
		want   string
	}{
		{"mem nbd --server mem/0 --size 1MiB", exitUsage, `--unix is "" and --tcp is "": expected one of them`},
		{nbd + " --tcp :1 --server mem/0 --size 1MiB", exitUsage, `--unix is "` + at + `" and --tcp is ":1": expected one of them`},
		{nbd + " --server mem/0", exitUsage, "no --size given: expected the size of the volume"},
		{nbd + " --size 1MiB", exitUsage, "no --server given: expected the name of a page server"},
		{nbd + " --size 1MiB --server mem/0=x", exitUsage, `invalid argument "mem/0=x" for "--server" flag: expected the name of a page server`},
		{nbd + " --size 1MiB --server mem/0=-1", exitUsage, `invalid argument "mem/0=-1" for "--server" flag`},
		{nbd + " --size 1MiB --server mem/0=Inf", exitUsage, `invalid argument "mem/0=Inf" for "--server" flag`},
		{nbd + " --size 1MiB --server mem/0=NaN", exitUsage, `invalid argument "mem/0=NaN" for "--server" flag`},
		{nbd + " --size 5000 --server mem/0", exitUsage, `invalid argument "5000" for "--size" flag: expected a number of bytes such as 64MiB or 8GiB, a multiple of 4096`},
		{nbd + " --size 4KiB --page 8KiB --server mem/0", exitUsage, "--size is 4096 bytes: expected a multiple of 8192, the size of a page"},
		{nbd + " --size 1MiB --page 12KiB --server mem/0", exitUsage, "--page is 12288: expected 4096 or 8192"},
		{nbd + " --size 1MiB --copies 2 --server mem/0", exitUsage, "--copies is 2: expected at most 1, the number of servers"},
		{nbd + " --size 1MiB --code 2 --server mem/0", exitUsage, `invalid argument "2" for "--code" flag: expected the number of data shards and the number of parity shards of a page, such as 4+2`},
		{nbd + " --size 1MiB --code 1+2 --server mem/0", exitUsage, `invalid argument "1+2" for "--code" flag: expected`},
		{nbd + " --size 1MiB --code 2+1 --server mem/0", exitUsage, "--code is 2+1: expected 3 servers or more; there are 1"},
		{nbd + " --size 1MiB --code 2+1 --copies 2 --server mem/0 --server mem/1 --server mem/2", exitUsage, "--copies is 2 and --code is 2+1: expected one of them"},
		{nbd + " --size 4MiB --compress --server mem/0" + own, exitFailed, "netmem: a volume of 4194304 bytes, in copies: 1, on servers: 1; they have room for 2097152 that compress to 1/4"},
		{nbd + " --size 1MiB --server mem/0" + own, exitFailed, "netmem: a volume of 1048576 bytes, in copies: 1, on servers: 1; they have room for 524288"},
		{nbd + " --size 64KiB --server mem/9 --timeout 300ms" + own, exitFailed, "netmem: server mem/9: weft: resolve mem/9: context deadline exceeded (no answer of the servers within 300ms)"},
		{"mem nbd --unix /no/such/dir/sock --size 64KiB --server mem/0" + own, exitFailed, "listen unix /no/such/dir/sock: bind: no such file"},
	} {
		status, _, stderr := weft(strings.Fields(c.line)...)
		if status != c.status || !strings.HasPrefix(stderr, "weft: "+c.want) {
			t.Errorf("weft %s: status %d, standard error %q; want %d and %q", c.line, status, stderr, c.status, c.want)
		}
	}
	if _, err := os.Stat(at); err == nil {
		t.Error("a refused volume has left a socket")
	}
}

func TestNetworkMemoryIsAFile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("to mount needs root")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip(err)
	}
	addr := testenv.Loopback(t)
	runWeft(t, "mem/0 lends 64MiB at ", "mem", "serve", "--name", "mem/0", "--size", "64MiB", "--listen", addr)
	dir := t.TempDir()
	own := []string{"--size", "8MiB", "--server", "mem/0", "--listen", "127.0.0.1:0", "--node", addr}
	runWeft(t, "shows 8MiB on 1 server as "+dir+"/memory", append([]string{"mem", "mount", dir}, own...)...)
	image := make([]byte, 8<<20)
	for i := range image {
		image[i] = byte(i>>13 ^ i)
	}
	f, err := os.OpenFile(dir+"/memory", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(image, 0); err != nil {
		t.Fatal(err)
	}
	// what the page cache holds of it
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(image))
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, image) {
		t.Errorf("what is read differs from what was written (%v)", err)
	}
	status, out, stderr := weft("mem", "stat", "mem/0", "--json", "--listen", "127.0.0.1:0", "--node", addr)
	var r memReading
	if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil || r.UsedBytes != 8<<20 || r.PageIns < 2048 {
		t.Errorf("status %d: %s%s: expected 8 MiB in use, and read", status, out, stderr)
	}
	for want, args := range map[string][]string{
		"weft: 0 arguments: expected one, an empty directory to mount on": nil,
		"weft: memfile: open /no/such: no such file":                      {"/no/such"},
		"weft: memfile: /proc/self has ":                                  {"/proc/self"},
	} {
		if status, _, stderr := weft(append(append([]string{"mem", "mount", "--name", "mount/1"}, args...), own...)...); status == 0 || !strings.HasPrefix(stderr, want) {
			t.Errorf("weft mem mount %s: status %d: %s; want %s", args, status, stderr, want)
		}
	}
}

// A page server with a file keeps its static key next to the file: its NIC has the same id in
// the next life, and its peers know it again.
func TestAPageServerKeepsItsIdentity(t *testing.T) {
	addr, spill := testenv.Loopback(t), filepath.Join(t.TempDir(), "spill")
	socket := filepath.Join(t.TempDir(), "a.sock")
	startNIC(t, "--socket", socket, "--listen", "127.0.0.1:0", "--node", addr, "--unreachable-after", "500ms")
	up := regexp.MustCompile(`(?m)^(\S+) .* up `)
	var ids []string
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		var out, errs lockedBuffer
		ended := make(chan int, 1)
		go func() {
			ended <- run(ctx, []string{"mem", "serve", "--name", "mem/0", "--size", "16KiB", "--spill", spill, "--listen", addr}, &out, &errs)
		}()
		eventually(t, "the page server is up", func() bool {
			id := up.FindStringSubmatch(must(t, "nodes", "--socket", socket))
			if id != nil {
				ids = append(ids, id[1])
			}
			return id != nil
		})
		cancel()
		if status := <-ended; status != 0 {
			t.Fatalf("weft mem serve: %d %s", status, errs.String())
		}
		eventually(t, "the page server is gone", func() bool { return !up.MatchString(must(t, "nodes", "--socket", socket)) })
	}
	if _, id, _ := strings.Cut(strings.TrimSpace(must(t, "fabric", "key", "--file", spill+".key")), " "); ids[0] != id || ids[1] != id {
		t.Errorf("the server had the ids %v; its key has %v", ids, id)
	}
	if status, _, stderr := weft("mem", "serve", "--name", "mem/0", "--size", "16KiB", "--key", spill+".key"); status != exitUsage || !strings.Contains(stderr, "--key without --listen") {
		t.Errorf("--key without --listen: %d %s", status, stderr)
	}
}
