/* Options of every subcommand, and their environment variables. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/duration.h"
#include "cli/cli.h"
#include "cli/display.h"
#include "cli/watch_rounds.h"

enum setting {
    HOST,
    PORT,
    SOCKET,
    URL,
    TLS,
    CA,
    CERT,
    KEY,
    INSECURE,
    JSON,
    OPID,
    TIMEOUT,
    RETRY,
    LIMIT,
    WATCH,
    SETTINGS
};

static const char *const rows[SETTINGS][3] = {
    [HOST] = {"-h, --host", "HOST", "the server's host (127.0.0.1; TENURE_HOST)"},
    [PORT] = {"-p, --port", "PORT", "its port (7411; TENURE_PORT)"},
    [SOCKET] = {"-s, --socket", "PATH",
                "its Unix-domain socket, instead of host and port (TENURE_SOCKET)"},
    [URL] = {"-u, --url", "URL",
             "all of them at once: tenure://HOST:PORT, unix://PATH, or the nodes of a cluster, "
             "tenure://A:PORT,B:PORT,C:PORT (TENURE_URL)"},
    [TLS] = {"--tls", "", "use TLS; so do URLs with rediss:// and tenures:// (TENURE_TLS=yes)"},
    [CA] = {"--ca", "FILE",
            "use TLS; the authorities of the server's certificate (TENURE_CA_FILE; the system's)"},
    [CERT] = {"--cert", "FILE", "use TLS; the client's certificate (TENURE_CERT_FILE)"},
    [KEY] = {"--key", "FILE", "the key of that certificate (TENURE_KEY_FILE; the same file)"},
    [INSECURE] = {"--insecure", "", "use TLS without verifying the server: for trying only"},
    [JSON] = {"--json", "",
              "print the reply as one line of JSON; integers are strings, as over HTTP"},
    [OPID] = {"--opid", "ID",
              "the operation id of a write; by default a generated one, printed if needed"},
    [TIMEOUT] = {"--timeout", "DURATION",
                 "the maximum time to wait for an answer (30s; 0: no limit)"},
    [RETRY] = {"--retry", "N", "retries with the same operation id when the connection fails (0)"},
    [WATCH] =
        {"--watch", "",
         "repeat a command that reads, every 2 seconds (--watch=SECONDS: at least 0.2), and mark what "
         "changed; on a terminal in place; Ctrl-C ends it"},
    [LIMIT] = {"--limit", "N", "the maximum number of list items to show (1000; 0: all)"},
};

const char *const *cli_settings_row(unsigned row) {
    return row < SETTINGS ? rows[row] : NULL;
}

static bool copy(char *out, size_t capacity, const char *text, size_t len) {
    if (len == 0 || len >= capacity) {
        return false;
    }
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

static bool port_set(struct cli_settings *settings, const char *text) {
    uint64_t number;
    size_t len = strlen(text);
    return cli_number_parse(tn_bytes_of(text, len), &number) && number > 0 && number <= 65535 &&
           copy(settings->port, sizeof settings->port, text, len);
}

/* "host:port", "[::1]:7411"; the port may be missing. */
static bool address_set(struct cli_settings *settings, const char *host, size_t len) {
    const char *colon = memrchr(host, ':', len);
    const char *bracket = memchr(host, ']', len);
    size_t host_len = len;
    if (colon != NULL && (bracket == NULL || colon > bracket)) {
        char port[16];
        host_len = (size_t)(colon - host);
        if (!copy(port, sizeof port, colon + 1, len - host_len - 1) || !port_set(settings, port)) {
            return false;
        }
    }
    if (host_len > 2 && host[0] == '[' && bracket == host + host_len - 1) {
        return copy(settings->host, sizeof settings->host, host + 1, host_len - 2);
    }
    return copy(settings->host, sizeof settings->host, host, host_len);
}

/* "a:7411,b:7411,c": the nodes of a cluster; the first becomes host and port. */
static bool nodes_set(struct cli_settings *settings, const char *list, size_t len) {
    settings->node_count = 0;
    for (size_t at = 0; at <= len;) {
        size_t part = strcspn(list + at, ",");
        part = part < len - at ? part : len - at;
        (void)strcpy(settings->port, CLI_PORT);
        if (settings->node_count == CLI_ADDRESSES_MAX || !address_set(settings, list + at, part)) {
            return false;
        }
        struct cli_address *node = &settings->nodes[settings->node_count++];
        memcpy(node->host, settings->host, sizeof node->host);
        memcpy(node->port, settings->port, sizeof node->port);
        at += part + 1;
    }
    memcpy(settings->host, settings->nodes[0].host, sizeof settings->host);
    memcpy(settings->port, settings->nodes[0].port, sizeof settings->port);
    return true;
}

/* The part of the URL after the scheme; NULL: the scheme is unknown. An unknown scheme must not mean plain
 * text. */
static const char *scheme_take(const char *url, bool *ret_unix, bool *ret_tls) {
    static const struct {
        const char *name;
        bool is_unix, tls;
    } schemes[] = {{"tenure", false, false},
                   {"redis", false, false},
                   {"tenures", false, true},
                   {"rediss", false, true},
                   {"unix", true, false}};
    const char *mark = strstr(url, "://");
    *ret_unix = *ret_tls = false;
    if (mark == NULL) {
        return url;
    }
    for (unsigned i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t len = strlen(schemes[i].name);
        if (len == (size_t)(mark - url) && strncasecmp(url, schemes[i].name, len) == 0) {
            *ret_unix = schemes[i].is_unix;
            *ret_tls = schemes[i].tls;
            return mark + 3;
        }
    }
    return NULL;
}

/* tenure://host:port, redis://[::1]:7411, or the same without the scheme, or several with commas between
 * them; tenures:// and rediss:// use TLS. Or unix:///path/of/a.socket. A user and a secret before an '@'
 * are not taken for a host. */
static bool url_set(struct cli_settings *settings, const char *url) {
    bool is_unix, tls;
    const char *host = scheme_take(url, &is_unix, &tls);
    if (host == NULL) {
        return false;
    }
    if (is_unix) {
        return copy(settings->socket, sizeof settings->socket, host, strlen(host));
    }
    if (strchr(host, '@') != NULL) {
        return false;
    }
    settings->tls.on |= tls;
    size_t len = strcspn(host, "/");
    settings->node_count = 0;
    return memchr(host, ',', len) != NULL ? nodes_set(settings, host, len)
                                          : address_set(settings, host, len);
}

/* Does not print a URL with an '@': it may contain a secret. */
static void url_refuse(const char *name, const char *url) {
    if (strchr(url, '@') != NULL) {
        (void)fprintf(stderr,
                      "tenure: %s: a URL with '@' is not accepted; set TENURE_USER and "
                      "TENURE_SECRET or TENURE_SECRET_FILE instead\n",
                      name);
    } else {
        (void)fprintf(stderr,
                      "tenure: %s: '%s' is not tenure://HOST:PORT[,HOST:PORT...], the same with "
                      "tenures://, redis:// or rediss://, or unix://PATH\n",
                      name, url);
    }
}

bool cli_settings_address(struct cli_settings *settings, struct tn_bytes address) {
    char text[sizeof settings->host];
    settings->node_count = 0;
    return copy(text, sizeof text, (const char *)address.at, address.len) &&
           address_set(settings, text, strlen(text));
}

bool cli_settings_variable(const char *name) {
    static const char *const names[] = {"TENURE_URL",       "TENURE_HOST",       "TENURE_PORT",
                                        "TENURE_SOCKET",    "TENURE_TLS",        "TENURE_CA_FILE",
                                        "TENURE_CERT_FILE", "TENURE_KEY_FILE",   "TENURE_USER",
                                        "TENURE_SECRET",    "TENURE_SECRET_FILE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* NULL: it is not set. */
static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* A word that is not understood must not mean plain text. */
static bool tls_init(struct cli_tls_settings *tls) {
    const char *wanted = variable("TENURE_TLS");
    tls->on = wanted != NULL && strcmp(wanted, "yes") == 0;
    if (wanted != NULL && !tls->on && strcmp(wanted, "no") != 0) {
        (void)fprintf(stderr, "tenure: TENURE_TLS: '%s' is not yes or no\n", wanted);
        return false;
    }
    tls->ca = variable("TENURE_CA_FILE");
    tls->certificate = variable("TENURE_CERT_FILE");
    tls->key = variable("TENURE_KEY_FILE");
    return true;
}

bool cli_settings_init(struct cli_settings *settings, const struct os *os) {
    const char *url = getenv("TENURE_URL");
    const char *host = getenv("TENURE_HOST");
    const char *port = getenv("TENURE_PORT");
    const char *path = getenv("TENURE_SOCKET");
    *settings = (struct cli_settings){
        .os = os, .host = CLI_HOST, .port = CLI_PORT, .timeout_ms = 30000, .limit = CLI_LIMIT};
    if (!tls_init(&settings->tls)) {
        return false;
    }
    if (url != NULL && url[0] != '\0' && !url_set(settings, url)) {
        url_refuse("TENURE_URL", url);
        return false;
    }
    if ((host != NULL && host[0] != '\0') || (port != NULL && port[0] != '\0')) {
        settings->node_count = 0;
    }
    if (host != NULL && host[0] != '\0' &&
        !copy(settings->host, sizeof settings->host, host, strlen(host))) {
        (void)fprintf(stderr, "tenure: TENURE_HOST is too long\n");
        return false;
    }
    if (port != NULL && port[0] != '\0' && !port_set(settings, port)) {
        (void)fprintf(stderr, "tenure: TENURE_PORT: '%s' is not a port\n", port);
        return false;
    }
    if (path != NULL && path[0] != '\0' &&
        !copy(settings->socket, sizeof settings->socket, path, strlen(path))) {
        (void)fprintf(stderr, "tenure: TENURE_SOCKET: the path of a socket has at most %zu bytes\n",
                      sizeof settings->socket - 1);
        return false;
    }
    return true;
}

/* Whether `argument` is this option, with its value after a '=' or in the next argument. */
static bool option_is(const char *argument, const char *name, const char **ret_value) {
    size_t len = strlen(name);
    if (strncmp(argument, name, len) != 0 || (argument[len] != '\0' && argument[len] != '=')) {
        return false;
    }
    *ret_value = argument[len] == '=' ? argument + len + 1 : NULL;
    return true;
}

static bool value_set(struct cli_settings *settings, enum setting setting, const char *value) {
    struct tn_bytes text = tn_bytes_of(value, strlen(value));
    uint64_t seconds = 0;
    switch (setting) {
    case SOCKET:
        return copy(settings->socket, sizeof settings->socket, value, strlen(value));
    case URL:
        settings->socket[0] = '\0';
        return url_set(settings, value);
    case HOST:
        settings->socket[0] = '\0'; /* what the environment says does not count any more */
        settings->node_count = 0;
        return copy(settings->host, sizeof settings->host, value, strlen(value));
    case PORT:
        settings->socket[0] = '\0';
        settings->node_count = 0;
        return port_set(settings, value);
    case CA:
        settings->tls.on = true;
        settings->tls.ca = value;
        return value[0] != '\0';
    case CERT:
        settings->tls.on = true;
        settings->tls.certificate = value;
        return value[0] != '\0';
    case KEY:
        settings->tls.key = value;
        return value[0] != '\0';
    case OPID:
        settings->opid = value;
        return value[0] != '\0';
    case TIMEOUT:
        if (!tn_duration_parse(text, &seconds) || seconds > 1000000) {
            return false;
        }
        settings->timeout_ms = seconds * 1000;
        return true;
    case RETRY:
        return cli_number_parse(text, &settings->retries) && settings->retries <= 1000000;
    case LIMIT:
        return cli_number_parse(text, &settings->limit);
    default:
        return false; /* takes no value */
    }
}

/* "-h, --host" answers to both; which of our rows, or none. */
static bool row_find(const char *argument, bool leading, enum setting *ret_row,
                     const char **ret_value) {
    for (unsigned row = 0; row < SETTINGS; row++) {
        const char *name = rows[row][0];
        char brief[3] = {name[0], name[1], '\0'};
        *ret_row = (enum setting)row;
        *ret_value = NULL;
        if (name[1] != '-') {
            if (leading && strcmp(argument, brief) == 0) {
                return true;
            }
            name += 4;
        }
        if (option_is(argument, name, ret_value)) {
            return true;
        }
    }
    return false;
}

/* An option without a value. */
static bool flag_set(struct cli_settings *settings, enum setting setting) {
    if (setting == JSON) {
        settings->json = true;
    } else {
        settings->tls.on = true;
    }
    if (setting == INSECURE && !settings->tls.insecure) {
        settings->tls.insecure = true;
        (void)fprintf(stderr,
                      "tenure: WARNING: --insecure: the server's certificate is not verified; "
                      "anyone on the network can read and change this connection\n");
    }
    return true;
}

/* The value is optional, so it can only stand behind a '='. */
static int watch_set(struct cli_settings *settings, const char *value, const char *next) {
    settings->watch_ms = CLI_WATCH_MS;
    if (value == NULL && next != NULL && next[0] >= '0' && next[0] <= '9') {
        (void)fprintf(stderr, "tenure: --watch takes its value after a '=': --watch=%s\n", next);
        return -1;
    }
    if (value != NULL &&
        (!tn_duration_parse_ms(tn_bytes_of(value, strlen(value)), &settings->watch_ms) ||
         settings->watch_ms < CLI_WATCH_MS_MIN || settings->watch_ms > CLI_WATCH_MS_MAX)) {
        (void)fprintf(stderr, "tenure: --watch: '%s' is not from 0.2 to 86400 seconds\n", value);
        return -1;
    }
    return 1;
}

int cli_settings_take(struct cli_settings *settings, int argc, char **argv, int *at, bool leading) {
    enum setting row;
    const char *value;
    if (!row_find(argv[*at], leading, &row, &value)) {
        return 0;
    }
    const char *name = argv[(*at)++];
    if (row == WATCH) {
        return watch_set(settings, value, leading && *at < argc ? argv[*at] : NULL);
    }
    if (row == JSON || row == TLS || row == INSECURE) {
        return flag_set(settings, row) && value == NULL ? 1 : -1;
    }
    if (value == NULL && *at < argc) {
        value = argv[(*at)++];
    }
    if (value == NULL) {
        (void)fprintf(stderr, "tenure: %s needs a value: %s\n", name, rows[row][2]);
        return -1;
    }
    if (!value_set(settings, row, value)) {
        if (row == URL) {
            url_refuse("--url", value);
            return -1;
        }
        (void)fprintf(stderr, "tenure: %s: invalid value '%s'; expected %s\n", name, value,
                      rows[row][2]);
        return -1;
    }
    return 1;
}
