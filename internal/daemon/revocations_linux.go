package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/trust"
)

// lookAtRevocationsEvery is the interval at which the file of the revocation lists is read. The
// file is small.
const lookAtRevocationsEvery = time.Second

// watchRevocations follows the file of the revocation lists until ctx is done. It adds to the
// file what the engine has learnt elsewhere.
func (d *Daemon) watchRevocations(ctx context.Context) {
	f := revocationFile{d: d, known: d.settings.trusted.lists}
	if d.settings.trusted.revocations == "" || d.settings.config.Plain {
		return
	}
	tick := time.NewTicker(lookAtRevocationsEvery)
	defer tick.Stop()
	for {
		f.path = d.live.Load().revocations
		f.look()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// revocationFile is the file in which a daemon keeps the newest list of each authority.
type revocationFile struct {
	d     *Daemon
	path  string
	known [][]byte // lists that are logged
	last  string   // error of the last look
	told  string   // error that was logged last
}

func (f *revocationFile) look() {
	err := f.follow()
	if err == nil {
		f.last, f.told = "", ""
		return
	}
	// At the first look, another program may be writing the file.
	if text := err.Error(); text != f.last {
		f.last = text
	} else if text != f.told {
		f.told = text
		f.d.log.Warn("the file of the revocation lists is not followed", "error", err)
	}
}

// follow copies the lists of the file to the engine, and newer lists of the engine to the file.
func (f *revocationFile) follow() error {
	lists, err := fabric.ReadRevocations(f.path)
	if err != nil {
		return err
	}
	var have []*trust.RevocationList
	f.d.loop.Do(func(clock.Time) {
		for _, l := range lists {
			_, e := f.d.engine.Revoke(l)
			err = errors.Join(err, e)
		}
		have, _ = f.d.engine.Revocations()
	})
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	encoded := make([][]byte, len(have))
	same := len(have) == len(lists)
	for i, l := range have {
		b := l.Append(nil)
		if !holds(f.known, b) {
			f.d.log.Info("a newer revocation list", "authority", l.CA, "number", l.Number,
				"certificates", len(l.Serials), "keys", len(l.Keys))
		}
		encoded[i], same = b, same && holds(lists, b)
	}
	f.known = encoded
	if same {
		return nil
	}
	return fabric.KeepRevocations(f.path, have)
}

func holds(lists [][]byte, b []byte) bool {
	return slices.ContainsFunc(lists, func(other []byte) bool { return bytes.Equal(b, other) })
}
