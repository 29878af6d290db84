// Package tenure is a client for Tenure, the lease server, with nothing but the standard library.
//
// A write has one of three outcomes: a return value or an *Error that is Committed (it is in the log, and this
// is its answer), Rejected (it did not happen) or Unknown (it may have happened: repeat it with the same
// operation id to find out). Every write carries an operation id. When a connection is lost before the answer,
// the client repeats the write with the same id, so that it happens once.
package tenure

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	opWindow = 600 * time.Second // how long the server remembers operation ids, by default
	hopsMax  = 3                 // from node to node without a pause, while looking for the owner of the log
)

// Options of a client. Zero values mean the defaults.
type Options struct {
	// Address is host:port, tenure://user:password@host:port, tenures:// for TLS, or unix:///path; by default
	// TENURE_SOCKET (a path), TENURE_URL, TENURE_HOST and TENURE_PORT, else 127.0.0.1:7411. The nodes of a
	// cluster are separated by commas, tenure://a:7411,b:7411,c:7411: the client finds the one that owns the
	// log, and goes over to the next owner.
	Address string
	// Without a password: TENURE_USER with TENURE_SECRET, or the first line of the file TENURE_SECRET_FILE, if set.
	Username string
	Password string
	Name     string // of the connections, in CLIENT LIST

	Timeout time.Duration // for one answer; 10 s
	// Retry is how long a request is repeated after a lost connection, while the server is stopping or
	// overloaded, or while no node owns the log; 30 s. Below zero: never.
	Retry       time.Duration
	Connections int // at most this many at a time, besides those that wait in line; 16

	TLS       bool        // also by the scheme of the address, or TENURE_TLS=yes
	CAFile    string      // the authorities of the server's certificate; TENURE_CA_FILE, else the system's
	CertFile  string      // the client's own certificate; TENURE_CERT_FILE
	KeyFile   string      // its key; TENURE_KEY_FILE
	TLSConfig *tls.Config // a base for the above
}

// Client may be shared between goroutines.
type Client struct {
	timeout, retry time.Duration
	name           string
	nodes          []*address
	slots          chan struct{} // one for each connection in use

	lock    sync.Mutex
	current *address // where new connections go
	idle    []*connection
	closed  bool
}

// request is the words of a command. A write has its operation id at the end.
type request struct {
	words []string
	kind  kind
	opid  string
	wait  time.Duration
}

type kind int

const (
	other kind = iota // not repeated once it was sent
	read
	write
)

// New makes a client. Connections are opened on demand.
func New(o Options) (*Client, error) {
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Retry == 0 {
		o.Retry = 30 * time.Second
	}
	if o.Connections <= 0 {
		o.Connections = 16
	}
	// The last attempt may still connect and say hello.
	if o.Timeout < 0 || o.Retry+3*o.Timeout >= opWindow {
		return nil, fmt.Errorf("tenure: Retry + 3 * Timeout must stay below the %v in which the server "+
			"remembers operation ids", opWindow)
	}
	nodes, err := addressesOf(o)
	if err != nil {
		return nil, err
	}
	c := &Client{timeout: o.Timeout, retry: o.Retry, name: o.Name, slots: make(chan struct{}, o.Connections)}
	for i := range nodes {
		c.nodes = append(c.nodes, &nodes[i])
	}
	c.current = c.nodes[0]
	return c, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() {
	c.lock.Lock()
	c.closed = true
	c.lock.Unlock()
	c.forget()
}

func newOpID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic(err) // the system has no randomness
	}
	return hex.EncodeToString(id[:])
}

// ---- Nodes ----

func (c *Client) node() *address {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.current
}

// leave: new connections go to the next address after this one.
func (c *Client) leave(node *address) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.current != node {
		return
	}
	at := -1 // an owner that another node named is not in the list
	for i := range c.nodes {
		if c.nodes[i] == node {
			at = i
		}
	}
	c.current = c.nodes[(at+1)%len(c.nodes)]
}

// goElsewhere is called after ReadOnly or MasterDown from that node; whether the owner is known.
func (c *Client) goElsewhere(refusal *Error, node *address) bool {
	leader := refusal.Facts["leader"]
	if _, _, err := net.SplitHostPort(leader); err != nil {
		c.leave(node)
		return false
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.current == node {
		owner := *node
		owner.network, owner.host = "tcp", leader
		c.current = &owner
	}
	return true
}

// ---- Connections ----

// connect opens a connection to any of the nodes.
func (c *Client) connect(ctx context.Context, pushes func(push)) (*connection, *address, error) {
	for left := len(c.nodes); ; left-- {
		node := c.node()
		conn, err := open(ctx, node, c.name, c.timeout, pushes)
		var refusal *Error
		if err == nil || errors.As(err, &refusal) {
			return conn, node, err
		}
		c.leave(node)
		if left <= 1 || ctx.Err() != nil {
			return nil, node, err
		}
	}
}

// pooled is an idle connection with its node, or a new one.
func (c *Client) pooled(ctx context.Context) (*connection, *address, error) {
	c.lock.Lock()
	if c.closed {
		node := c.current
		c.lock.Unlock()
		return nil, node, errorOf("CLOSED this client was closed", false, "")
	}
	for len(c.idle) > 0 {
		conn := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		if !conn.broken() {
			c.lock.Unlock()
			return conn, conn.node, nil
		}
	}
	c.lock.Unlock()
	return c.connect(ctx, nil)
}

func (c *Client) giveBack(conn *connection) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.closed || len(c.idle) >= cap(c.slots) {
		conn.close(net.ErrClosed)
	} else if !conn.broken() {
		c.idle = append(c.idle, conn)
	}
}

// forget closes the idle connections: they lead to the wrong node, or to none.
func (c *Client) forget() {
	c.lock.Lock()
	idle := c.idle
	c.idle = nil
	c.lock.Unlock()
	for _, conn := range idle {
		conn.close(net.ErrClosed)
	}
}

// ---- Requests ----

// run repeats the request until it is answered, or until the client gives up.
func (c *Client) run(ctx context.Context, r *request) (any, error) {
	end := time.Now().Add(c.retry)
	var delay pause
	sent := false // once, without an answer: it may have happened
	for hops := 0; ; {
		reply, node, err := c.once(ctx, r, &sent)
		text, refused := reply.(errorReply)
		if err == nil && !refused {
			return reply, nil
		}
		if err == nil {
			err = errorOf(string(text), r.kind == write, r.opid)
		}
		if final := c.judge(ctx, r, err, sent, !time.Now().Before(end)); final != nil {
			return nil, final
		}
		var refusal *Error
		if errors.As(err, &refusal) && refusal.Outcome == Unknown {
			sent = true
		}
		if refusal == nil || elsewhere(refusal.Result) {
			c.forget()
		}
		if refusal != nil && elsewhere(refusal.Result) && c.goElsewhere(refusal, node) && hops < hopsMax {
			hops++
			continue
		}
		if err := sleep(ctx, atMost(delay.duration(), time.Until(end))); err != nil {
			return nil, givenUp(r, sent, err)
		}
	}
}

func atMost(d, limit time.Duration) time.Duration {
	if d > limit {
		return limit
	}
	return d
}

func (c *Client) once(ctx context.Context, r *request, sent *bool) (any, *address, error) {
	if r.wait == 0 { // a connection that waits in line is blocked: it does not count
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-ctx.Done():
			return nil, c.node(), ctx.Err()
		}
	}
	conn, node, err := c.pooled(ctx)
	if err != nil {
		return nil, node, err
	}
	limited, cancel := context.WithTimeout(ctx, c.timeout+r.wait)
	defer cancel()
	reply, err := conn.exchange(limited, r.words)
	if err != nil {
		*sent = true
		return nil, node, err
	}
	c.giveBack(conn)
	return reply, node, nil
}

// judge is the error that the caller gets; nil: the request is to be repeated.
func (c *Client) judge(ctx context.Context, r *request, err error, sent, late bool) error {
	var refusal *Error
	if !errors.As(err, &refusal) { // of the connection
		if ctx.Err() != nil || late || (sent && r.kind == other) {
			return givenUp(r, sent, err)
		}
		return nil
	}
	c.lock.Lock()
	closed := c.closed
	c.lock.Unlock()
	if tryAgain(refusal.Result) && r.kind != other && !late && !closed {
		return nil
	}
	// A rejected repeat, or log-in, does not show the outcome of the first attempt.
	if sent && r.kind == write && turnedAway(refusal.Result) {
		return givenUp(r, true, err)
	}
	return err
}

// Execute sends any command as words and returns the raw reply: nil, bool, int64, *big.Int, float64, string,
// []any or map[string]any. It is not repeated once it was sent.
func (c *Client) Execute(ctx context.Context, words ...string) (any, error) {
	return c.run(ctx, &request{words: words})
}
