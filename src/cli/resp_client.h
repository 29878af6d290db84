/* A connection to the server: a socket with a deadline for each call, which sends words and
 * receives replies. */
#ifndef TN_CLI_RESP_CLIENT_H
#define TN_CLI_RESP_CLIENT_H

#include "cli/cli.h"
#include "cli/reply_reader.h"

#define CLI_NO_TIMEOUT 0u

struct cli_client {
    const struct os *os;
    int socket;          /* -1: not connected */
    struct cli_tls *tls; /* NULL: without TLS */
    struct cli_reader reader;
    char error[320]; /* the reason of a failure */
    bool login;      /* the failure is a missing or refused log-in */
    bool ownerless;  /* the failure: no node owns the log */
    bool follows;    /* the server follows the owner of the log */
};

/* The outcome of a call. Only after LOST, it is unknown whether the server executed the request. */
enum cli_link {
    CLI_LINK_OK,
    CLI_LINK_UNREACHABLE, /* nothing was sent */
    CLI_LINK_LOST,        /* the request may have been sent */
};

/* Connects to the Unix-domain socket or any address of the host, each of which gets a part of the time, or
 * among several nodes to the one that owns the log (owner.c), and selects RESP3; logs in as
 * TENURE_USER with TENURE_SECRET or the first line of TENURE_SECRET_FILE, if set. The timeout of
 * the settings applies to all of this. */
enum cli_link cli_client_open(struct cli_client *client, const struct cli_settings *settings);
/* The same, to one address, with this timeout; with no_login of the settings, it does not log in. */
enum cli_link cli_client_open_at(struct cli_client *client, const struct cli_settings *settings,
                                 const char *host, const char *port, uint64_t timeout_ms);
/* owner.c: connects to the node that owns the log, or with any_node to one that answers. */
enum cli_link cli_owner_open(struct cli_client *client, const struct cli_settings *settings);
void cli_client_close(struct cli_client *client);
/* The exit code of a client that could not connect or log in. */
int cli_client_exit(const struct cli_client *client);
/* Prints the reason to standard error; returns the exit code. */
int cli_client_unreachable(const struct cli_client *client);
/* Sleeps before a retry. */
void cli_wait_ms(uint64_t ms);

/* One request and its reply, which is in client->reader when it returns OK. Pushes that come in
 * between are dropped. */
enum cli_link cli_client_call(struct cli_client *client, const struct tn_bytes *words,
                              uint32_t count, uint64_t timeout_ms);
/* The two halves of a call. Receive also accepts pushes; with `ret_timeout`, it may return OK with
 * *ret_timeout set and without a reply. */
enum cli_link cli_client_send(struct cli_client *client, const struct tn_bytes *words,
                              uint32_t count, uint64_t timeout_ms);
enum cli_link cli_client_receive(struct cli_client *client, uint64_t timeout_ms, bool *ret_timeout);

/* Both at once, for pipelines: waits for the next reply and meanwhile sends the rest of `out`, so
 * that neither side blocks the other. Stops at the reply; *inout_sent is the number of bytes sent.
 * `timeout_ms` limits the time without progress in either direction. */
enum cli_link cli_client_exchange(struct cli_client *client, struct tn_bytes out,
                                  uint32_t *inout_sent, uint64_t timeout_ms);

#endif
