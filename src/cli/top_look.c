/* The requests of `tenure top`: INFO, the pools, the sensors, the events since the last sample, and what the view
 * of one pool shows. */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "cli/show.h"
#include "cli/show_json.h"
#include "cli/top.h"

#define PAGE "1000"
#define GROWTH_SECONDS 180.0 /* as the server's tenure_pool_exhaustion_seconds */
#define GROWTH_KNOWN 0.1     /* weight: 20 seconds; a shorter look would raise false alarms */

static enum cli_link ask(struct top *top, const char *const *words, uint32_t count,
                         uint64_t timeout_ms) {
    struct tn_bytes request[12];
    TN_ASSERT(count <= sizeof request / sizeof request[0]);
    for (uint32_t i = 0; i < count; i++) {
        request[i] = tn_bytes_of(words[i], strlen(words[i]));
    }
    return cli_client_call(&top->client, request, count, timeout_ms);
}

static bool is_refused(const struct top *top) {
    return top->client.reader.nodes[0].type == CLI_ERROR;
}

/* What is shown comes from outside. */
static void take_text(char *out, size_t capacity, struct tn_bytes bytes) {
    struct cli_text text = {.at = NULL};
    cli_text_clean(&text, bytes);
    size_t len = text.failed ? 0 : text.len;
    if (len >= capacity) { /* a character is taken whole, or not */
        len = capacity - 1;
        while (len > 0 && ((unsigned char)text.at[len] & 0xc0) == 0x80) {
            len--;
        }
    }
    memcpy(out, text.at != NULL ? text.at : "", len);
    out[len] = '\0';
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
    top->problem[0] = '\0';
    if (link == CLI_LINK_OK && is_refused(top)) {
        take_text(top->problem, sizeof top->problem, cli_node_text(&top->client.reader, 0));
    } else if (link == CLI_LINK_OK) {
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

static void take_pool(struct top_pool *pool, const struct cli_reader *reader, uint32_t map) {
    uint32_t options = cli_node_find(reader, map, "options");
    *pool = (struct top_pool){.size = number(reader, map, "size"),
                              .left = number(reader, map, "free"),
                              .reserved = number(reader, map, "reserved"),
                              .active = number(reader, map, "active"),
                              .offline = number(reader, map, "offline"),
                              .revoking = number(reader, map, "revoking"),
                              .cooling = number(reader, map, "cooling"),
                              .excluded = number(reader, map, "excluded"),
                              .waiting = number(reader, map, "waiting")};
    take_text(pool->name, sizeof pool->name,
              cli_node_text(reader, cli_node_find(reader, map, "pool")));
    pool->allocated =
        number(reader, map, "allocated_total") + number(reader, map, "returned_total");
    pool->freed = number(reader, map, "released_total") + number(reader, map, "expired_total") +
                  number(reader, map, "revoked_total");
    uint32_t internal = options != 0 ? cli_node_find(reader, options, "internal") : 0;
    pool->internal = internal != 0 && cli_node_is(reader, internal, "yes");
}

double cli_top_used(const struct top_pool *pool) {
    return pool->size > 0 && !pool->internal
               ? (double)(pool->size - pool->left) / (double)pool->size
               : 0.0;
}

double cli_top_seconds_to_full(const struct top_pool *pool) {
    double growth = pool->weight > GROWTH_KNOWN ? pool->growth / pool->weight : 0;
    if (pool->size > 0 && pool->left == 0 && !pool->internal) {
        return 0;
    }
    return growth > 1e-9 && !pool->internal ? (double)pool->left / growth : 1e12;
}

/* How fast the pool changes, from the sample before. */
static void learn(struct top_pool *pool, const struct top_pool *old, uint64_t ms) {
    if (old == NULL || ms == 0 || pool->allocated < old->allocated) {
        return;
    }
    double dt = (double)ms / 1000.0;
    double share = dt / (dt + GROWTH_SECONDS);
    double grown = (double)(pool->size - pool->left) - (double)(old->size - old->left);
    pool->growth = old->growth + share * (grown / dt - old->growth);
    pool->weight = old->weight + share * (1.0 - old->weight);
    pool->rate = (double)(pool->allocated - old->allocated) / dt;
}

/* ---- Their order ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct top_pool *)a)->name, ((const struct top_pool *)b)->name);
}

/* The larger key first. */
static int by_key(double left, double right, const void *a, const void *b) {
    return left != right ? (left < right ? 1 : -1) : by_name(a, b);
}

/* A pool of the server's own comes last: it cannot be short of values. */
static double use_of(const struct top_pool *pool) {
    return pool->internal ? -1 : cli_top_used(pool);
}

static int by_use(const void *a, const void *b) {
    return by_key(use_of(a), use_of(b), a, b);
}

static int by_free(const void *a, const void *b) {
    return by_key(-(double)((const struct top_pool *)a)->left,
                  -(double)((const struct top_pool *)b)->left, a, b);
}

static int by_waiting(const void *a, const void *b) {
    return by_key((double)((const struct top_pool *)a)->waiting,
                  (double)((const struct top_pool *)b)->waiting, a, b);
}

static int by_rate(const void *a, const void *b) {
    return by_key(((const struct top_pool *)a)->rate, ((const struct top_pool *)b)->rate, a, b);
}

/* The server has no rates: with more pools than are read, that order is one of the fullest pools. */
static const struct {
    int (*compare)(const void *a, const void *b);
    const char *name, *word;
} sorts[TOP_SORTS] = {[TOP_BY_USE] = {by_use, "use", "occupancy"},
                      [TOP_BY_FREE] = {by_free, "free", "free"},
                      [TOP_BY_WAITING] = {by_waiting, "waiting", "waiting"},
                      [TOP_BY_RATE] = {by_rate, "rate", "occupancy"},
                      [TOP_BY_NAME] = {by_name, "name", "name"}};

const char *cli_top_sort_name(enum top_sort sort) {
    return sorts[sort].name;
}

void cli_top_arrange(struct top *top) {
    struct top_sample *now = top->now;
    qsort(now->pools, now->pool_count, sizeof now->pools[0], sorts[top->sort].compare);
    for (uint32_t i = 0; top->moved && i < now->pool_count; i++) {
        if (strcmp(now->pools[i].name, top->chosen) == 0) {
            top->at = i;
        }
    }
    if (top->at >= now->pool_count) {
        top->at = now->pool_count > 0 ? now->pool_count - 1 : 0;
    }
}

static void take_pools(struct top *top) {
    const struct cli_reader *reader = &top->client.reader;
    const struct top_sample *before = top->before;
    struct top_sample *sample = top->now;
    uint64_t ms = before->at_ms > 0 ? sample->at_ms - before->at_ms : 0;
    uint32_t list = cli_node_find(reader, 0, "pools");
    sample->matched = number(reader, 0, "matched");
    for (uint32_t at = list + 1;
         list != 0 && at < reader->nodes[list].end && sample->pool_count < TOP_POOLS_MAX;
         at = reader->nodes[at].end) {
        struct top_pool *pool = &sample->pools[sample->pool_count++];
        take_pool(pool, reader, at);
        /* The sample before is in the order of names here. */
        learn(pool,
              bsearch(pool, before->pools, before->pool_count, sizeof before->pools[0], by_name),
              ms);
        /* A template counts what its scopes count. */
        if (!top->scopes || strchr(pool->name, '@') == NULL) {
            sample->allocated += pool->allocated;
            sample->freed += pool->freed;
        }
    }
}

/* Scopes are left out, as their template has their sums. A user that may see scopes only gets them. */
static enum cli_link look_pools(struct top *top, uint64_t timeout_ms) {
    struct top_sample *sample = top->now;
    enum cli_link link;
    do {
        const char *const words[] = {
            "POOL",  "LIST", "SORT", sorts[top->sort].word, "SCOPES", top->scopes ? "yes" : "no",
            "COUNT", PAGE};
        sample->pool_count = 0;
        sample->allocated = sample->freed = 0;
        link = ask(top, words, 8, timeout_ms);
        if (link == CLI_LINK_OK && !is_refused(top)) {
            take_pools(top);
        }
    } while (link == CLI_LINK_OK && sample->pool_count == 0 && !top->scopes &&
             sample->figures[TOP_POOLS] > 0 && (top->scopes = true));
    return link;
}

/* ---- Sparklines ---- */

const struct top_spark *cli_top_spark(const struct top *top, const char *name) {
    for (uint32_t i = 0; i < TOP_SPARKS; i++) {
        if (top->sparks[i].asked_ms > 0 && strcmp(top->sparks[i].name, name) == 0) {
            return &top->sparks[i];
        }
    }
    return NULL;
}

/* Its own place, an empty one, or that of the pool that was asked about first. */
static struct top_spark *spark_place(struct top *top, const char *name) {
    const struct top_spark *own = cli_top_spark(top, name);
    struct top_spark *oldest = &top->sparks[0];
    for (uint32_t i = 1; i < TOP_SPARKS; i++) {
        if (top->sparks[i].asked_ms < oldest->asked_ms) {
            oldest = &top->sparks[i];
        }
    }
    return own != NULL ? &top->sparks[own - top->sparks] : oldest;
}

#define HOUR 60u /* samples */

/* An hour in TOP_SPARK columns, each the highest of its minutes; scaled to 1 to 8. */
static void spark_take(const struct cli_reader *reader, const char *key, double top_value,
                       uint8_t out[TOP_SPARK]) {
    uint32_t array = cli_node_find(reader, 0, key);
    uint32_t count = array != 0 ? reader->nodes[array].count : 0;
    count = count < HOUR ? count : HOUR;
    uint64_t highest[TOP_SPARK] = {0};
    uint64_t most = 1;
    bool there[TOP_SPARK] = {false};
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value = 0;
        uint32_t column = (HOUR - count + i) * TOP_SPARK / HOUR;
        (void)cli_node_number(reader, array + 1 + i, &value);
        highest[column] = value > highest[column] ? value : highest[column];
        most = value > most ? value : most;
        there[column] = true;
    }
    double scale = top_value > 0 ? top_value : (double)most;
    for (uint32_t i = 0; i < TOP_SPARK; i++) {
        double part = 7.0 * (double)highest[i] / scale;
        out[i] = there[i] ? (uint8_t)(1 + (part < 7 ? part : 7)) : 0;
    }
}

static enum cli_link look_spark(struct top *top, const struct top_pool *pool, uint64_t timeout_ms) {
    const char *const words[] = {"POOL", "HISTORY", pool->name, "COUNT", "60"};
    enum cli_link link = ask(top, words, 5, timeout_ms);
    if (link == CLI_LINK_OK) {
        struct top_spark *spark = spark_place(top, pool->name);
        *spark = (struct top_spark){.asked_ms = top->now->at_ms};
        memcpy(spark->name, pool->name, sizeof spark->name);
        if (!is_refused(top)) {
            spark_take(&top->client.reader, "peak", (double)pool->size, spark->used);
            spark_take(&top->client.reader, "given", 0, spark->given);
        }
    }
    return link;
}

#define SPARKS_A_LOOK 8u /* so that a screen full of pools does not flood the server */
#define SPARK_MS 60000u  /* the server takes a sample each minute */

static bool spark_is_fresh(const struct top *top, const char *name) {
    const struct top_spark *spark = cli_top_spark(top, name);
    return spark != NULL && top->now->at_ms < spark->asked_ms + SPARK_MS;
}

/* Of the pools that are on the screen. */
static enum cli_link look_sparks(struct top *top, uint64_t timeout_ms) {
    enum cli_link link = CLI_LINK_OK;
    uint32_t left = SPARKS_A_LOOK;
    uint32_t shown = top->shown > 0 ? top->shown : 20;
    if (top->view == TOP_VIEW_POOL) {
        return spark_is_fresh(top, top->pool.name) ? link : look_spark(top, &top->pool, timeout_ms);
    }
    for (uint32_t i = top->first;
         i < top->now->pool_count && i < top->first + shown && left > 0 && link == CLI_LINK_OK;
         i++) {
        const struct top_pool *pool = &top->now->pools[i];
        if (!spark_is_fresh(top, pool->name)) {
            link = look_spark(top, pool, timeout_ms);
            left--;
        }
    }
    return link;
}

/* ---- What lists show ---- */

/* The reply as lines of text for this width. */
static void body_take(struct top *top, size_t width, uint64_t now_ms) {
    const struct cli_reader *reader = &top->client.reader;
    char *text = NULL;
    size_t len = 0;
    top->body.len = 0;
    if (is_refused(top)) {
        cli_text_clean(&top->body, cli_node_text(reader, 0));
        cli_text_put(&top->body, "\n");
        return;
    }
    FILE *file = open_memstream(&text, &len);
    if (file == NULL) {
        return;
    }
    struct cli_view view = {.screen = {.width = width, .tty = width != SIZE_MAX}, .now_ms = now_ms};
    struct cli_list list = {.table.screen = view.screen, .now_ms = now_ms};
    uint32_t name;
    bool good = cli_list_find(reader, &name) != 0
                    ? cli_list_show(&list, reader, UINT64_MAX, file)
                    : cli_reply_show(&protocol_table[PROTOCOL_POOL_INFO], reader, &view, file);
    cli_table_free(&list.table);
    good = fclose(file) == 0 && good;
    if (good && len > 0) {
        cli_text_add(&top->body, text, len);
    }
    free(text);
}

/* ---- Sensors ---- */

static enum cli_link look_sensors(struct top *top, size_t width, uint64_t now_ms,
                                  uint64_t timeout_ms) {
    static const char *const words[] = {"SENSOR", "LIST", "COUNT", PAGE};
    const struct cli_reader *reader = &top->client.reader;
    struct top_sensors *sensors = &top->sensors;
    enum cli_link link = ask(top, words, 4, timeout_ms);
    *sensors = (struct top_sensors){.count = 0};
    if (link != CLI_LINK_OK || is_refused(top)) {
        return link;
    }
    uint32_t list = cli_node_find(reader, 0, "sensors");
    for (uint32_t at = list + 1; list != 0 && at < reader->nodes[list].end;
         at = reader->nodes[at].end) {
        uint32_t state = cli_node_find(reader, at, "state");
        bool bad = cli_node_is(reader, state, "error") || cli_node_is(reader, state, "backoff");
        sensors->count++;
        sensors->running += cli_node_is(reader, state, "running");
        if (bad && sensors->bad++ == 0) {
            uint32_t error = cli_node_find(reader, at, "last_error");
            uint32_t reason = cli_node_find(reader, at, "last_reason");
            bool said = error != 0 && reader->nodes[error].type == CLI_STRING;
            take_text(sensors->first_bad, sizeof sensors->first_bad,
                      cli_node_text(reader, cli_node_find(reader, at, "ref")));
            take_text(sensors->why, sizeof sensors->why,
                      cli_node_text(reader, said ? error : reason));
        }
    }
    if (top->view == TOP_VIEW_SENSORS) {
        body_take(top, width, now_ms);
    }
    return link;
}

/* ---- One pool ---- */

/* A pattern for the scopes of the pool. */
static void scopes_pattern(const char *pool, char *out) {
    for (; *pool != '\0'; pool++) {
        if (strchr("\\*?[]", *pool) != NULL) {
            *out++ = '\\';
        }
        *out++ = *pool;
    }
    memcpy(out, "@*", sizeof "@*");
}

static enum cli_link look_tab(struct top *top, size_t width, uint64_t now_ms, uint64_t timeout_ms) {
    char scopes[2 * sizeof top->pool.name + sizeof "@*"];
    scopes_pattern(top->pool.name, scopes);
    const char *const words[TOP_TABS][8] = {
        [TOP_TAB_LEASES] = {"LEASES", "POOL", top->pool.name, "COUNT", TOP_ROWS},
        [TOP_TAB_VALUES] = {"POOL", "VALUES", top->pool.name, "COUNT", TOP_ROWS},
        [TOP_TAB_LINE] = {"LEASES", "POOL", top->pool.name, "STATE", "waiting", "COUNT", TOP_ROWS},
        [TOP_TAB_SCOPES] = {"POOL", "LIST", "SORT", "occupancy", "MATCH", scopes, "COUNT",
                            TOP_ROWS},
        [TOP_TAB_POLICY] = {"POOL", "INFO", top->pool.name}};
    uint32_t count = 0;
    while (count < 8 && words[top->tab][count] != NULL) {
        count++;
    }
    enum cli_link link = ask(top, words[top->tab], count, timeout_ms);
    if (link == CLI_LINK_OK) {
        body_take(top, width, now_ms);
    }
    return link;
}

static enum cli_link look_pool(struct top *top, size_t width, uint64_t now_ms,
                               uint64_t timeout_ms) {
    const char *const words[] = {"POOL", "INFO", top->pool.name};
    struct top_pool old = top->pool;
    const struct top_sample *before = top->before;
    enum cli_link link = ask(top, words, 3, timeout_ms);
    if (link != CLI_LINK_OK) {
        return link;
    }
    top->pool_gone = is_refused(top);
    if (top->pool_gone) {
        body_take(top, width, now_ms);
        return link;
    }
    take_pool(&top->pool, &top->client.reader, 0);
    memcpy(top->pool.name, old.name, sizeof old.name);
    learn(&top->pool, &old, before->at_ms > 0 ? top->now->at_ms - before->at_ms : 0);
    return look_tab(top, width, now_ms, timeout_ms);
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

/* Asks for the events after the last one that was taken. */
static enum cli_link ask_events(struct top *top, uint64_t timeout_ms) {
    char id[CLI_EVENT_ID_TEXT];
    const char *const words[] = {"EVENTS", "COUNT", "100", "AFTER", id};
    cli_event_id_format(top->after, id);
    enum cli_link link = ask(top, words, top->after.lsn > 0 ? 5 : 3, timeout_ms);
    top->has_events = link == CLI_LINK_OK && !is_refused(top);
    return link;
}

static void place_before(struct top *top, uint64_t lsn) {
    top->after = (struct cli_event_id){.lsn = lsn > TOP_EVENTS ? lsn - TOP_EVENTS : 0};
}

/* There are more events than are shown: goes on from a few positions before the newest one. */
static bool is_behind(struct top *top) {
    const struct cli_reader *reader = &top->client.reader;
    uint32_t more = cli_node_find(reader, 0, "more");
    uint32_t newest = cli_node_find(reader, 0, "newest");
    struct cli_event_id id = {.lsn = 0};
    if (more == 0 || newest == 0 || !cli_node_is(reader, more, "t") ||
        !cli_event_id_parse(cli_node_text(reader, newest), &id) ||
        id.lsn <= top->after.lsn + TOP_EVENTS) {
        return false;
    }
    place_before(top, id.lsn);
    return true;
}

/* The first look goes back a few positions from the newest; the next ones go on from there. */
static enum cli_link look_events(struct top *top, uint64_t timeout_ms) {
    const struct cli_reader *reader = &top->client.reader;
    if (!top->placed) {
        place_before(top, top->now->figures[TOP_LSN]);
        top->placed = true;
    }
    enum cli_link link = ask_events(top, timeout_ms);
    if (top->has_events && is_behind(top)) {
        link = ask_events(top, timeout_ms);
    }
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
    memset(top->sparks, 0, sizeof top->sparks);
    cli_text_free(&top->body);
    top->body = (struct cli_text){.at = NULL};
}

enum cli_link cli_top_look(struct top *top, size_t width, uint64_t now_ms, uint64_t timeout_ms) {
    const struct os *os = top->client.os;
    struct top_sample *old = top->before;
    top->before = top->now;
    top->now = old;
    top->now->at_ms = os->clock_boot_ms(os->ctx);
    qsort(top->before->pools, top->before->pool_count, sizeof top->before->pools[0], by_name);
    enum cli_link link = look_info(top, timeout_ms);
    if (link == CLI_LINK_OK) {
        link = look_pools(top, timeout_ms);
        cli_top_arrange(top);
    }
    if (link == CLI_LINK_OK) {
        link = look_sensors(top, width, now_ms, timeout_ms);
    }
    if (link == CLI_LINK_OK && top->view == TOP_VIEW_POOL) {
        link = look_pool(top, width, now_ms, timeout_ms);
    }
    if (link == CLI_LINK_OK) {
        link = look_sparks(top, timeout_ms);
    }
    if (link == CLI_LINK_OK) {
        link = look_events(top, timeout_ms);
    }
    return link;
}
