package tenure

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	eventsAhead = 64               // that were received and not yet taken; then the server has to wait
	silence     = 15 * time.Second // after which the server is asked whether it is there
)

// Follower has events without gaps or duplicates, across lost connections and restarts of the server. It is for
// one goroutine, except Close.
type Follower struct {
	client   *Client
	channel  string
	position string
	conn     *connection
	queue    chan Event // of that connection
	asked    chan error // whether the server is there; nil: it was not asked
	once     sync.Once
	closed   chan struct{}
}

// Following chooses the events of a Follower.
type Following struct {
	After string // the events after this id ("0": from the oldest retained one); by default from now on
	// Pool or Holder; by default all.
	Pool, Holder string
}

// Follow gives events as they happen.
func (c *Client) Follow(ctx context.Context, f Following) (*Follower, error) {
	if f.Pool != "" && f.Holder != "" {
		return nil, errors.New("tenure: either Pool or Holder")
	}
	follower := &Follower{client: c, channel: "events", position: f.After, closed: make(chan struct{})}
	if f.Pool != "" {
		follower.channel = "pool:" + f.Pool
	} else if f.Holder != "" {
		follower.channel = "holder:" + f.Holder
	}
	if f.After == "" {
		page, err := c.Events(ctx, EventQuery{Count: 1})
		if err != nil {
			return nil, err
		}
		follower.position = or(page.Newest, "0")
	}
	if err := follower.connect(ctx); err != nil {
		return nil, err
	}
	return follower, nil
}

// Position is the id of the last event that Next returned: another process can continue after it.
func (f *Follower) Position() string { return f.position }

func (f *Follower) connect(ctx context.Context) error {
	queue := make(chan Event, eventsAhead)
	ended := make(chan struct{})
	conn, _, err := f.client.connect(ctx, func(message push) {
		if event, ok := eventOf(message); ok {
			select {
			case queue <- event:
			case <-ended:
			}
		}
	})
	if err != nil {
		return err
	}
	go func() { // an event that waits in the callback must not outlive the connection
		select {
		case <-conn.done:
		case <-f.closed:
			conn.close(net.ErrClosed)
		}
		close(ended)
	}()
	limited, cancel := context.WithTimeout(ctx, f.client.timeout)
	defer cancel()
	if err := conn.subscribe(limited, f.channel+"?after="+f.position); err != nil {
		conn.close(net.ErrClosed)
		return err
	}
	f.conn, f.queue, f.asked = conn, queue, nil
	return nil
}

// Next waits for the next event. After Close the error is io.EOF. After any other error (the server was away for
// Options.Retry, or the context has ended) it can be called again.
func (f *Follower) Next(ctx context.Context) (Event, error) {
	var delay pause
	var end time.Time // how long to try, from the first failure on
	for {
		event, err := f.take(ctx)
		if err == nil || err == io.EOF || ctx.Err() != nil {
			return event, err
		}
		f.conn.close(net.ErrClosed)
		f.queue = nil
		var refusal *Error
		if errors.As(err, &refusal) && !tryAgain(refusal.Result) {
			return event, err
		}
		if end.IsZero() {
			end = time.Now().Add(f.client.retry)
		}
		if !time.Now().Before(end) {
			return event, givenUp(&request{kind: read}, false, err)
		}
		if err := sleep(ctx, delay.duration()); err != nil {
			return event, err
		}
	}
}

// take is one event, or the error that ended the connection.
func (f *Follower) take(ctx context.Context) (Event, error) {
	if f.queue == nil {
		select {
		case <-f.closed:
			return Event{}, io.EOF
		default:
		}
		// Events of the old connection that were not taken are sent again.
		if err := f.connect(ctx); err != nil {
			return Event{}, err
		}
	}
	for {
		timer := time.NewTimer(silence)
		select {
		case event := <-f.queue:
			timer.Stop()
			if event.Kind != "lost" {
				f.position = event.ID
			}
			return event, nil
		case <-f.closed:
			timer.Stop()
			return Event{}, io.EOF
		case <-f.conn.done:
			timer.Stop()
			return Event{}, f.conn.cause
		case <-ctx.Done():
			timer.Stop()
			return Event{}, ctx.Err()
		case <-timer.C:
			f.ask()
		case err := <-f.asked:
			timer.Stop()
			f.asked = nil
			if err != nil {
				return Event{}, err
			}
		}
	}
}

// ask finds out whether the server is there, while events are taken.
func (f *Follower) ask() {
	if f.asked != nil {
		return
	}
	asked, conn := make(chan error, 1), f.conn
	f.asked = asked
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), f.client.timeout)
		defer cancel()
		_, err := conn.exchange(ctx, []string{"PING"})
		asked <- err
	}()
}

// Close ends the following; it may be called from any goroutine.
func (f *Follower) Close() { f.once.Do(func() { close(f.closed) }) }
