package ontop_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/examples/ontop"
	"github.com/weftnet/weft/internal/testenv"
)

// postgresTool returns the path of a program of PostgreSQL. Debian keeps the server's programs
// out of PATH.
func postgresTool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
		if len(found) == 0 {
			t.Skip(err)
		}
		path = found[len(found)-1]
	}
	return path
}

// postgresUser returns the user for PostgreSQL, which refuses to run as root; nil if this
// process is not root.
func postgresUser(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
			gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
			if errors.Join(err1, err2) == nil {
				return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
			}
		}
	}
	t.Skip("PostgreSQL refuses to run as root, and there is no user postgres or nobody")
	return nil
}

// postgres runs a new server, and returns its address. Its superuser is weft, its database
// postgres.
func (p place) postgres(t *testing.T) string {
	t.Helper()
	initdb, server, as := postgresTool(t, "initdb"), postgresTool(t, "postgres"), postgresUser(t)
	dir, err := os.MkdirTemp("", "weft-postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	here.run(t, as, initdb, "-D", dir, "-U", "weft", "-A", "trust", "--no-sync", "--no-instructions")
	hba := "host all all 0.0.0.0/0 trust\n"
	if err := os.WriteFile(filepath.Join(dir, "pg_hba.conf"), []byte(hba), 0o644); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(testenv.Loopback(t))
	if err != nil {
		t.Fatal(err)
	}
	p.serve(t, "ready to accept connections", as, server, "-D", dir, "-h", p.ip, "-p", port, "-F", "-c", "unix_socket_directories=")
	return net.JoinHostPort(p.ip, port)
}

func TestPostgreSQL(t *testing.T) {
	server := here.postgres(t)
	const settings = "user=weft dbname=postgres"
	direct, err := ontop.SQL(behind(t, "db/0:postgres", server), "db/0:postgres", settings)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(through(t, "store/0:postgres", server))
	if err != nil {
		t.Fatal(err)
	}
	proxied, err := sql.Open("pgx", "sslmode=disable host="+host+" port="+port+" "+settings)
	if err != nil {
		t.Fatal(err)
	}
	for name, db := range map[string]*sql.DB{"a stream and a proxy": direct, "two proxies": proxied} {
		t.Run(name, func(t *testing.T) {
			defer db.Close()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := db.ExecContext(ctx, "drop table if exists stock; create table stock (id int primary key, n int, note text)"); err != nil {
				t.Fatal(err)
			}
			fills(ctx, t, db)
			countsTogether(ctx, t, db)
			cancels(ctx, t, db)
		})
	}
}

// fills writes rows, some of them long, in a transaction that commits and in one that rolls
// back, and reads them.
func fills(ctx context.Context, t *testing.T, db *sql.DB) {
	note := strings.Repeat("a long note, ", 1<<20/13)
	for _, keep := range []bool{false, true} {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		for id := range 200 {
			if _, err := tx.ExecContext(ctx, "insert into stock values ($1, 0, $2)", id, note[:id*100]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tx.ExecContext(ctx, "update stock set note = $1 where id = 7", note); err != nil {
			t.Fatal(err)
		}
		if keep {
			err = tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rows, err := db.QueryContext(ctx, "select id, note from stock order by id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var id int
		var got string
		want := note[:n*100]
		if n == 7 {
			want = note
		}
		if err := rows.Scan(&id, &got); err != nil || id != n || got != want {
			t.Errorf("row %d: id %d, %d bytes of %d: %v", n, id, len(got), len(want), err)
		}
	}
	if err := rows.Err(); err != nil || n != 200 {
		t.Errorf("%d rows: %v", n, err)
	}
}

// countsTogether adds to one row from several connections.
func countsTogether(ctx context.Context, t *testing.T, db *sql.DB) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				if _, err := db.ExecContext(ctx, "update stock set n = n + 1 where id = 0"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var n int
	if err := db.QueryRowContext(ctx, "select n from stock where id = 0").Scan(&n); err != nil || n != 200 {
		t.Errorf("200 additions make %d: %v", n, err)
	}
}

// cancels ends a query that would take an hour. The client tells the server over a separate
// connection.
func cancels(ctx context.Context, t *testing.T, db *sql.DB) {
	soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := db.ExecContext(soon, "select pg_sleep(3600)"); err == nil {
		t.Error("a query of an hour ends at once")
	}
	if err := db.PingContext(ctx); err != nil {
		t.Error(err)
	}
}
