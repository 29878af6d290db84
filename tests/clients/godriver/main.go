// Drives clients/go for tests/e2e/clients_table_test.py, which describes the lines.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"tenure"
)

type request struct {
	ID     int    `json:"id"`
	Client string `json:"client"`
	Call   string `json:"call"`
	Args   args   `json:"args"`
}

type hold struct {
	*tenure.Held
	lostAt any
	lost   chan struct{}
}

var (
	lock      sync.Mutex
	clients   = map[string]*tenure.Client{}
	holds     = map[string]*hold{}
	followers = map[string]*tenure.Follower{}
)

func client(name string) *tenure.Client {
	lock.Lock()
	defer lock.Unlock()
	return clients[name]
}

func connect(name string, a args) error {
	retry := a.duration("retry_seconds")
	if a.has("retry_seconds") && retry == 0 {
		retry = -1
	}
	c, err := tenure.New(tenure.Options{Address: a.text("address"), Timeout: a.duration("timeout"), Retry: retry,
		Username: a.text("username"), Password: a.text("password"), CAFile: a.text("ca_file")})
	if err == nil {
		lock.Lock()
		clients[name] = c
		lock.Unlock()
	}
	return err
}

func (h *hold) state() map[string]any {
	left, limited := h.Remaining()
	lost := h.Err() != nil
	lock.Lock()
	defer lock.Unlock()
	return map[string]any{"values": h.Values, "lease": h.Token.Lease, "epoch": h.Epoch, "lost": lost,
		"lost_at": h.lostAt, "held": !limited && !lost || left > 0}
}

func begin(c *tenure.Client, a args) (any, error) {
	held, err := c.HoldBundle(context.Background(), a.text("holder"), a.claims(), a.terms())
	if err != nil {
		return nil, err
	}
	h := &hold{Held: held, lost: make(chan struct{})}
	go func() {
		<-held.Context().Done()
		lock.Lock()
		h.lostAt = time.Now().UnixMilli()
		lock.Unlock()
		if held.Err() != nil {
			close(h.lost)
		}
	}()
	lock.Lock()
	holds[a.text("name")] = h
	lock.Unlock()
	return h.state(), nil
}

// special are the calls that are not methods of a client.
func special(r request) (answer any, err error, found bool) {
	lock.Lock()
	h, f := holds[r.Args.text("name")], followers[r.Args.text("name")]
	lock.Unlock()
	ctx := context.Background()
	switch r.Call {
	case "connect":
		return nil, connect(r.Client, r.Args), true
	case "close":
		client(r.Client).Close()
		return nil, nil, true
	case "outcome_of":
		return tenure.OutcomeOf(tenure.Result(r.Args.text("result"))), nil, true
	case "hold":
		answer, err = begin(client(r.Client), r.Args)
		return answer, err, true
	case "held":
		return h.state(), nil, true
	case "wait_lost":
		<-h.lost
		return h.state(), nil, true
	case "end_hold":
		return nil, h.Release(ctx), true
	case "follow":
		f, err := client(r.Client).Follow(ctx, tenure.Following{After: r.Args.text("after"),
			Pool: r.Args.text("pool"), Holder: r.Args.text("holder")})
		lock.Lock()
		followers[r.Args.text("name")] = f
		lock.Unlock()
		return nil, err, true
	case "next_event":
		event, err := f.Next(ctx)
		return event, err, true
	case "end_follow":
		f.Close()
		return nil, nil, true
	}
	return nil, nil, false
}

func refusal(err error) map[string]any {
	var e *tenure.Error
	var lost *tenure.LeaseLost
	if errors.As(err, &e) {
		_, logged := e.LSN()
		return map[string]any{"result": e.Result, "outcome": e.Outcome, "facts": e.Facts, "logged": logged,
			"opid": e.OpID}
	}
	if errors.As(err, &lost) {
		return map[string]any{"result": "LEASE_LOST"}
	}
	return map[string]any{"result": "OTHER", "text": err.Error()}
}

func main() {
	var output sync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r request
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.UseNumber()
		if err := decoder.Decode(&r); err != nil {
			panic(err)
		}
		go func() {
			answer, err, found := special(r)
			if !found {
				answer, err = method(client(r.Client), r)
			}
			said := map[string]any{"id": r.ID, "ok": plain(answer)}
			if err != nil {
				said = map[string]any{"id": r.ID, "error": refusal(err)}
			}
			text, err := json.Marshal(said)
			if err != nil {
				panic(err)
			}
			output.Lock()
			defer output.Unlock()
			fmt.Println(string(text))
		}()
	}
}
