/* A connection to the server: a socket with a deadline for each call, words out, replies in. */
#ifndef TN_CLI_RESP_CLIENT_H
#define TN_CLI_RESP_CLIENT_H

#include "cli/cli.h"
#include "cli/reply_reader.h"

#define CLI_NO_TIMEOUT 0u

struct cli_client {
    const struct os *os;
    int socket; /* -1: not connected */
    struct cli_reader reader;
    char error[320]; /* why it failed, in words */
    bool login;      /* because the server wants a log-in, or another one */
};

/* How a call went. Only LOST leaves it open whether the server did what it was asked. */
enum cli_link {
    CLI_LINK_OK,
    CLI_LINK_UNREACHABLE, /* nothing was sent */
    CLI_LINK_LOST,        /* something may have been */
};

/* Connects to the Unix-domain socket or any address of the host and agrees on RESP3; as TENURE_USER with TENURE_SECRET or the
 * line in TENURE_SECRET_FILE, if there is one. The settings' timeout is for all of it. */
enum cli_link cli_client_open(struct cli_client *client, const struct cli_settings *settings);
void cli_client_close(struct cli_client *client);
/* The exit code of a client that could not connect or log in. */
int cli_client_exit(const struct cli_client *client);
/* Tells standard error why it failed; the exit code. */
int cli_client_unreachable(const struct cli_client *client);
/* Before trying again. */
void cli_wait_ms(uint64_t ms);

/* One request and its reply, which is in client->reader when it returns OK. Pushes that come in
 * between are dropped. */
enum cli_link cli_client_call(struct cli_client *client, const struct tn_bytes *words,
                              uint32_t count, uint64_t timeout_ms);
/* The two halves of it. Receive takes anything, pushes too; with `ret_timeout` it may return OK with
 * *ret_timeout set, and nothing else has happened. */
enum cli_link cli_client_send(struct cli_client *client, const struct tn_bytes *words,
                              uint32_t count, uint64_t timeout_ms);
enum cli_link cli_client_receive(struct cli_client *client, uint64_t timeout_ms, bool *ret_timeout);

/* Both at once, for many requests on their way: waits for the next reply and meanwhile sends what is
 * left of `out`, so that neither side waits for the other to read. Stops at the reply; *inout_sent
 * says how far sending got. `timeout_ms` is for silence in both directions. */
enum cli_link cli_client_exchange(struct cli_client *client, struct tn_bytes out,
                                  uint32_t *inout_sent, uint64_t timeout_ms);

#endif
