package tenure

import (
	"bufio"
	"fmt"
	"io"
	"math/big"
	"strconv"
)

// Replies of RESP3: nil, bool, int64, *big.Int, float64, string, []any, map[string]any, errorReply, push.
type (
	errorReply string
	push       []any
)

func encode(words []string) []byte {
	out := []byte(fmt.Sprintf("*%d\r\n", len(words)))
	for _, word := range words {
		out = strconv.AppendInt(append(out, '$'), int64(len(word)), 10)
		out = append(append(append(out, '\r', '\n'), word...), '\r', '\n')
	}
	return out
}

const (
	replyMax = 1 << 26 // bytes of one reply
	lineMax  = 1 << 16 // which the buffer of a reader holds
	depthMax = 32      // of arrays in arrays, and of attributes before a reply
)

type reader struct {
	*bufio.Reader
	left  int // bytes for the rest of the reply
	depth int
}

func newReader(from io.Reader) *reader { return &reader{Reader: bufio.NewReaderSize(from, lineMax)} }

func (r *reader) spend(size int) error {
	if r.left -= size; r.left < 0 {
		return fmt.Errorf("not RESP3: a reply of more than %d bytes", replyMax)
	}
	return nil
}

func (r *reader) line() (byte, string, error) {
	data, err := r.ReadSlice('\n')
	if err != nil {
		return 0, "", err // bufio.ErrBufferFull among them
	}
	line := string(data)
	if err := r.spend(len(line)); err != nil {
		return 0, "", err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return 0, "", fmt.Errorf("not RESP3: %q", line)
	}
	return line[0], line[1 : len(line)-2], nil
}

// reply reads one reply or push.
func (r *reader) reply() (any, error) {
	r.left, r.depth = replyMax, 0
	return r.item()
}

func (r *reader) item() (any, error) {
	kind, rest, err := r.line()
	if err != nil {
		return nil, err
	}
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return errorReply(rest), nil
	case ':', '(':
		return integer(rest)
	case ',':
		return strconv.ParseFloat(rest, 64)
	case '#':
		return rest == "t", nil
	case '_':
		return nil, nil
	}
	size, err := strconv.Atoi(rest)
	if err != nil || size < -1 {
		return nil, fmt.Errorf("not RESP3: %q", string(kind)+rest)
	}
	if size < 0 {
		return nil, nil
	}
	if size > replyMax {
		return nil, r.spend(size)
	}
	return r.sized(kind, size)
}

func integer(digits string) (any, error) {
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return n, nil
	}
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return nil, fmt.Errorf("not RESP3: the number %q", digits)
	}
	return n, nil
}

func (r *reader) sized(kind byte, size int) (any, error) {
	switch kind {
	case '$', '=', '!':
		return r.bulk(kind, size)
	case '*', '~':
		return r.items(size)
	case '>':
		items, err := r.items(size)
		return push(items), err
	case '%':
		items, err := r.items(2 * size)
		return mapOf(items), err
	case '|': // attributes are not used
		if _, err := r.items(2 * size); err != nil {
			return nil, err
		}
		if err := r.deeper(); err != nil {
			return nil, err
		}
		defer func() { r.depth-- }()
		return r.item()
	}
	return nil, fmt.Errorf("not RESP3: a reply begins with %q", kind)
}

func (r *reader) bulk(kind byte, size int) (any, error) {
	if err := r.spend(size + 2); err != nil {
		return nil, err
	}
	data := make([]byte, size+2)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	text := string(data[:size])
	switch kind {
	case '=':
		if size < 4 {
			return nil, fmt.Errorf("not RESP3: a verbatim text of %d bytes", size)
		}
		return text[4:], nil
	case '!':
		return errorReply(text), nil
	}
	return text, nil
}

// deeper counts a level, which is one of the stack too.
func (r *reader) deeper() error {
	if r.depth++; r.depth > depthMax {
		return fmt.Errorf("not RESP3: a deep reply")
	}
	return nil
}

func (r *reader) items(count int) ([]any, error) {
	if err := r.deeper(); err != nil {
		return nil, err
	}
	defer func() { r.depth-- }()
	items := []any{}
	for len(items) < count {
		item, err := r.item()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func mapOf(items []any) map[string]any {
	m := make(map[string]any, len(items)/2)
	for i := 0; i+1 < len(items); i += 2 {
		m[fmt.Sprint(items[i])] = items[i+1]
	}
	return m
}
