package tenure

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
)

const defaultPort = "7411"

// address is where a node listens, and how to log in there.
type address struct {
	network  string // tcp or unix
	host     string // with the port; or the path of a socket
	username string
	password string
	loggedIn bool // the password counts
	tls      *tls.Config
}

func addressError(text string) error {
	shown := fmt.Sprintf("%q", text)
	if strings.Contains(text, "@") { // it may have a password
		shown = "the address"
	}
	return fmt.Errorf("tenure: %s is not tenure://HOST:PORT, tenures://HOST:PORT or unix://PATH", shown)
}

// schemeOf is in lower case; "": none. An unknown one must not mean plain text.
func schemeOf(text string) (scheme, rest string, err error) {
	before, after, found := strings.Cut(text, "://")
	if !found {
		return "", text, nil
	}
	switch scheme = strings.ToLower(before); scheme {
	case "tenure", "redis", "tenures", "rediss", "unix":
		return scheme, after, nil
	}
	return "", "", addressError(text)
}

func fromEnvironment() string {
	if path := os.Getenv("TENURE_SOCKET"); path != "" {
		return "unix://" + path
	}
	if text := os.Getenv("TENURE_URL"); text != "" {
		return text
	}
	host, port := os.Getenv("TENURE_HOST"), os.Getenv("TENURE_PORT")
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = defaultPort
	}
	return net.JoinHostPort(host, port)
}

// hostPort has the default port if the text has none.
func hostPort(text string) (string, bool) {
	parsed, err := url.Parse("tenure://" + strings.TrimSpace(text))
	if err != nil || parsed.Hostname() == "" || parsed.Path != "" || parsed.RawQuery != "" {
		return "", false
	}
	port := parsed.Port()
	if port == "" {
		port = defaultPort
	}
	return net.JoinHostPort(parsed.Hostname(), port), true
}

// parseAddress has the nodes of an address: tenure://user:password@a:7411,b:7411.
func parseAddress(text string) ([]address, error) {
	scheme, rest, err := schemeOf(text)
	if err != nil {
		return nil, err
	}
	if scheme == "unix" {
		return []address{{network: "unix", host: rest}}, nil
	}
	var login address
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, password, found := strings.Cut(rest[:at], ":")
		if login.username, err = url.PathUnescape(user); err != nil {
			return nil, addressError(text)
		}
		if login.password, err = url.PathUnescape(password); err != nil {
			return nil, addressError(text)
		}
		login.loggedIn = found
		rest = rest[at+1:]
	}
	var nodes []address
	for _, part := range strings.Split(strings.TrimSuffix(rest, "/"), ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		host, ok := hostPort(part)
		if !ok {
			return nil, addressError(text)
		}
		node := login
		node.network, node.host = "tcp", host
		nodes = append(nodes, node)
	}
	if len(nodes) == 0 {
		return nil, addressError(text)
	}
	return nodes, nil
}

// wantsTLS is by the scheme of the address, by the options, or by the environment.
func wantsTLS(text string, o Options) (bool, error) {
	scheme, _, err := schemeOf(text)
	said := os.Getenv("TENURE_TLS")
	if said != "" && said != "yes" && said != "no" {
		return false, fmt.Errorf("tenure: TENURE_TLS: %q is not yes or no", said)
	}
	wanted := o.TLS || scheme == "tenures" || scheme == "rediss" || said == "yes"
	if !wanted && (o.CAFile != "" || o.CertFile != "" || o.TLSConfig != nil) {
		return false, fmt.Errorf("tenure: CAFile, CertFile and TLSConfig need TLS or tenures://")
	}
	return wanted, err
}

// or is the first text that is not empty.
func or(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func tlsConfig(o Options) (*tls.Config, error) {
	config := o.TLSConfig.Clone()
	if config == nil {
		config = &tls.Config{}
	}
	if config.MinVersion < tls.VersionTLS12 {
		config.MinVersion = tls.VersionTLS12
	}
	if file := or(o.CAFile, os.Getenv("TENURE_CA_FILE")); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tenure: %s has no certificate", file)
		}
	}
	certificate, key := o.CertFile, o.KeyFile
	if certificate == "" {
		certificate, key = os.Getenv("TENURE_CERT_FILE"), or(key, os.Getenv("TENURE_KEY_FILE"))
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, or(key, certificate))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// logIn uses the given user or, without a password, that of the environment.
func (a *address) logIn(username, password string) error {
	a.username = or(username, a.username)
	if password != "" {
		a.password, a.loggedIn = password, true
	}
	if a.loggedIn {
		return nil
	}
	secret := os.Getenv("TENURE_SECRET")
	if file := os.Getenv("TENURE_SECRET_FILE"); secret == "" && file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		secret, _, _ = strings.Cut(string(text), "\n")
		secret = strings.TrimRight(secret, "\r")
	}
	if secret != "" {
		a.username, a.password, a.loggedIn = or(a.username, os.Getenv("TENURE_USER")), secret, true
	}
	return nil
}

// addressesOf is what the options and the environment name.
func addressesOf(o Options) ([]address, error) {
	text := o.Address
	if text == "" {
		text = fromEnvironment()
	}
	nodes, err := parseAddress(text)
	if err != nil {
		return nil, err
	}
	secure, err := wantsTLS(text, o)
	if err != nil {
		return nil, err
	}
	var config *tls.Config
	if secure {
		if config, err = tlsConfig(o); err != nil {
			return nil, err
		}
	}
	for i := range nodes {
		nodes[i].tls = config
		if err := nodes[i].logIn(o.Username, o.Password); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}
