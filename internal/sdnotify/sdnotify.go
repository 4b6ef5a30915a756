// Package sdnotify notifies the supervisor of a service, such as systemd, of the state of the
// service. It uses the protocol of sd_notify(3): datagrams of VARIABLE=VALUE lines to the unix
// socket that $NOTIFY_SOCKET names.
//
//	start ──READY=1──► serves ──RELOADING=1, MONOTONIC_USEC=n──► reloads ──READY=1──► serves
//	                     │                                                              │
//	                     └── WATCHDOG=1, again and again ──►      ◄── STOPPING=1 ── end ┘
//
// The methods of a nil *Supervisor do nothing, for services without a supervisor.
package sdnotify

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// Supervisor is the receiver of the messages.
type Supervisor struct {
	socket   *net.UnixAddr
	watchdog time.Duration
}

// variables are the variables of the environment that a supervisor sets.
var variables = []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}

// FromEnvironment returns the supervisor that the environment names; nil: none. It removes the
// variables from the environment, so programs that this one starts do not get them. The error names
// the malformed variable.
func FromEnvironment() (*Supervisor, error) {
	var values [3]string
	var errs []error
	for i, name := range variables {
		values[i] = os.Getenv(name)
		errs = append(errs, os.Unsetenv(name))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return parse(values[0], values[1], values[2], os.Getpid())
}

// parse returns the supervisor from the values of the variables; own is the id of this process. A
// socket name that begins with @ is in the abstract namespace.
func parse(socket, usec, pid string, own int) (*Supervisor, error) {
	switch {
	case socket == "":
		return nil, nil
	case socket[0] != '/' && socket[0] != '@' || len(socket) < 2:
		return nil, fmt.Errorf("NOTIFY_SOCKET is %q; expected a path from /, or @ and a name", socket)
	}
	s := &Supervisor{socket: &net.UnixAddr{Name: socket, Net: "unixgram"}}
	if usec == "" || pid != "" && pid != strconv.Itoa(own) { // the watchdog is another process's
		return s, nil
	}
	n, err := strconv.ParseInt(usec, 10, 64)
	if most := int64(time.Duration(1<<63-1) / time.Microsecond); err != nil || n <= 0 || n > most {
		return nil, fmt.Errorf("WATCHDOG_USEC is %q; expected a number of microseconds", usec)
	}
	s.watchdog = time.Duration(n) * time.Microsecond
	return s, nil
}

// Watchdog returns the longest time between two calls of Alive; 0: the supervisor does not watch.
func (s *Supervisor) Watchdog() time.Duration {
	if s == nil {
		return 0
	}
	return s.watchdog
}

// Ready reports that the service has started, or has finished a reload.
func (s *Supervisor) Ready() error { return s.send("READY=1") }

// Reloading reports that the service begins a reload. Ready must follow.
func (s *Supervisor) Reloading() error {
	return s.send("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(monotonic().Microseconds(), 10))
}

// Stopping reports that the service ends.
func (s *Supervisor) Stopping() error { return s.send("STOPPING=1") }

// Alive reports that the service makes progress.
func (s *Supervisor) Alive() error { return s.send("WATCHDOG=1") }

// send sends one message. It does not keep a connection: a restarted supervisor may have a new
// socket at the same path.
func (s *Supervisor) send(text string) error {
	if s == nil {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, s.socket)
	if err != nil {
		return fmt.Errorf("notify the supervisor: %w", err)
	}
	defer c.Close()
	if err := c.SetWriteDeadline(time.Now().Add(sendWithin)); err != nil {
		return fmt.Errorf("notify the supervisor: %w", err)
	}
	if _, err := c.Write([]byte(text)); err != nil {
		return fmt.Errorf("notify the supervisor: %w", err)
	}
	return nil
}

// sendWithin is the timeout of a message to a supervisor that does not read.
const sendWithin = time.Second
