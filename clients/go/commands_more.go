package tenure

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// ---- Rules and sensors ----

// RuleSet makes or changes a rule. Without metadata, a rule that is there keeps its own.
func (c *Client) RuleSet(ctx context.Context, rule Rule) (done Done, err error) {
	w, err := words{"RULE", "SET", rule.ID, rule.Trigger}.flag("DISABLED", !rule.Enabled).
		object("META", rule.Meta)
	if err != nil {
		return done, err
	}
	return done, c.write(ctx, &done, w.reason(ctx))
}

func (c *Client) RuleInfo(ctx context.Context, id string) (rule Rule, err error) {
	return rule, c.readInto(ctx, &rule, words{"RULE", "INFO", id})
}

func (c *Client) RuleDelete(ctx context.Context, id string) (done Done, err error) {
	return done, c.write(ctx, &done, words{"RULE", "DELETE", id}.reason(ctx))
}

func (c *Client) RuleEnable(ctx context.Context, id string) (done Done, err error) {
	return done, c.write(ctx, &done, words{"RULE", "ENABLE", id}.reason(ctx))
}

func (c *Client) RuleDisable(ctx context.Context, id string) (done Done, err error) {
	return done, c.write(ctx, &done, words{"RULE", "DISABLE", id}.reason(ctx))
}

func (c *Client) RuleList(ctx context.Context, list List) (page RulePage, err error) {
	return page, c.readInto(ctx, &page, list.words(words{"RULE", "LIST"}))
}

// SensorSet takes Ref, Trigger, Enabled and Spec.
func (c *Client) SensorSet(ctx context.Context, sensor Sensor) (done Done, err error) {
	spec, err := words{}.object("SPEC", sensor.Spec)
	if err != nil || len(spec) == 0 {
		return done, fmt.Errorf("tenure: the sensor's Spec: %v", err)
	}
	return done, c.write(ctx, &done, words{"SENSOR", "SET", sensor.Ref, sensor.Trigger, spec[1]}.
		flag("DISABLED", !sensor.Enabled).reason(ctx))
}

func (c *Client) SensorInfo(ctx context.Context, ref string) (sensor Sensor, err error) {
	return sensor, c.readInto(ctx, &sensor, words{"SENSOR", "INFO", ref})
}

func (c *Client) SensorDelete(ctx context.Context, ref string) (done Done, err error) {
	return done, c.write(ctx, &done, words{"SENSOR", "DELETE", ref}.reason(ctx))
}

func (c *Client) SensorEnable(ctx context.Context, ref string) (done Done, err error) {
	return done, c.write(ctx, &done, words{"SENSOR", "ENABLE", ref}.reason(ctx))
}

func (c *Client) SensorDisable(ctx context.Context, ref string) (done Done, err error) {
	return done, c.write(ctx, &done, words{"SENSOR", "DISABLE", ref}.reason(ctx))
}

func (c *Client) SensorList(ctx context.Context, list List) (page SensorPage, err error) {
	return page, c.readInto(ctx, &page, list.words(words{"SENSOR", "LIST"}))
}

func (c *Client) SensorStatus(ctx context.Context, ref string) (status SensorStatus, err error) {
	return status, c.readInto(ctx, &status, words{"SENSOR", "STATUS", ref})
}

// SensorLogs is the last count bytes of its output, or the bytes after a position.
func (c *Client) SensorLogs(ctx context.Context, ref, after string, count int) (output SensorOutput, err error) {
	return output, c.readInto(ctx, &output, words{"SENSOR", "LOGS", ref}.text("AFTER", after).
		number("COUNT", int64(count)))
}

// SensorRules is a page of the enabled rules of its trigger, with their metadata, for a running sensor by its token.
func (c *Client) SensorRules(ctx context.Context, ref, token string, list List) (page RulePage, err error) {
	return page, c.readInto(ctx, &page, list.words(words{"SENSOR", "RULES", ref, token}))
}

// SensorHeartbeat reports that the sensor of the token is healthy; the time is when the token expires.
func (c *Client) SensorHeartbeat(ctx context.Context, token string) (time.Time, error) {
	var alive struct {
		ExpiresAt time.Time `json:"expires_at" unit:"s" need:"yes"`
	}
	err := c.readInto(ctx, &alive, words{"SENSOR", "HEARTBEAT", token})
	return alive.ExpiresAt, err
}

// Emit emits an event of the running sensor of the token, which must include the trigger type.
func (c *Client) Emit(ctx context.Context, token, trigger string, payload map[string]any) (event Emitted, err error) {
	w, err := words{"EMIT", token, trigger}.object("PAYLOAD", payload)
	if err != nil {
		return event, err
	}
	return event, c.write(ctx, &event, w)
}

// ---- Tokens ----

// TokenTerms of a signed token. A token with a TTL can be extended only for Refresh in total.
type TokenTerms struct {
	TTL, Refresh time.Duration
	Scope        string
}

// TokenIssue signs a token for a live lease; it becomes invalid when the lease ends.
func (c *Client) TokenIssue(ctx context.Context, t Token, terms TokenTerms) (token SignedToken, err error) {
	return token, c.readInto(ctx, &token, words{"TOKEN", "ISSUE", t.Lease, epochText(t.Epoch)}.
		duration("TTL", terms.TTL).duration("REFRESH", terms.Refresh).text("SCOPE", terms.Scope))
}

// TokenSensor signs a token for the lease of a running sensor.
func (c *Client) TokenSensor(ctx context.Context, ref string, terms TokenTerms) (token SignedToken, err error) {
	return token, c.readInto(ctx, &token, words{"TOKEN", "SENSOR", ref}.duration("TTL", terms.TTL).
		duration("REFRESH", terms.Refresh).text("SCOPE", terms.Scope))
}

// TokenRefresh exchanges a live token for one with a later expiry.
func (c *Client) TokenRefresh(ctx context.Context, token string, ttl time.Duration) (next SignedToken, err error) {
	return next, c.readInto(ctx, &next, words{"TOKEN", "REFRESH", token}.duration("TTL", ttl))
}

func (c *Client) TokenIntrospect(ctx context.Context, token string) (state TokenState, err error) {
	return state, c.readInto(ctx, &state, words{"TOKEN", "INTROSPECT", token})
}

// TokenRevoke revokes the lease if it still has the token's epoch.
func (c *Client) TokenRevoke(ctx context.Context, id string, after time.Duration) (moved Moved, err error) {
	return moved, c.write(ctx, &moved, words{"TOKEN", "REVOKE", id}.duration("AFTER", after).reason(ctx))
}

// rows is a list of maps in a reply.
func (c *Client) rows(ctx context.Context, name string, w words) ([]map[string]any, error) {
	reply, err := c.read(ctx, w)
	if err != nil {
		return nil, err
	}
	fields, _ := reply.(map[string]any)
	items, ok := fields[name].([]any)
	if !ok {
		return nil, fmt.Errorf("tenure: a reply of another form: %v", reply)
	}
	var rows []map[string]any
	for _, item := range items {
		row, _ := item.(map[string]any)
		rows = append(rows, row)
	}
	return rows, nil
}

// TokenKeys has the public keys of a JSON Web Key Set.
func (c *Client) TokenKeys(ctx context.Context) ([]map[string]any, error) {
	return c.rows(ctx, "keys", words{"TOKEN", "KEYS"})
}

// ---- Users ----

// UserTerms say what a user may. Empty: unchanged, or the default of a new user. Pools and Holders are patterns with
// blanks between them; "*" removes a limit. MaxValues below 0 removes the quota.
type UserTerms struct {
	Role, Secret, Pools, Holders string
	MaxValues                    int64
}

func (t UserTerms) words(w words) words {
	w = w.text("ROLE", t.Role).text("SECRET", t.Secret).text("POOLS", t.Pools).text("HOLDERS", t.Holders)
	if t.MaxValues < 0 {
		return append(w, "MAX_VALUES", "0")
	}
	return w.number("MAX_VALUES", t.MaxValues)
}

// WhoAmI is the user of this client.
func (c *Client) WhoAmI(ctx context.Context) (user User, err error) {
	return user, c.readInto(ctx, &user, words{"WHOAMI"})
}

// UserAdd needs a role and a secret.
func (c *Client) UserAdd(ctx context.Context, name string, terms UserTerms) (done Done, err error) {
	return done, c.write(ctx, &done, terms.words(words{"USER", "ADD", name}).reason(ctx))
}

// UserSet changes what the terms give.
func (c *Client) UserSet(ctx context.Context, name string, terms UserTerms) (done Done, err error) {
	return done, c.write(ctx, &done, terms.words(words{"USER", "SET", name}).reason(ctx))
}

func (c *Client) UserDelete(ctx context.Context, name string) (done Done, err error) {
	return done, c.write(ctx, &done, words{"USER", "DELETE", name}.reason(ctx))
}

func (c *Client) UserList(ctx context.Context, list List) (page UserPage, err error) {
	return page, c.readInto(ctx, &page, list.words(words{"USER", "LIST"}))
}

// ---- The server ----

// NodeList has the nodes of the cluster; a server without one is its only node.
func (c *Client) NodeList(ctx context.Context) ([]map[string]any, error) {
	return c.rows(ctx, "nodes", words{"NODE", "LIST"})
}

func (c *Client) Ping(ctx context.Context) error {
	_, err := c.read(ctx, words{"PING"})
	return err
}

// Time is that of the server's clock.
func (c *Client) Time(ctx context.Context) (time.Time, error) {
	reply, err := c.read(ctx, words{"TIME"})
	if err != nil {
		return time.Time{}, err
	}
	parts, ok := reply.([]any)
	if !ok || len(parts) != 2 {
		return time.Time{}, fmt.Errorf("tenure: a reply of another form: %v", reply)
	}
	seconds, err := strconv.ParseInt(fmt.Sprint(parts[0]), 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	micros, err := strconv.ParseInt(fmt.Sprint(parts[1]), 10, 64)
	return time.Unix(seconds, micros*1000), err
}
