package tenure

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// connection is one connection, with one request at a time. It does not reconnect; after an error of
// exchange it is closed.
type connection struct {
	node    *address
	conn    net.Conn
	replies chan any // a reply, or the error that ended the reading
	pushes  func(push)
	once    sync.Once
	done    chan struct{} // closed when the connection is
	cause   error         // why, once done is closed
}

// open connects and logs in.
func open(ctx context.Context, node *address, name string, timeout time.Duration, pushes func(push)) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var dialer interface {
		DialContext(context.Context, string, string) (net.Conn, error)
	} = &net.Dialer{}
	if node.tls != nil && node.network == "tcp" {
		dialer = &tls.Dialer{Config: node.tls}
	}
	conn, err := dialer.DialContext(ctx, node.network, node.host)
	if err != nil {
		return nil, err
	}
	c := &connection{node: node, conn: conn, replies: make(chan any, 16), pushes: pushes,
		done: make(chan struct{})}
	go c.read()
	words := []string{"HELLO", "3"}
	if node.loggedIn {
		words = append(words, "AUTH", or(node.username, "default"), node.password)
	}
	if name != "" {
		words = append(words, "SETNAME", name)
	}
	reply, err := c.exchange(ctx, words)
	if err != nil {
		return nil, err
	}
	if refusal, ok := reply.(errorReply); ok {
		c.close(net.ErrClosed)
		return nil, errorOf(string(refusal), false, "")
	}
	return c, nil
}

// read takes everything that the server sends until the connection ends.
func (c *connection) read() {
	r := newReader(c.conn)
	for {
		reply, err := r.reply()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // io.EOF is the end of a Follower
		}
		if err != nil {
			c.close(err)
			return
		}
		if message, ok := reply.(push); ok {
			if c.pushes != nil {
				c.pushes(message)
			}
			if len(message) == 0 || message[0] != "subscribe" { // which confirms a request
				continue
			}
		}
		select {
		case c.replies <- reply:
		case <-c.done:
			return
		}
	}
}

func (c *connection) close(why error) {
	c.once.Do(func() {
		c.cause = why
		close(c.done)
		c.conn.Close()
	})
}

func (c *connection) broken() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// exchange sends one request and waits for its reply. After an error the request may have been executed.
func (c *connection) exchange(ctx context.Context, words []string) (any, error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.conn.SetWriteDeadline(deadline); err != nil {
			c.close(err)
			return nil, err
		}
	}
	if _, err := c.conn.Write(encode(words)); err != nil {
		c.close(err)
		return nil, err
	}
	select {
	case reply := <-c.replies:
		return reply, nil
	case <-ctx.Done():
		c.close(ctx.Err()) // a reply may be on its way
		return nil, ctx.Err()
	case <-c.done:
	}
	select { // it may have come with the end
	case reply := <-c.replies:
		return reply, nil
	default:
		return nil, fmt.Errorf("connection lost: %w", c.cause)
	}
}

// subscribe subscribes to one channel.
func (c *connection) subscribe(ctx context.Context, channel string) error {
	reply, err := c.exchange(ctx, []string{"SUBSCRIBE", channel})
	if err != nil {
		return err
	}
	if refusal, ok := reply.(errorReply); ok {
		return errorOf(string(refusal), false, "")
	}
	return nil
}
