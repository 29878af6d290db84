/* The requests of `tenure top`: INFO, the pools, the events since the last sample. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/show_json.h"
#include "cli/top.h"

#define PAGE "1000"

static enum cli_link ask(struct top *top, const char *const *words, uint32_t count,
                         uint64_t timeout_ms) {
    struct tn_bytes request[8];
    for (uint32_t i = 0; i < count; i++) {
        request[i] = tn_bytes_of(words[i], strlen(words[i]));
    }
    return cli_client_call(&top->client, request, count, timeout_ms);
}

/* What is shown comes from outside. */
static void take_text(char *out, size_t capacity, struct tn_bytes bytes) {
    struct cli_text text = {.at = NULL};
    cli_text_clean(&text, bytes);
    (void)snprintf(out, capacity, "%s", text.failed ? "" : text.at);
    cli_text_free(&text);
}

/* ---- INFO ---- */

static const char *const figure_names[TOP_FIGURES] = {
    [TOP_LSN] = "lsn",
    [TOP_BATCHES] = "batches",
    [TOP_COMMANDS] = "commands",
    [TOP_SYNC_US] = "sync_us_last",
    [TOP_CLIENTS] = "connected_clients",
    [TOP_LEASES] = "leases",
    [TOP_POOLS] = "pools",
    [TOP_REFUSED] = "total_error_replies",
    [TOP_QUEUE] = "queue_commands",
    [TOP_LOG_BYTES] = "log_bytes",
};

/* The value of `name:value` on a line of its own. */
static struct tn_bytes info_field(struct tn_bytes info, const char *name) {
    size_t len = strlen(name);
    for (uint32_t at = 0; at + len < info.len;) {
        const uint8_t *end = memchr(info.at + at, '\n', info.len - at);
        uint32_t line = end != NULL ? (uint32_t)(end - (info.at + at)) : info.len - at;
        if (line > len && memcmp(info.at + at, name, len) == 0 && info.at[at + len] == ':') {
            uint32_t from = at + (uint32_t)len + 1;
            uint32_t to = at + line;
            to -= to > from && info.at[to - 1] == '\r';
            return tn_bytes_of(info.at + from, to - from);
        }
        at += line + 1;
    }
    return tn_bytes_of(NULL, 0);
}

static enum cli_link look_info(struct top *top, uint64_t timeout_ms) {
    static const char *const words[] = {"INFO"};
    enum cli_link link = ask(top, words, 1, timeout_ms);
    if (link == CLI_LINK_OK) {
        struct tn_bytes info = cli_node_text(&top->client.reader, 0);
        take_text(top->version, sizeof top->version, info_field(info, "tenure_version"));
        for (unsigned i = 0; i < TOP_FIGURES; i++) {
            top->now->figures[i] = 0;
            (void)cli_number_parse(info_field(info, figure_names[i]), &top->now->figures[i]);
        }
    }
    return link;
}

/* ---- Pools ---- */

static uint64_t number(const struct cli_reader *reader, uint32_t map, const char *key) {
    uint64_t value = 0;
    (void)cli_node_number(reader, cli_node_find(reader, map, key), &value);
    return value;
}

static void take_pool(struct top_sample *sample, const struct cli_reader *reader, uint32_t map) {
    struct top_pool *pool = &sample->pools[sample->pool_count++];
    take_text(pool->name, sizeof pool->name,
              cli_node_text(reader, cli_node_find(reader, map, "pool")));
    pool->size = number(reader, map, "size");
    pool->left = number(reader, map, "free");
    pool->reserved = number(reader, map, "reserved");
    pool->active = number(reader, map, "active");
    pool->offline = number(reader, map, "offline");
    pool->revoking = number(reader, map, "revoking");
    pool->cooling = number(reader, map, "cooling");
    pool->allocated =
        number(reader, map, "allocated_total") + number(reader, map, "returned_total");
    pool->freed = number(reader, map, "released_total") + number(reader, map, "expired_total") +
                  number(reader, map, "revoked_total");
    sample->allocated += pool->allocated;
    sample->freed += pool->freed;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct top_pool *)a)->name, ((const struct top_pool *)b)->name);
}

/* Both samples are in the order of names here. */
static void set_rates(struct top *top) {
    const struct top_sample *before = top->before;
    uint64_t ms = top->now->at_ms - before->at_ms;
    for (uint32_t i = 0; i < top->now->pool_count; i++) {
        struct top_pool *pool = &top->now->pools[i];
        const struct top_pool *old =
            before->at_ms > 0 && ms > 0
                ? bsearch(pool, before->pools, before->pool_count, sizeof before->pools[0], by_name)
                : NULL;
        pool->rate = old != NULL && pool->allocated >= old->allocated
                         ? 1000.0 * (double)(pool->allocated - old->allocated) / (double)ms
                         : 0.0;
    }
}

static enum cli_link look_pools(struct top *top, uint64_t timeout_ms) {
    static const char *const words[] = {"POOL", "LIST", "COUNT", PAGE};
    struct top_sample *sample = top->now;
    const struct cli_reader *reader = &top->client.reader;
    enum cli_link link = ask(top, words, 4, timeout_ms);
    sample->pool_count = 0;
    sample->allocated = sample->freed = 0;
    if (link == CLI_LINK_OK) {
        uint32_t list = cli_node_find(reader, 0, "pools");
        for (uint32_t at = list + 1;
             list != 0 && at < reader->nodes[list].end && sample->pool_count < TOP_POOLS_MAX;
             at = reader->nodes[at].end) {
            take_pool(sample, reader, at);
        }
        qsort(sample->pools, sample->pool_count, sizeof sample->pools[0], by_name);
        set_rates(top);
    }
    return link;
}

/* ---- Events ---- */

static void take_event(struct top *top, uint32_t node) {
    struct cli_text text = {.at = NULL};
    struct cli_event event;
    cli_json_node(&text, &top->client.reader, node);
    if (!text.failed && cli_event_parse(tn_bytes_of(text.at, text.len), &event)) {
        if (top->event_count == TOP_EVENTS) {
            cli_event_free(&top->events[top->event_next]);
        } else {
            top->event_count++;
        }
        top->events[top->event_next] = event;
        top->event_next = (top->event_next + 1) % TOP_EVENTS;
    }
    cli_text_free(&text);
}

/* The first look goes back a few positions from the newest; the next ones go on from there. */
static enum cli_link look_events(struct top *top, uint64_t timeout_ms) {
    const struct cli_reader *reader = &top->client.reader;
    char id[CLI_EVENT_ID_TEXT];
    const char *const words[] = {"EVENTS", "COUNT", "100", "AFTER", id};
    if (!top->placed) {
        uint64_t lsn = top->now->figures[TOP_LSN];
        top->after = (struct cli_event_id){.lsn = lsn > TOP_EVENTS ? lsn - TOP_EVENTS : 0};
        top->placed = true;
    }
    cli_event_id_format(top->after, id);
    enum cli_link link = ask(top, words, top->after.lsn > 0 ? 5 : 3, timeout_ms);
    top->has_events = link == CLI_LINK_OK && reader->nodes[0].type != CLI_ERROR;
    if (top->has_events) {
        uint32_t list = cli_node_find(reader, 0, "events");
        uint32_t next = cli_node_find(reader, 0, "next");
        for (uint32_t at = list + 1; list != 0 && at < reader->nodes[list].end;
             at = reader->nodes[at].end) {
            take_event(top, at);
        }
        if (next != 0) {
            (void)cli_event_id_parse(cli_node_text(reader, next), &top->after);
        }
    }
    return link;
}

void cli_top_forget(struct top *top) {
    for (uint32_t i = 0; i < top->event_count; i++) {
        cli_event_free(&top->events[i]);
    }
    top->event_count = top->event_next = 0;
    top->placed = false;
    top->now->at_ms = top->before->at_ms = 0;
}

enum cli_link cli_top_look(struct top *top, uint64_t timeout_ms) {
    const struct os *os = top->client.os;
    struct top_sample *old = top->before;
    top->before = top->now;
    top->now = old;
    top->now->at_ms = os->clock_boot_ms(os->ctx);
    qsort(top->before->pools, top->before->pool_count, sizeof top->before->pools[0], by_name);
    enum cli_link link = look_info(top, timeout_ms);
    if (link == CLI_LINK_OK) {
        link = look_pools(top, timeout_ms);
    }
    if (link == CLI_LINK_OK) {
        link = look_events(top, timeout_ms);
    }
    return link;
}
