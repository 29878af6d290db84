/* `tenure events`: prints retained events page by page; with --follow, new events as they happen.
 *
 * Following uses the server's pushes and resumes after the last event shown when the connection is
 * lost: no event is shown twice or skipped, and if the server no longer retains some events, it
 * says so. */
#include <inttypes.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/event_row.h"
#include "cli/reply_reader.h"
#include "cli/resp_client.h"
#include "cli/show_json.h"
#include "cli/spell.h"
#include "kernel/result.h"

#define PAGE 1000u
#define BACKOFF_MS 100u
#define BACKOFF_MAX_MS 5000u

struct events {
    const struct cli_settings *settings;
    const char *pool, *holder, *fence; /* NULL: not given */
    bool follow;
    bool placed; /* `after` means something */
    struct cli_event_id after;
    uint64_t most; /* the maximum number to show; UINT64_MAX: all */
    uint64_t shown;
    uint64_t last; /* show only this many of the newest events; 0: from `after` on */
    uint64_t skip; /* how many of the next events are not shown */
    struct cli_table table;
    struct cli_client client;
};

/* ---- Options ---- */

enum option { AFTER, COUNT, POOL, HOLDER, FENCE, LAST, OPTIONS };

static const char *const names[OPTIONS] = {
    [AFTER] = "--after",   [COUNT] = "--count", [POOL] = "--pool",
    [HOLDER] = "--holder", [FENCE] = "--fence", [LAST] = "--last",
};

static bool option_set(struct events *events, enum option option, const char *value) {
    struct tn_bytes text = tn_bytes_of(value, strlen(value));
    uint64_t number;
    switch (option) {
    case AFTER:
        events->placed = true;
        if (cli_number_parse(text, &number)) { /* a position in the log: after all its events */
            events->after = (struct cli_event_id){.lsn = number, .index = UINT32_MAX};
            return true;
        }
        return cli_event_id_parse(text, &events->after);
    case COUNT:
        return cli_number_parse(text, &events->most) && events->most > 0;
    case POOL:
        events->pool = value;
        return true;
    case HOLDER:
        events->holder = value;
        return true;
    case FENCE:
        events->fence = value;
        return cli_number_parse(text, &number);
    default:
        return cli_number_parse(text, &events->last) && events->last > 0;
    }
}

static bool wrong(const char *what, const char *which) {
    (void)fprintf(stderr,
                  "tenure events: %s%s\nusage: tenure events [--after ID | --last N] [--count N] "
                  "[--follow] [--pool POOL] [--holder HOLDER] [--fence LSN]\n",
                  what, which);
    return false;
}

static bool options_parse(struct events *events, int argc, char **argv) {
    for (int at = 0; at < argc;) {
        const char *argument = argv[at++];
        size_t len = strcspn(argument, "=");
        const char *value = argument[len] == '=' ? argument + len + 1 : NULL;
        unsigned option = 0;
        if (strcmp(argument, "--follow") == 0) {
            events->follow = true;
            continue;
        }
        while (option < OPTIONS && !cli_option_is(argument, len, names[option] + 2)) {
            option++;
        }
        if (option == OPTIONS) {
            struct cli_guess guess = cli_guess_for(argument);
            for (option = 0; option < OPTIONS; option++) {
                cli_guess_try(&guess, names[option]);
            }
            cli_guess_try(&guess, "--follow");
            return wrong(cli_guess_found(&guess) ? "did you mean " : "unknown option ",
                         cli_guess_found(&guess) ? guess.best : argument);
        }
        value = value == NULL && at < argc ? argv[at++] : value;
        if (value == NULL) {
            return wrong("a value is missing after ", names[option]);
        }
        if (!option_set(events, (enum option)option, value)) {
            return wrong("invalid argument: ", value);
        }
    }
    return events->last == 0 || !events->placed || wrong("use either --after or --last", "");
}

/* ---- Showing ---- */

/* Shows an event given as JSON. The flush prints the rows. False: it is unreadable. */
static bool event_show(struct events *events, struct tn_bytes text) {
    struct cli_event event;
    if (!cli_event_parse(text, &event)) {
        (void)fprintf(stderr, "tenure: cannot read an event\n");
        return false;
    }
    bool seen = events->placed && !event.lost && cli_event_id_compare(event.id, events->after) <= 0;
    bool theirs =
        event.lost || events->holder == NULL || cli_event_concerns(&event, events->holder);
    if (!seen && theirs && events->skip > 0) {
        events->skip -= !event.lost;
    } else if (!seen && theirs) {
        if (events->settings->json) {
            struct cli_text line = {.at = NULL};
            cli_text_json_text(&line, text);
            (void)printf("%s\n", line.failed ? "" : line.at);
            cli_text_free(&line);
        } else if (!event.lost) {
            const struct os *os = events->settings->os;
            cli_event_row(&events->table, &event, os->clock_wall_ms(os->ctx));
        }
        if (event.lost) {
            (void)fprintf(stderr,
                          "tenure: some events before the next one are no longer retained\n");
        }
        events->shown += !event.lost;
    }
    if (!seen && !event.lost) {
        events->after = event.id;
        events->placed = true;
    }
    cli_event_free(&event);
    return true;
}

static bool flush(struct events *events) {
    bool good = events->table.cell_count == 0 || cli_table_flush(&events->table, stdout);
    return fflush(stdout) == 0 && good;
}

static int say_refusal(const struct events *events) {
    struct tn_bytes text = cli_node_text(&events->client.reader, 0);
    struct cli_refusal refusal = cli_refusal_of(text);
    struct cli_text line = {.at = NULL};
    if (events->settings->json) {
        cli_json_refusal(&line, &refusal);
        (void)printf("%s\n", line.failed ? "" : line.at);
    } else {
        cli_text_clean(&line, text);
        (void)fprintf(stderr, "tenure: %s\n", line.failed ? "" : line.at);
    }
    cli_text_free(&line);
    return refusal.known ? tn_result_exit(refusal.code) : CLI_FAILED;
}

/* ---- Pages ---- */

static void put_option(struct cli_words *words, const char *token, const char *value) {
    if (value != NULL) {
        cli_words_put(words, token);
        cli_words_put(words, value);
    }
}

static enum cli_link page_read(struct events *events, uint64_t count) {
    char id[CLI_EVENT_ID_TEXT];
    char digits[CLI_EVENT_ID_TEXT];
    struct cli_words words = {.at = NULL};
    cli_event_id_format(events->after, id);
    (void)snprintf(digits, sizeof digits, "%" PRIu64, count);
    cli_words_put(&words, "EVENTS");
    put_option(&words, "AFTER", events->placed ? id : NULL);
    put_option(&words, "COUNT", digits);
    put_option(&words, "POOL", events->pool);
    put_option(&words, "HOLDER", events->holder);
    put_option(&words, "FENCE", events->fence);
    enum cli_link link =
        cli_client_call(&events->client, words.at, words.count, events->settings->timeout_ms);
    cli_words_free(&words);
    return link;
}

static bool id_field(const struct events *events, const char *name, struct cli_event_id *ret_id) {
    const struct cli_reader *reader = &events->client.reader;
    uint32_t node = cli_node_find(reader, 0, name);
    return node != 0 && cli_event_id_parse(cli_node_text(reader, node), ret_id);
}

static bool page_show(struct events *events) {
    const struct cli_reader *reader = &events->client.reader;
    uint32_t array = cli_node_find(reader, 0, "events");
    uint32_t lost = cli_node_find(reader, 0, "lost");
    struct cli_text text = {.at = NULL};
    bool good = true;
    if (lost != 0 && cli_node_is(reader, lost, "t")) {
        (void)fprintf(stderr, "tenure: some events before the next one are no longer retained\n");
    }
    for (uint32_t at = array + 1; good && array != 0 && at < reader->nodes[array].end;
         at = reader->nodes[at].end) {
        text.len = 0;
        cli_json_node(&text, reader, at);
        good = !text.failed && event_show(events, tn_bytes_of(text.at, text.len));
    }
    cli_text_free(&text);
    return flush(events) && good;
}

/* ---- The last ones ---- */

/* Counts the events from `after` to `newest`, up to `last`. -1: *ret_count is valid; otherwise the
 * exit code. */
static int count_after(struct events *events, struct cli_event_id newest, uint64_t *ret_count) {
    struct cli_event_id first = events->after;
    struct cli_event_id next = first;
    *ret_count = 0;
    do {
        if (page_read(events, PAGE) != CLI_LINK_OK) {
            return cli_client_unreachable(&events->client);
        }
        if (events->client.reader.nodes[0].type == CLI_ERROR) {
            return say_refusal(events);
        }
        uint32_t array = cli_node_find(&events->client.reader, 0, "events");
        *ret_count += array != 0 ? events->client.reader.nodes[array].count : 0;
        if (!id_field(events, "next", &next) || cli_event_id_compare(next, events->after) <= 0) {
            break;
        }
        events->after = next;
    } while (cli_event_id_compare(next, newest) < 0);
    events->after = first;
    return -1;
}

/* The server reads only forward, so this goes back in growing steps until there are enough events,
 * and skips the surplus. */
static int place_last(struct events *events) {
    struct cli_event_id newest = {0, 0};
    struct cli_event_id oldest = {0, 0};
    uint64_t count = 0;
    if (page_read(events, 1) != CLI_LINK_OK) {
        return cli_client_unreachable(&events->client);
    }
    if (events->client.reader.nodes[0].type == CLI_ERROR) {
        return say_refusal(events);
    }
    if (!id_field(events, "newest", &newest) || !id_field(events, "oldest", &oldest)) {
        return CLI_OK;
    }
    for (uint64_t back = events->last;; back *= 4) {
        bool all = newest.lsn - oldest.lsn < back;
        events->placed = true;
        events->after = (struct cli_event_id){.lsn = all ? 0 : newest.lsn - back};
        int code = count_after(events, newest, &count);
        if (code >= 0) {
            return code;
        }
        if (all || count >= events->last) {
            events->skip = count > events->last ? count - events->last : 0;
            return CLI_OK;
        }
    }
}

/* Shows all events up to the newest at the beginning, or as many as requested. */
static int pages_all(struct events *events) {
    struct cli_event_id newest = {0, 0};
    struct cli_event_id next = {0, 0};
    bool first = true;
    do {
        uint64_t left = events->most - events->shown;
        if (page_read(events, left < PAGE && events->skip == 0 ? left : PAGE) != CLI_LINK_OK) {
            return cli_client_unreachable(&events->client);
        }
        if (events->client.reader.nodes[0].type == CLI_ERROR) {
            return say_refusal(events);
        }
        if (first && !id_field(events, "newest", &newest)) {
            return CLI_OK; /* there has never been an event */
        }
        first = false;
        if (!page_show(events)) {
            return CLI_FAILED;
        }
        if (!id_field(events, "next", &next)) {
            return CLI_OK;
        }
        events->after = next;
        events->placed = true;
    } while (cli_event_id_compare(next, newest) < 0 && events->shown < events->most);
    if (cli_event_id_compare(next, newest) < 0) {
        char id[CLI_EVENT_ID_TEXT];
        cli_event_id_format(next, id);
        (void)fprintf(stderr, "tenure: there is more; --after %s continues, --limit 0 shows all\n",
                      id);
    }
    return CLI_OK;
}

/* ---- Following ---- */

/* Finds the current end, so that no event between now and the subscription is missed. */
static int place(struct events *events) {
    if (page_read(events, 1) != CLI_LINK_OK) {
        return cli_client_unreachable(&events->client);
    }
    if (events->client.reader.nodes[0].type == CLI_ERROR) {
        return say_refusal(events);
    }
    (void)id_field(events, "newest", &events->after);
    events->placed = true;
    return CLI_OK;
}

static enum cli_link subscribe(struct events *events) {
    struct cli_text channel = {.at = NULL};
    char id[CLI_EVENT_ID_TEXT];
    cli_event_id_format(events->after, id);
    if (events->pool != NULL) {
        cli_text_printf(&channel, "pool:%s?after=%s", events->pool, id);
    } else if (events->holder != NULL) {
        cli_text_printf(&channel, "holder:%s?after=%s", events->holder, id);
    } else {
        cli_text_printf(&channel, "events?after=%s", id);
    }
    const struct tn_bytes words[] = {tn_bytes_of("SUBSCRIBE", 9),
                                     tn_bytes_of(channel.at, channel.len)};
    enum cli_link link = cli_client_send(&events->client, words, 2, events->settings->timeout_ms);
    cli_text_free(&channel);
    return link;
}

/* Handles a push: message, channel, payload. -1: continue; otherwise the exit code. */
static int push_take(struct events *events) {
    const struct cli_reader *reader = &events->client.reader;
    if (reader->nodes[0].type == CLI_ERROR) {
        return say_refusal(events);
    }
    if (reader->nodes[0].type != CLI_PUSH || reader->nodes[0].count != 3 ||
        !cli_node_is(reader, 1, "message")) {
        return -1; /* a confirmation of the subscription, or the answer to PING */
    }
    if (!event_show(events, cli_node_text(reader, 3)) || !flush(events)) {
        return CLI_FAILED;
    }
    return events->shown >= events->most ? CLI_OK : -1;
}

/* Shows what comes until the connection is lost (-1), or it is over. Silence is broken by a PING:
 * a peer that is gone without a word answers none. */
static int listen_on(struct events *events, bool *ret_heard) {
    const struct tn_bytes ping = tn_bytes_of("PING", 4);
    bool asked = false;
    for (;;) {
        bool timeout = false;
        if (cli_client_receive(&events->client, events->settings->timeout_ms, &timeout) !=
            CLI_LINK_OK) {
            return -1;
        }
        if (timeout) {
            if (asked || cli_client_send(&events->client, &ping, 1, events->settings->timeout_ms) !=
                             CLI_LINK_OK) {
                (void)snprintf(events->client.error, sizeof events->client.error,
                               "the server does not answer");
                return -1;
            }
            asked = true;
            continue;
        }
        asked = false;
        *ret_heard = true;
        int code = push_take(events);
        if (code >= 0) {
            return code;
        }
    }
}

/* After the first connection this continues forever, because a restarted server comes back. */
static int follow(struct events *events) {
    uint64_t backoff_ms = BACKOFF_MS;
    bool told = false;
    int code = events->placed ? CLI_OK : place(events);
    while (code == CLI_OK) {
        bool heard = false;
        int end = -1;
        if (events->client.socket >= 0 && subscribe(events) == CLI_LINK_OK) {
            end = listen_on(events, &heard);
        }
        if (end >= 0) {
            return end;
        }
        if (heard || !told) {
            (void)fprintf(stderr, "tenure: %s; retrying\n", events->client.error);
            backoff_ms = BACKOFF_MS;
            told = true;
        }
        cli_client_close(&events->client);
        cli_wait_ms(backoff_ms);
        backoff_ms = 2 * backoff_ms < BACKOFF_MAX_MS ? 2 * backoff_ms : BACKOFF_MAX_MS;
        (void)cli_client_open(&events->client, events->settings);
    }
    return code;
}

int cli_events(const struct cli_settings *settings, int argc, char **argv) {
    struct events events = {.settings = settings, .most = UINT64_MAX, .client = {.socket = -1}};
    if (!options_parse(&events, argc, argv)) {
        return CLI_USAGE;
    }
    if (!events.follow && events.most == UINT64_MAX && settings->limit > 0) {
        events.most = events.last > 0 ? events.last : settings->limit;
    }
    events.table.screen = cli_screen_of(stdout);
    cli_event_columns(&events.table);
    int code = CLI_OK;
    if (cli_client_open(&events.client, settings) != CLI_LINK_OK) {
        code = cli_client_unreachable(&events.client);
    } else if (events.last > 0) {
        code = place_last(&events);
    }
    if (code == CLI_OK) {
        code = events.follow ? follow(&events) : pages_all(&events);
    }
    cli_client_close(&events.client);
    cli_table_free(&events.table);
    return code;
}
