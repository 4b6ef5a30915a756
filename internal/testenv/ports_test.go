package testenv

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The test binary runs itself as another program. That program takes as many ports as this
// variable says, and prints them.
const takeVariable = "WEFT_FREEPORT_TEST_TAKE"

func TestMain(m *testing.M) {
	var n int
	if _, err := fmt.Sscan(os.Getenv(takeVariable), &n); err != nil {
		os.Exit(m.Run())
	}
	for range n {
		port, err := TakePort()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(port)
	}
	fmt.Println("done")
	bufio.NewReader(os.Stdin).ReadByte() // keeps its block until a byte arrives
}

func TestProgramsAtOnceGetDifferentPorts(t *testing.T) {
	const programs, each = 8, 20
	whose := make(map[string]int)
	for i := range programs {
		c := exec.Command(os.Args[0])
		c.Env, c.Stderr = append(os.Environ(), fmt.Sprint(takeVariable, "=", each)), os.Stderr
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait()
		defer in.Close()
		taken := 0
		for s := bufio.NewScanner(out); s.Scan() && s.Text() != "done"; taken++ {
			if other, twice := whose[s.Text()]; twice {
				t.Errorf("programs %d and %d both have port %s", other, i, s.Text())
			}
			whose[s.Text()] = i
		}
		if taken != each {
			t.Fatalf("program %d took %d ports, want %d", i, taken, each)
		}
	}
}

func TestAPortComesAgainOnlyAfterAllOthersAndIfItIsFree(t *testing.T) {
	addr := Loopback(t)
	busy, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	again := make(map[int]int)
	for i := range 2 * blockPorts {
		port, err := TakePort()
		if err != nil {
			t.Fatal(err)
		}
		if address(port) == addr {
			t.Fatalf("take %d gives %s, which is in use", i, addr)
		}
		if before, ok := again[port]; ok && i-before < blockPorts/2 {
			t.Errorf("takes %d and %d both give port %d", before, i, port)
		}
		again[port] = i
	}
}

func TestBlocksLieOutsideOfWhatTheKernelChooses(t *testing.T) {
	const last = lowest + blocks*blockPorts - 1
	for _, c := range []struct {
		chosen string
		want   int // blocks
	}{
		{"", blocks},
		{"32768\t60999\n", blocks},
		{fmt.Sprint(last, 60999), blocks - 1},
		{fmt.Sprint(lowest, lowest), blocks - 1},
		{"16000 65535", (16000 - lowest) / blockPorts},
		{"1024 65535", blocks}, // no room outside: blocks in the range
		{"1024 20000", (last - 20000) / blockPorts},
	} {
		for _, pid := range []int{1, 87, 4_194_304} {
			got := candidates(c.chosen, pid)
			if len(got) != c.want {
				t.Errorf("the kernel chooses from %q: %d blocks, want %d", strings.TrimSpace(c.chosen), len(got), c.want)
			}
			seen := make(map[int]bool)
			for _, first := range got {
				if seen[first] || first < lowest || first+blockPorts-1 > last {
					t.Errorf("the kernel chooses from %q: block %d is wrong", c.chosen, first)
				}
				seen[first] = true
			}
		}
	}
}

func TestNoBlockIsAnErrorThatSaysSo(t *testing.T) {
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := guard([]int{l.Addr().(*net.TCPAddr).Port}); err == nil || !strings.Contains(err.Error(), "no free block of ports among 1") {
		t.Errorf("error %v", err)
	}
}
