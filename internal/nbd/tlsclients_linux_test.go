package nbd

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNbdinfoAndNbdcopyUseTLS(t *testing.T) {
	dev := newMemory(4 << 20)
	address, dir := serveTLS(t, dev)
	uri := "nbds://" + address + "/?tls-certificates=" + dir
	if out := tool(t, "nbdinfo", uri); !strings.Contains(out, "with TLS") || !strings.Contains(out, "export-size: 4194304") {
		t.Errorf("nbdinfo says %s", out)
	}
	image := make([]byte, len(dev.b))
	for i := range image {
		image[i] = byte(i>>12 ^ i)
	}
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	if err := os.WriteFile(from, image, 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "nbdcopy", "--flush", "--connections=4", from, uri)
	tool(t, "nbdcopy", "--connections=4", uri, to)
	if back, err := os.ReadFile(to); err != nil || string(back) != string(image) || string(dev.b) != string(image) {
		t.Errorf("what nbdcopy wrote and read differs from the file (%v)", err)
	}
}

func TestQemuUsesTLS(t *testing.T) {
	dev := newMemory(1 << 20)
	dev.b[70_000] = 7
	dev.written[70_000/memoryBlock] = true
	address, dir := serveTLS(t, dev)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(t.TempDir(), "image")
	tool(t, "qemu-img", "convert", "--object", "tls-creds-x509,id=t,endpoint=client,dir="+dir, "--image-opts",
		"driver=nbd,server.type=inet,server.host="+host+",server.port="+port+",tls-creds=t", "-O", "raw", image)
	if b, err := os.ReadFile(image); err != nil || string(b) != string(dev.b) {
		t.Errorf("what qemu-img read differs from the device (%v)", err)
	}
}
