package tenure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	checkEvery = 10 * time.Second // between looks at a lease without a deadline
	marginMax  = 5 * time.Second  // the most by which the holder gives up before the deadline
	lookEvery  = time.Second      // at the clock, which timers do not follow through a suspend
)

// Held is a lease that is renewed in the background. It is lost when the server ends it (revoked, expired,
// rekeyed to another holder), which the client learns at once, or when it could not be renewed in time. The
// time is counted from before the renewal was sent, on a clock that cannot be set, and the client gives up a
// tenth of the ttl (at most 5 seconds) early: Context is cancelled before another holder can have the values.
type Held struct {
	Grant
	Holder string

	client *Client
	ttl    time.Duration
	ctx    context.Context // the user's
	cancel context.CancelFunc
	life   context.Context // ends when the lease is lost, or the renewals are stopped
	end    context.CancelFunc
	ended  chan struct{} // closed when nothing runs in the background
	news   chan struct{} // the deadline has changed

	lock     sync.Mutex
	reason   string        // why it was lost
	stopped  bool          // by the user
	deadline time.Duration // by bootTime; 0: none
	renewAt  time.Duration
}

// Hold leases values and keeps the lease alive until Release. The context is the parent of Held.Context; its
// end does not end the lease.
func (c *Client) Hold(ctx context.Context, claim Claim, holder string, terms Terms) (*Held, error) {
	return c.HoldBundle(ctx, holder, []Claim{claim}, terms)
}

// HoldBundle holds values of several pools.
func (c *Client) HoldBundle(ctx context.Context, holder string, claims []Claim, terms Terms) (*Held, error) {
	asked := bootTime()
	grant, err := c.AllocBundle(ctx, holder, claims, terms)
	if err != nil {
		return nil, err
	}
	h := &Held{Grant: grant, Holder: holder, client: c, ttl: terms.TTL, ended: make(chan struct{}),
		news: make(chan struct{}, 1)}
	h.ctx, h.cancel = context.WithCancel(ctx)
	h.life, h.end = context.WithCancel(context.Background())
	if err := h.begin(ctx, terms, asked); err != nil {
		h.cancel()
		h.end()
		return nil, err
	}
	go h.run()
	return h, nil
}

// begin learns how long the lease lives.
func (h *Held) begin(ctx context.Context, terms Terms, asked time.Duration) error {
	if h.Deadline.IsZero() {
		return nil
	}
	ctx = WithOpID(ctx, "") // the user's is for the allocation
	if terms.Wait > 0 {
		// The ttl began at the grant, at an unknown time between the request and its answer.
		asked = bootTime()
		if _, err := h.client.Touch(ctx, h.Token, Terms{TTL: h.ttl}); err != nil {
			return err
		}
	}
	lease, err := h.client.Lease(ctx, h.Token.Lease)
	if err == nil {
		h.seen(lease, asked, true)
	}
	return err
}

// Context is cancelled when the lease is lost, and at the end of Release.
func (h *Held) Context() context.Context { return h.ctx }

// Err is a *LeaseLost if the lease is lost; for before anything that only the holder may do.
func (h *Held) Err() error {
	h.lock.Lock()
	reason := h.lostLocked()
	h.lock.Unlock()
	if reason == "" {
		return nil
	}
	h.lose(reason)
	return &LeaseLost{Lease: h.Token.Lease, Reason: reason}
}

// lostLocked is why the lease is lost; "": it is held.
func (h *Held) lostLocked() string {
	if h.reason == "" && h.deadline != 0 && bootTime() >= h.deadline {
		return "it was not renewed in time"
	}
	return h.reason
}

// Remaining is the time for which the lease is certainly held; false: it has no deadline.
func (h *Held) Remaining() (time.Duration, bool) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.lostLocked() != "" {
		return 0, true
	}
	return h.deadline - bootTime(), h.deadline != 0
}

func (h *Held) lose(reason string) {
	h.lock.Lock()
	if h.reason == "" {
		h.reason = reason
	}
	h.lock.Unlock()
	h.cancel()
	h.end()
}

// seen is called with the lease as the server shows it; asked: when the renewal was sent.
func (h *Held) seen(lease Lease, asked time.Duration, renewed bool) {
	if lease.Epoch != h.Epoch || lease.State != "active" {
		h.lose(fmt.Sprintf("it is %s, with epoch %d", lease.State, lease.Epoch))
		return
	}
	if lease.Deadline.IsZero() || !renewed {
		return
	}
	// The server counted from LastSeen, which was after asked.
	life := lease.Deadline.Sub(lease.LastSeen)
	h.lock.Lock()
	h.deadline = asked + life - atMost(life/10, marginMax)
	h.renewAt = asked + life/3
	h.lock.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// ---- In the background ----

func (h *Held) run() {
	defer close(h.ended)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		h.watch()
	}()
	h.keep()
	<-watched
}

// watch looks at the clock until the lease is lost.
func (h *Held) watch() {
	for h.life.Err() == nil {
		wait := lookEvery
		if left, limited := h.Remaining(); limited {
			wait = atMost(wait, left)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-h.news:
		case <-h.life.Done():
		}
		timer.Stop()
		h.lock.Lock()
		stopped := h.stopped
		h.lock.Unlock()
		if !stopped {
			_ = h.Err() // which gives up if it is time
		}
	}
}

func (h *Held) keep() {
	var delay pause
	for h.life.Err() == nil {
		node := h.client.node()
		err := h.keepConnected(node, &delay)
		if h.life.Err() != nil {
			return
		}
		var refusal *Error
		switch {
		case errors.As(err, &refusal) && refusal.Outcome == Committed:
			h.lose(refusal.Text)
		case refusal != nil && elsewhere(refusal.Result):
			h.client.goElsewhere(refusal, node)
		default:
			h.client.leave(node)
		}
		_ = sleep(h.life, delay.duration())
	}
}

// patience is the time for an answer: a connection that has silently died must leave time for another one.
func (h *Held) patience() time.Duration {
	if left, limited := h.Remaining(); limited {
		return atMost(h.client.timeout, left/2)
	}
	return h.client.timeout
}

// limit is the context of a request.
func (h *Held) limit() (context.Context, context.CancelFunc) {
	return context.WithTimeout(h.life, h.patience())
}

func (h *Held) keepConnected(node *address, delay *pause) error {
	conn, err := open(h.life, node, h.client.name, h.patience(), h.told)
	if err != nil {
		return err
	}
	defer conn.close(net.ErrClosed)
	// First the subscription, then a renewal: no moment is left that neither would see.
	if err := h.subscribe(conn); err != nil {
		return err
	}
	for {
		if err := h.look(conn); err != nil {
			return err
		}
		*delay = pause{}
		if h.life.Err() != nil {
			return nil
		}
		if err := h.rest(conn); err != nil {
			return err
		}
	}
}

func (h *Held) subscribe(conn *connection) error {
	ctx, cancel := h.limit()
	defer cancel()
	err := conn.subscribe(ctx, "holder:"+h.Holder)
	var refusal *Error
	if errors.As(err, &refusal) && !elsewhere(refusal.Result) {
		return nil // a holder that ends like "?after=7" is no channel; renewals will tell
	}
	return err
}

// rest waits until it is time to renew.
func (h *Held) rest(conn *connection) error {
	h.lock.Lock()
	wait := h.renewAt - bootTime()
	if h.renewAt == 0 {
		wait = checkEvery
	}
	h.lock.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-conn.done:
		return conn.cause
	case <-h.life.Done():
		return h.life.Err()
	}
}

// look renews the lease if it is time, and sees that it is still held.
func (h *Held) look(conn *connection) error {
	ctx, cancel := h.limit()
	defer cancel()
	h.lock.Lock()
	asked := bootTime()
	renews := h.renewAt != 0 && asked >= h.renewAt
	h.lock.Unlock()
	if renews {
		w := words{"TOUCH", h.Token.Lease, epochText(h.Epoch)}.duration("TTL", h.ttl)
		if _, err := answered(conn.exchange(ctx, w)); err != nil {
			return err
		}
	}
	reply, err := answered(conn.exchange(ctx, words{"LEASE", h.Token.Lease}))
	if err != nil {
		return err
	}
	var lease Lease
	if err := decode(reply, &lease); err != nil {
		return err
	}
	h.seen(lease, asked, renews)
	return nil
}

// answered makes an error of an error reply.
func answered(reply any, err error) (any, error) {
	if refusal, ok := reply.(errorReply); ok && err == nil {
		return nil, errorOf(string(refusal), false, "")
	}
	return reply, err
}

// told is called with the pushes of the connection.
func (h *Held) told(message push) {
	event, ok := eventOf(message)
	if ok && event.Lease == h.Token.Lease && event.Epoch > h.Epoch {
		h.lose(fmt.Sprintf("%s, %s", event.Kind, event.Reason))
	}
}

// eventOf is the event in a message of a channel.
func eventOf(message push) (event Event, ok bool) {
	if len(message) != 3 || message[0] != "message" {
		return event, false
	}
	var fields map[string]any
	if json.Unmarshal([]byte(fmt.Sprint(message[2])), &fields) != nil || decode(fields, &event) != nil {
		return event, false
	}
	if event.Kind == "lost" {
		event.ID = fmt.Sprint(fields["oldest"])
	}
	return event, true
}

// ---- The end ----

// Stop stops the renewals, but does not end the lease.
func (h *Held) Stop() {
	h.lock.Lock()
	h.stopped = true
	h.lock.Unlock()
	h.end()
	<-h.ended
	h.cancel()
}

// Release stops the renewals and releases the lease, or acknowledges that it was revoked: the work has stopped.
// The error is a *LeaseLost if the lease was lost before.
func (h *Held) Release(ctx context.Context) error {
	h.Stop()
	lost := h.Err()
	err := h.finish(ctx)
	if lost != nil {
		return lost
	}
	if err != nil {
		return err
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.reason != "" {
		return &LeaseLost{Lease: h.Token.Lease, Reason: h.reason}
	}
	return nil
}

func (h *Held) finish(ctx context.Context) error {
	var refusal *Error
	_, err := h.client.Release(ctx, h.Token, h.Holder)
	if err == nil || !errors.As(err, &refusal) || refusal.Outcome != Committed {
		return err
	}
	h.lose(refusal.Text)
	_, err = h.client.Ack(ctx, h.Token, h.Holder)
	if errors.As(err, &refusal) && refusal.Outcome == Committed {
		return nil // it was not revoked, but has ended in another way
	}
	return err
}
