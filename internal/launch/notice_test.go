package launch

import (
	"slices"
	"testing"
)

// Every datagram is refused unless a process of the job sent it.
func TestOnlyTheKeyOfTheJobOpensANotice(t *testing.T) {
	key := slices.Repeat([]byte{3}, noticeKeyBytes)
	want := notice{noticeDaemonGone, 513, 9}
	const job = "job-1a2b3c4d"
	b := want.seal(job, key)
	if got, ok := openNotice(b, job, key); !ok || got != want {
		t.Fatalf("%+v, %v; expected %+v", got, ok, want)
	}
	for i := range b {
		bad := slices.Clone(b)
		bad[i] ^= 1
		if got, ok := openNotice(bad, job, key); ok {
			t.Errorf("with another byte %d it is taken as %+v", i, got)
		}
		if _, ok := openNotice(b[:i], job, key); ok {
			t.Errorf("%d bytes of it are taken", i)
		}
	}
	if _, ok := openNotice(append(slices.Clone(b), 0), job, key); ok {
		t.Error("it is taken with a byte more")
	}
	if _, ok := openNotice(b, "job-1a2b3c4e", key); ok {
		t.Error("another job takes it")
	}
	if _, ok := openNotice(b, job, slices.Repeat([]byte{4}, noticeKeyBytes)); ok {
		t.Error("it is taken with another key")
	}
}
