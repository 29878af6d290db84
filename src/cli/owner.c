/* Which of several nodes to ask: the one that owns the log. A node that follows names it; if none is known,
 * the next address is tried, and all of them again after a moment, for a bounded time. A fail-over takes
 * about three seconds, and a node whose machine is gone does not answer at all. */
#include <stdio.h>
#include <string.h>

#include "cli/display.h"
#include "cli/resp_client.h"

#define OWNER_MS 15000u /* for the search, unless the timeout of the settings is shorter */
#define NODE_MS 2000u   /* for one node to answer */
#define PAUSE_MS 200u

#define NODE_MS_MIN 250u

static uint64_t shorter(uint64_t timeout_ms, uint64_t most_ms) {
    return timeout_ms != CLI_NO_TIMEOUT && timeout_ms < most_ms ? timeout_ms : most_ms;
}

/* For one node to answer: its part of the time for all of them. A short time is that of `tenure run`, which has to
 * renew a lease although the first node does not answer. */
static uint64_t node_ms(const struct cli_settings *settings) {
    uint64_t part_ms = settings->timeout_ms / (settings->node_count > 0 ? settings->node_count : 1);
    return shorter(part_ms > NODE_MS_MIN ? part_ms : NODE_MS_MIN, NODE_MS);
}

/* What went wrong with the last nodes, for people. */
struct search {
    struct cli_text why;
    bool answered; /* a node did, and follows */
};

static void search_note(struct search *search, const struct cli_address *node, const char *what) {
    cli_text_put(&search->why, search->why.len > 0 ? "; " : "");
    cli_text_printf(&search->why, "%s:%s: %s", node->host, node->port, what);
}

/* The owner that a follower names: ROLE is [slave, host, port, state, lsn]. */
static bool owner_named(struct cli_client *client, uint64_t timeout_ms, struct cli_address *ret) {
    static const struct tn_bytes word = {.at = (const uint8_t *)"ROLE", .len = 4};
    const struct cli_reader *reader = &client->reader;
    uint64_t port = 0;
    if (cli_client_call(client, &word, 1, timeout_ms) != CLI_LINK_OK ||
        reader->nodes[0].type != CLI_ARRAY || reader->nodes[0].count != 5 ||
        !cli_node_is(reader, 4, "connected") || !cli_node_number(reader, 3, &port) || port == 0 ||
        port > 65535) {
        return false;
    }
    struct tn_bytes host = cli_node_text(reader, 2);
    if (host.len == 0 || host.len >= sizeof ret->host) {
        return false;
    }
    memcpy(ret->host, host.at, host.len);
    ret->host[host.len] = '\0';
    (void)snprintf(ret->port, sizeof ret->port, "%u", (unsigned)port);
    return true;
}

/* True: the client is connected to the owner, or there is no use in going on. */
static bool try_node(struct cli_client *client, const struct cli_settings *settings,
                     const struct cli_address *node, struct search *search, enum cli_link *link) {
    uint64_t timeout_ms = shorter(settings->timeout_ms, node_ms(settings));
    struct cli_address owner;
    *link = cli_client_open_at(client, settings, node->host, node->port, timeout_ms);
    if (*link != CLI_LINK_OK) {
        search_note(search, node, client->error);
        return client->login;
    }
    search->answered = true;
    if (!client->follows || settings->any_node) {
        return true;
    }
    bool named = owner_named(client, timeout_ms, &owner);
    cli_client_close(client);
    if (!named) {
        search_note(search, node, "follows, and knows of no owner");
        return false;
    }
    *link = cli_client_open_at(client, settings, owner.host, owner.port, timeout_ms);
    if (*link == CLI_LINK_OK && !client->follows) {
        return true;
    }
    search_note(search, &owner, *link == CLI_LINK_OK ? "follows" : client->error);
    if (*link == CLI_LINK_OK) {
        cli_client_close(client);
    }
    return client->login;
}

static bool try_all(struct cli_client *client, const struct cli_settings *settings,
                    struct search *search, enum cli_link *link) {
    cli_text_free(&search->why);
    search->why = (struct cli_text){.at = NULL};
    search->answered = false;
    for (uint32_t i = 0; i < settings->node_count; i++) {
        if (try_node(client, settings, &settings->nodes[i], search, link)) {
            return true;
        }
    }
    return false;
}

enum cli_link cli_owner_open(struct cli_client *client, const struct cli_settings *settings) {
    const struct os *os = settings->os;
    uint64_t until = os->clock_boot_ms(os->ctx) + shorter(settings->timeout_ms, OWNER_MS);
    struct search search = {.answered = false};
    enum cli_link link = CLI_LINK_UNREACHABLE;
    bool done = try_all(client, settings, &search, &link);
    while (!done && os->clock_boot_ms(os->ctx) < until) {
        cli_wait_ms(PAUSE_MS);
        done = try_all(client, settings, &search, &link);
    }
    if (!done) {
        *client = (struct cli_client){.os = os, .socket = -1, .ownerless = search.answered};
        (void)snprintf(client->error, sizeof client->error, "%s (%.250s)",
                       search.answered ? "no node owns the log" : "no node answers",
                       search.why.failed || search.why.at == NULL ? "" : search.why.at);
        link = CLI_LINK_UNREACHABLE;
    }
    cli_text_free(&search.why);
    return link;
}
