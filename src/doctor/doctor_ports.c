/* The addresses to listen on: whether this machine has them, whether they are free, and what answers there.
 *
 * An address is tried as a client would, by connecting: binding it, even for a moment, could keep a server
 * from starting. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/resp_client.h"
#include "doctor/doctor_parts.h"
#include "server/listen_address.h"
#include "tenure.h"

#define ANSWER_MS 2000

static const char area[] = "ports";

struct port {
    const char *setting; /* "listen" */
    const char *text;    /* "127.0.0.1:7411" */
    char host[64];
    uint16_t port;
    struct sockaddr_storage address;
    socklen_t len;
    bool tls, http;
};

/* ---- Sockets ---- */

/* A server that listens on all addresses is reached at loopback. */
static void reachable(struct port *port) {
    struct sockaddr_in *four = (struct sockaddr_in *)&port->address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&port->address;
    if (port->address.ss_family == AF_INET && four->sin_addr.s_addr == htonl(INADDR_ANY)) {
        four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        (void)snprintf(port->host, sizeof port->host, "127.0.0.1");
    } else if (port->address.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr)) {
        six->sin6_addr = in6addr_loopback;
        (void)snprintf(port->host, sizeof port->host, "::1");
    }
}

/* Whether an interface has the address. Tried with a port that the system chooses. */
static bool is_here(const struct port *port) {
    struct sockaddr_storage any = port->address;
    int fd = socket(any.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (any.ss_family == AF_INET) {
        ((struct sockaddr_in *)&any)->sin_port = 0;
    } else {
        ((struct sockaddr_in6 *)&any)->sin6_port = 0;
    }
    bool good = fd >= 0 &&
                (bind(fd, (const struct sockaddr *)&any, port->len) == 0 || errno != EADDRNOTAVAIL);
    if (fd >= 0) {
        (void)close(fd);
    }
    return good;
}

/* Returns a connected socket; -1: see errno. */
static int connect_to(const struct port *port) {
    int fd = socket(port->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    socklen_t len = sizeof(int);
    if (fd < 0) {
        return -1;
    }
    int error = connect(fd, (const struct sockaddr *)&port->address, port->len) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        error = ETIMEDOUT;
        if (poll(&one, 1, ANSWER_MS) == 1) {
            (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
        }
    }
    if (error != 0) {
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* ---- HTTP ---- */

/* Reads the answer to a GET, with its head. False: there is none. */
static bool http_get(const struct port *port, const char *path, char *out, size_t room) {
    char request[256];
    size_t len = 0;
    int fd = connect_to(port);
    int size = snprintf(request, sizeof request,
                        "GET %s HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    if (fd < 0) {
        return false;
    }
    bool good = send(fd, request, (size_t)size, MSG_NOSIGNAL) == size;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    while (good && len + 1 < room && poll(&one, 1, ANSWER_MS) == 1) {
        ssize_t got = recv(fd, out + len, room - 1 - len, 0);
        if (got <= 0) {
            break;
        }
        len += (size_t)got;
    }
    out[len] = '\0';
    (void)close(fd);
    return strncmp(out, "HTTP/1.", 7) == 0;
}

/* Each failed check of /readyz is a line "[-]name failed: why". */
static void ready_judge(struct doctor *doctor, const struct port *port, char *answer) {
    char *rest = NULL;
    bool ready = strncmp(answer + 8, " 200", 4) == 0;
    for (char *line = strtok_r(answer, "\r\n", &rest); line != NULL;
         line = strtok_r(NULL, "\r\n", &rest)) {
        if (strncmp(line, "[-]", 3) == 0) {
            doctor_say(doctor, DOCTOR_PROBLEM, "server",
                       "look at its log (journalctl -u tenured) and docs/operations.md", "%s",
                       line + 3);
        }
    }
    if (ready) {
        doctor_say(doctor, DOCTOR_OK, "server", NULL, "it is ready (%s/readyz)", port->text);
    }
}

static void http_look(struct doctor *doctor, const struct port *port) {
    char answer[8192];
    if (!http_get(port, "/", answer, sizeof answer) || strstr(answer, "\nTenure ") == NULL) {
        doctor_say(doctor, DOCTOR_PROBLEM, area,
                   doctor_advice("ss -ltnp 'sport = :%u'", port->port),
                   "%s %s: another program than Tenure listens there", port->setting, port->text);
        return;
    }
    doctor_say(doctor, DOCTOR_OK, area, NULL, "%s %s: Tenure answers", port->setting, port->text);
    if (http_get(port, "/readyz?verbose", answer, sizeof answer)) {
        ready_judge(doctor, port, answer);
    }
}

/* ---- RESP ---- */

static void version_judge(struct doctor *doctor, const struct cli_client *client) {
    const struct cli_reader *reader = &client->reader;
    struct tn_bytes version = cli_node_text(reader, cli_node_find(reader, 0, "version"));
    const char *ours = tenure_version();
    if (version.len == strlen(ours) && memcmp(version.at, ours, version.len) == 0) {
        doctor_say(doctor, DOCTOR_OK, "server", NULL, "version %s", ours);
    } else {
        doctor_say(doctor, DOCTOR_WARNING, "server", "systemctl restart tenured",
                   "version %.*s runs; version %s is installed", (int)version.len,
                   (const char *)version.at, ours);
    }
}

static void resp_look(struct doctor *doctor, const struct port *port) {
    struct cli_settings settings = *doctor->settings;
    struct cli_client client;
    char number[16];
    settings.socket[0] = '\0';
    settings.tls.on = false;
    settings.no_login = true; /* nothing proves what program listens there, so it gets no secret */
    (void)snprintf(number, sizeof number, "%u", port->port);
    enum cli_link link = cli_client_open_at(&client, &settings, port->host, number, ANSWER_MS);
    if (link == CLI_LINK_OK) {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "%s %s: Tenure answers", port->setting,
                   port->text);
        version_judge(doctor, &client);
    } else if (client.login) {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "%s %s: a server answers and wants a log-in",
                   port->setting, port->text);
    } else {
        doctor_say(doctor, DOCTOR_PROBLEM, area,
                   doctor_advice("ss -ltnp 'sport = :%u'", port->port),
                   "%s %s: something listens there and does not answer as Tenure: %s",
                   port->setting, port->text, client.error);
    }
    cli_client_close(&client);
}

/* ---- One address ---- */

static void answered(struct doctor *doctor, const struct port *port) {
    if (doctor->lock_known && !doctor->dir_locked) {
        doctor_say(doctor, DOCTOR_PROBLEM, area,
                   doctor_advice("ss -ltnp 'sport = :%u'", port->port),
                   "%s %s is taken, but no server runs in %s", port->setting, port->text,
                   config_text(&doctor->config, CONFIG_DATA));
    } else if (port->tls) {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "%s %s: something listens (TLS, not asked)",
                   port->setting, port->text);
    } else if (port->http) {
        http_look(doctor, port);
    } else {
        resp_look(doctor, port);
    }
}

static void port_look(struct doctor *doctor, struct port *port) {
    if (!is_here(port)) {
        doctor_say(doctor, DOCTOR_PROBLEM, area, "ip address; then correct the setting",
                   "%s %s: no interface of this machine has that address", port->setting,
                   port->text);
        return;
    }
    if (port->port == 0) {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "%s %s: any free port", port->setting,
                   port->text);
        return;
    }
    reachable(port);
    int fd = connect_to(port);
    if (fd >= 0) {
        (void)close(fd);
        answered(doctor, port);
    } else if (errno != ECONNREFUSED) {
        doctor_say(doctor, DOCTOR_WARNING, area, "look at the firewall: nft list ruleset",
                   "%s %s cannot be reached from here: %s", port->setting, port->text,
                   strerror(errno));
    } else if (doctor->dir_locked) {
        doctor_say(
            doctor, DOCTOR_WARNING, area, "journalctl -u tenured",
            "a server runs but does not listen on %s %s: it is starting, or it was started with "
            "another address",
            port->setting, port->text);
    } else {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "%s %s is free", port->setting, port->text);
    }
}

void doctor_ports(struct doctor *doctor) {
    static const struct {
        enum config_setting setting;
        bool tls, http;
    } rows[] = {{CONFIG_LISTEN, false, false},
                {CONFIG_HTTP, false, true},
                {CONFIG_TLS_LISTEN, true, false},
                {CONFIG_HTTPS, true, true}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct port port = {.setting = config_row(rows[i].setting).name,
                            .text = config_text(&doctor->config, rows[i].setting),
                            .tls = rows[i].tls,
                            .http = rows[i].http};
        if (server_address_split(port.text, port.host, &port.port) &&
            server_address_make(port.host, port.port, &port.address) == 0) {
            port.len = port.address.ss_family == AF_INET ? sizeof(struct sockaddr_in)
                                                         : sizeof(struct sockaddr_in6);
            port_look(doctor, &port);
        }
    }
}
