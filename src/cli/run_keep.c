/* The thread that renews. */
#include "cli/run_keep.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/event_row.h"
#include "cli/reply_reader.h"
#include "cli/show_json.h"

#define PAUSE_MAX_MS 1000u

struct keep {
    struct cli_run_lease lease;
    struct cli_settings settings; /* with the time limit of one attempt */
    uint64_t renew_ms;            /* from one renewal to the next */
    struct cli_client client;
    bool connected, subscribed;
    bool wants_tokens;
    bool over;    /* it has ended for good */
    bool changed; /* an event says that the epoch is another */
    bool revoked; /* and it was said, with the server's deadline */
    uint64_t revoked_until;
    uint64_t renew_at_ms, pause_ms;
    int notes; /* the end for writing */
};

/* ---- Notes ---- */

static void note_put(const struct keep *keep, const struct cli_run_note *note) {
    ssize_t n;
    do { /* waits for room: the reader reads as long as it lives */
        n = send(keep->notes, note, sizeof *note, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
}

static void note_words(struct keep *keep, enum cli_run_note_kind kind, uint64_t until_ms,
                       const char *words) {
    struct cli_run_note note = {.kind = kind, .until_ms = until_ms};
    (void)snprintf(note.words, sizeof note.words, "%s", words);
    note_put(keep, &note);
    keep->over = kind == CLI_RUN_NOTE_LOST;
}

static void trouble(struct keep *keep, const char *words) {
    note_words(keep, CLI_RUN_NOTE_TROUBLE, 0, words);
    cli_client_close(&keep->client);
    keep->connected = keep->subscribed = false;
}

bool cli_run_keep_next(int notes, struct cli_run_note *ret_note) {
    ssize_t n;
    do {
        n = recv(notes, ret_note, sizeof *ret_note, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *ret_note;
}

/* ---- What became of the lease ---- */

/* An event of our lease with another epoch than ours. */
static bool push_tells_change(const struct keep *keep) {
    const struct cli_reader *reader = &keep->client.reader;
    struct cli_event event;
    if (reader->nodes[0].type != CLI_PUSH || reader->nodes[0].count < 3 ||
        !cli_node_is(reader, 1, "message") || !cli_event_parse(cli_node_text(reader, 3), &event)) {
        return false;
    }
    const char *lease = json_string_value(json_object_get(event.json, "lease"));
    const char *epoch = json_string_value(json_object_get(event.json, "epoch"));
    bool changed = lease != NULL && epoch != NULL && strcmp(lease, keep->lease.id) == 0 &&
                   strcmp(epoch, keep->lease.epoch) != 0;
    cli_event_free(&event);
    return changed;
}

/* ---- Requests ---- */

/* The reply to what was sent; events that come before it are looked at. */
static enum cli_link reply_wait(struct keep *keep) {
    for (;;) {
        enum cli_link link = cli_client_receive(&keep->client, keep->settings.timeout_ms, NULL);
        if (link != CLI_LINK_OK || keep->client.reader.nodes[0].type != CLI_PUSH) {
            return link;
        }
        keep->changed = keep->changed || push_tells_change(keep);
    }
}

/* The epoch is not ours any more. Asks again until when no other holder can have the values, because a
 * revoking lease can end at any time. */
static void lease_judge(struct keep *keep) {
    const struct cli_reader *reader = &keep->client.reader;
    char words[128];
    uint64_t deadline = 0;
    struct tn_bytes request[] = {tn_bytes_of("LEASE", 5),
                                 tn_bytes_of(keep->lease.id, strlen(keep->lease.id))};
    keep->changed = false;
    keep->renew_at_ms = cli_run_now_ms(&keep->settings) + keep->renew_ms;
    enum cli_link link = cli_client_send(&keep->client, request, 2, keep->settings.timeout_ms);
    if (link == CLI_LINK_OK) {
        link = reply_wait(keep);
    }
    if (link != CLI_LINK_OK && keep->revoked) {
        trouble(keep, keep->client.error);
        return;
    }
    if (link != CLI_LINK_OK || reader->nodes[0].type == CLI_ERROR) {
        note_words(keep, CLI_RUN_NOTE_LOST, 0, "its epoch has ended");
        return;
    }
    uint32_t state = cli_node_find(reader, 0, "state");
    struct tn_bytes is = cli_node_text(reader, state);
    struct tn_bytes reason = cli_node_text(reader, cli_node_find(reader, 0, "reason"));
    (void)snprintf(words, sizeof words, "%.*s, reason %.*s", (int)is.len, (const char *)is.at,
                   (int)reason.len, (const char *)reason.at);
    if (!cli_node_is(reader, state, "revoking")) {
        note_words(keep, CLI_RUN_NOTE_LOST, 0, words);
        return;
    }
    (void)cli_node_number(reader, cli_node_find(reader, 0, "deadline"), &deadline);
    if (!keep->revoked || deadline != keep->revoked_until) {
        keep->revoked = true;
        keep->revoked_until = deadline;
        note_words(keep, CLI_RUN_NOTE_REVOKED,
                   deadline != 0 ? cli_run_lease_local(&keep->lease, deadline) : 0, words);
    }
}

/* As cli_run_lease_token, with an eye on events. */
static void token_get(struct keep *keep) {
    struct cli_run_note note = {.kind = CLI_RUN_NOTE_TOKEN};
    struct tn_bytes words[CLI_RUN_TOKEN_WORDS];
    cli_run_lease_token_words(&keep->lease, words);
    enum cli_link link =
        cli_client_send(&keep->client, words, CLI_RUN_TOKEN_WORDS, keep->settings.timeout_ms);
    if (link == CLI_LINK_OK) {
        link = reply_wait(keep);
    }
    if (link == CLI_LINK_OK) {
        cli_run_lease_token_take(&keep->client, note.token);
    }
    note_put(keep, &note);
    explicit_bzero(note.token, sizeof note.token);
    if (link !=
        CLI_LINK_OK) { /* the reply that is missing may still come: not to another request */
        trouble(keep, keep->client.error);
    }
}

static void renewed(struct keep *keep, uint64_t sent_ms) {
    struct cli_run_note note = {.kind = CLI_RUN_NOTE_RENEWED};
    uint64_t deadline = 0;
    const struct cli_reader *reader = &keep->client.reader;
    if (!cli_node_number(reader, cli_node_find(reader, 0, "deadline"), &deadline) ||
        deadline == 0) {
        trouble(keep, "cannot read the server's answer");
        return;
    }
    cli_run_lease_granted(&keep->lease, sent_ms, cli_run_now_ms(&keep->settings), deadline);
    note.until_ms = keep->lease.deadline_ms;
    keep->renew_at_ms = sent_ms + keep->renew_ms;
    keep->pause_ms = CLI_RUN_PAUSE_MS;
    note_put(keep, &note); /* first: the command must not wait for a token */
    if (keep->wants_tokens) {
        token_get(keep);
    }
}

/* TOUCH; its refusal says that the lease is not ours, or that the server cannot just now. */
static void renew(struct keep *keep) {
    struct tn_bytes words[CLI_RUN_TOUCH_WORDS];
    cli_run_lease_touch_words(&keep->lease, words);
    uint64_t sent = cli_run_now_ms(&keep->settings);
    enum cli_link link =
        cli_client_send(&keep->client, words, CLI_RUN_TOUCH_WORDS, keep->settings.timeout_ms);
    if (link == CLI_LINK_OK) {
        link = reply_wait(keep);
    }
    if (link != CLI_LINK_OK) {
        trouble(keep, keep->client.error);
        return;
    }
    if (keep->client.reader.nodes[0].type != CLI_ERROR) {
        renewed(keep, sent);
        return;
    }
    struct cli_refusal refusal = cli_refusal_of(cli_node_text(&keep->client.reader, 0));
    if (refusal.known && refusal.code == TN_R_STALE) {
        lease_judge(keep);
    } else if (refusal.known && !cli_run_refusal_passes(refusal.code) &&
               refusal.code != TN_R_BAD_TTL) {
        note_words(keep, CLI_RUN_NOTE_LOST, 0, tn_result_text(refusal.code));
    } else {
        trouble(keep, refusal.known ? tn_result_text(refusal.code) : "the server refuses");
    }
}

/* Without it a revocation is noticed at the next renewal. */
static void subscribe(struct keep *keep) {
    char channel[sizeof "holder:" + KERNEL_HOLDER_MAX];
    int len = snprintf(channel, sizeof channel, "holder:%s", keep->lease.holder);
    struct tn_bytes words[] = {tn_bytes_of("SUBSCRIBE", 9), tn_bytes_of(channel, (size_t)len)};
    enum cli_link link = cli_client_send(&keep->client, words, 2, keep->settings.timeout_ms);
    if (link == CLI_LINK_OK) { /* a confirmation, or a refusal */
        link = cli_client_receive(&keep->client, keep->settings.timeout_ms, NULL);
    }
    if (link != CLI_LINK_OK) {
        trouble(keep, keep->client.error);
        return;
    }
    keep->subscribed = true;
}

static void connect_again(struct keep *keep) {
    if (cli_client_open(&keep->client, &keep->settings) != CLI_LINK_OK) {
        trouble(keep, keep->client.error);
        return;
    }
    keep->connected = true;
    keep->renew_at_ms = 0; /* at once: the state is unknown since then */
}

/* Events, until it is time to renew. */
static void events_wait(struct keep *keep) {
    uint64_t now = cli_run_now_ms(&keep->settings);
    uint64_t left = keep->renew_at_ms > now ? keep->renew_at_ms - now : 1;
    bool timeout = false;
    if (cli_client_receive(&keep->client, left, &timeout) != CLI_LINK_OK) {
        trouble(keep, keep->client.error);
    } else if (!timeout && push_tells_change(keep)) {
        keep->changed = true;
    }
}

static void *keep_run(void *ctx) {
    struct keep *keep = ctx;
    while (!keep->over) {
        if (!keep->connected) {
            connect_again(keep);
        } else if (!keep->subscribed) {
            subscribe(keep);
        } else if (!keep->changed && cli_run_now_ms(&keep->settings) < keep->renew_at_ms) {
            events_wait(keep);
        } else if (keep->changed || keep->revoked) {
            lease_judge(keep);
        } else {
            renew(keep);
        }
        if (!keep->connected && !keep->over) {
            cli_wait_ms(keep->pause_ms);
            keep->pause_ms = keep->pause_ms * 2 < PAUSE_MAX_MS ? keep->pause_ms * 2 : PAUSE_MAX_MS;
        }
    }
    return NULL;
}

/* ---- The start ---- */

static struct keep the_keep; /* the thread's, until the process ends */

bool cli_run_keep_start(const struct cli_run_lease *lease, const struct cli_run_times *times,
                        const struct cli_client *client, bool wants_tokens, int *ret_notes) {
    int ends[2];
    pthread_t thread;
    struct keep *keep = &the_keep;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return false;
    }
    keep->lease = *lease;
    keep->settings = *lease->settings;
    keep->settings.timeout_ms = times->attempt_ms;
    keep->renew_ms = times->renew_ms;
    keep->lease.settings = &keep->settings;
    keep->client = *client;
    keep->connected = true;
    keep->wants_tokens = wants_tokens;
    keep->renew_at_ms = 0; /* once events are followed: what happened before is known then */
    keep->pause_ms = CLI_RUN_PAUSE_MS;
    keep->notes = ends[1];
    *ret_notes = ends[0];
    if (pthread_create(&thread, NULL, keep_run, keep) != 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return false;
    }
    (void)pthread_detach(thread);
    return true;
}
