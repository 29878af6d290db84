/* See kit.h. */
#include "kit.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/hash.h"

static enum tn_status memory_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    (void)ctx;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return TN_NOMEM;
    }
    if (big) {
        madvise(memory, bytes, MADV_HUGEPAGE);
    }
    *ret_memory = memory;
    return TN_OK;
}

enum tn_status kit_memory_none(void *ctx, size_t bytes, bool big, void **ret_memory) {
    (void)ctx;
    (void)bytes;
    (void)big;
    (void)ret_memory;
    return TN_NOMEM;
}

static void memory_release(void *ctx, void *memory, size_t bytes) {
    (void)ctx;
    munmap(memory, bytes);
}

static uint64_t hash_in(uint64_t hash, const void *bytes, size_t len) {
    return tn_hash64(bytes, len, hash);
}

static void sink(void *ctx, const struct kernel *kernel, const struct kernel_event *e) {
    struct kit *kit = ctx;
    (void)kernel;
    assert_int_equal(e->index, kit->event_count);
    kit->events[e->kind]++;
    kit->event_count++;
    uint64_t h = kit->event_hash;
    uint64_t head[] = {
        e->lsn,         e->index,     e->now_ms, (uint64_t)e->kind, (uint64_t)e->reason,
        e->lease.shard, e->lease.lsn, e->epoch,  e->deadline_ms,    e->value_count};
    h = hash_in(h, head, sizeof head);
    h = hash_in(h, e->holder.at, e->holder.len);
    h = hash_in(h, e->previous.at, e->previous.len);
    h = hash_in(h, e->actor.at, e->actor.len);
    h = hash_in(h, e->note.at, e->note.len);
    h = hash_in(h, e->name.at, e->name.len);
    h = hash_in(h, e->trigger.at, e->trigger.len);
    h = hash_in(h, e->payload.at, e->payload.len);
    for (uint32_t i = 0; i < e->value_count; i++) {
        h = hash_in(h, &e->values[i].number, sizeof e->values[i].number);
        h = hash_in(h, e->values[i].name, e->values[i].name_len);
    }
    kit->event_hash = h;
}

struct kernel_limits kit_limits(void) {
    struct kernel_limits limits = kernel_limits_default();
    limits.of[KERNEL_LIMIT_LEASES] = 512;
    limits.of[KERNEL_LIMIT_MEMBERS] = 1024;
    limits.of[KERNEL_LIMIT_HISTORY] = 64;
    limits.of[KERNEL_LIMIT_POOLS] = 32;
    limits.of[KERNEL_LIMIT_RESOURCES] = 256;
    limits.of[KERNEL_LIMIT_NAMES] = 512;
    limits.of[KERNEL_LIMIT_TEXT_BYTES] = 1 << 20;
    limits.of[KERNEL_LIMIT_OPS] = 64;
    limits.of[KERNEL_LIMIT_BUNDLE] = 32;
    limits.of[KERNEL_LIMIT_SWEEP_STEP] = 4;
    limits.of[KERNEL_LIMIT_TICK_STEP] = 16;
    limits.of[KERNEL_LIMIT_DISOWNS] = 4;
    limits.of[KERNEL_LIMIT_RATES] = 8;
    limits.of[KERNEL_LIMIT_COLD] = 64;
    limits.of[KERNEL_LIMIT_COLD_PER_POOL] = 16;
    limits.of[KERNEL_LIMIT_RULES] = 32;
    limits.of[KERNEL_LIMIT_SENSORS] = 16;
    return limits;
}

static void waited(void *ctx, const struct kernel *kernel, const struct kernel_result *result) {
    struct kit *kit = ctx;
    (void)kernel;
    kit->waited[kit->waited_count++ % KIT_WAITED] = *result;
}

void kit_open(struct kit *kit, const struct kernel_limits *limits) {
    memset(kit, 0, sizeof *kit);
    kit->limits = limits == NULL ? kit_limits() : *limits;
    kit->now_ms = 1000000;
    kit->check_every = 1;
    kit->record = true;
    struct kernel_env env = {.mem_reserve = memory_reserve,
                             .mem_release = memory_release,
                             .hash_seed = 0x1234567,
                             .sink = sink,
                             .sink_ctx = kit,
                             .waited = waited,
                             .waited_ctx = kit};
    enum tn_status status = kernel_create(&env, &kit->limits, 0, &kit->kernel);
    assert_int_equal(status, TN_OK);
    kit->values = calloc(KERNEL_BUNDLE_MAX, sizeof *kit->values);
    kit->result.values = kit->values;
    kit->result.value_capacity = KERNEL_BUNDLE_MAX;
}

void kit_close(struct kit *kit) {
    kernel_destroy(kit->kernel);
    for (uint32_t i = 0; i < kit->entry_count; i++) {
        free(kit->entries[i].bytes);
    }
    free(kit->entries);
    free(kit->values);
}

void kit_check(const struct kit *kit) {
    char why[256] = "";
    if (!kernel_check(kit->kernel, why, sizeof why)) {
        fail_msg("invariant broken after lsn %" PRIu64 ": %s", kernel_lsn(kit->kernel), why);
    }
}

static void remember(struct kit *kit, struct tn_bytes bytes) {
    if (kit->entry_count == kit->entry_capacity) {
        kit->entry_capacity = kit->entry_capacity == 0 ? 64 : 2 * kit->entry_capacity;
        kit->entries = realloc(kit->entries, kit->entry_capacity * sizeof *kit->entries);
    }
    struct kit_entry *e = &kit->entries[kit->entry_count++];
    e->now_ms = kit->now_ms;
    e->len = bytes.len;
    e->bytes = malloc(bytes.len + 1);
    memcpy(e->bytes, bytes.at, bytes.len);
}

enum tn_result kit_run_bytes(struct kit *kit, struct tn_bytes bytes) {
    struct kernel_command command;
    memset(kit->events, 0, sizeof kit->events);
    kit->event_count = 0;
    if (!kernel_command_decode(bytes, &command)) {
        kit->result.code = TN_R_MALFORMED;
        return TN_R_MALFORMED;
    }
    if (kit->record) {
        remember(kit, bytes);
    }
    struct kernel_entry entry = {.lsn = kernel_lsn(kit->kernel) + 1,
                                 .now_ms = kit->now_ms,
                                 .encoded = bytes,
                                 .command = &command};
    kernel_apply(kit->kernel, &entry, &kit->result);
    if (kit->check_every > 0 && entry.lsn % kit->check_every == 0) {
        kit_check(kit);
    }
    return kit->result.code;
}

enum tn_result kit_run(struct kit *kit, const struct kernel_command *command) {
    static _Thread_local uint8_t bytes[KERNEL_COMMAND_MAX];
    struct kernel_command allowed = *command;
    allowed.rights |= kit->rights;
    uint32_t len = kernel_command_encode(&allowed, bytes, sizeof bytes);
    assert_int_not_equal(len, 0);
    return kit_run_bytes(kit, tn_bytes_of(bytes, len));
}

void kit_replay(const struct kit *from, struct kit *to, uint32_t first, uint32_t end) {
    bool record = to->record;
    to->record = false;
    for (uint32_t i = first; i < end; i++) {
        to->now_ms = from->entries[i].now_ms;
        kit_run_bytes(to, tn_bytes_of(from->entries[i].bytes, from->entries[i].len));
    }
    to->record = record;
}

struct clone {
    struct kernel *kernel;
    struct tn_table_header headers[KERNEL_TABLES_MAX];
    bool good;
};

static void clone_chunk(void *ctx, const struct tn_table_chunk *chunk) {
    struct clone *clone = ctx;
    size_t len = (size_t)chunk->count * clone->headers[chunk->table_id].record_bytes;
    clone->good = clone->good && kernel_load_chunk(clone->kernel, chunk, len);
}

void kit_clone(struct kit *kit, struct kit *ret_clone) {
    kit_open(ret_clone, &kit->limits);
    struct clone clone = {.kernel = ret_clone->kernel, .good = true};
    uint32_t count;
    kernel_image_begin(kit->kernel, clone_chunk, &clone, clone.headers, &count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(kernel_load_header(clone.kernel, &clone.headers[i]));
    }
    while (kernel_image_step(kit->kernel, 1)) {
    }
    assert_true(clone.good);
    assert_true(kernel_load_end(clone.kernel));
    ret_clone->now_ms = kit->now_ms;
    ret_clone->event_hash = kit->event_hash;
}

/* ---- builders ---- */

struct tn_bytes kit_text(const char *text) {
    return tn_bytes_of(text, strlen(text));
}

struct kernel_command kit_command(enum kernel_verb verb) {
    return (struct kernel_command){
        .verb = verb, .rights = KERNEL_RIGHT_OPERATOR, .fields = kernel_verb_rows[verb].required};
}

static void patch_word(struct kernel_policy_patch *patch, char *word) {
    char *value = strchr(word, '=');
    assert_non_null(value);
    *value++ = '\0';
    bool exclude = strcmp(word, "exclude") == 0;
    if (exclude || strcmp(word, "range") == 0) {
        char *end;
        struct kernel_policy *values = &patch->values;
        struct kernel_span *span = exclude ? &values->exclude[values->exclude_count++]
                                           : &values->spans[values->span_count++];
        span->lo = strtoull(value, &end, 10);
        span->hi = strtoull(end + 1, NULL, 10);
        *(exclude ? &patch->has_exclude : &patch->has_spans) = true;
        return;
    }
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if (strcmp(kernel_option_rows[i].name, word) == 0) {
            patch->mask |= 1u << i;
            patch->values.of[i] = strtoull(value, NULL, 10);
            return;
        }
    }
    fail_msg("no pool option '%s'", word);
}

static enum tn_result pool_run(struct kit *kit, enum kernel_verb verb, const char *name,
                               const char *options) {
    struct kernel_policy_patch patch = {0};
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", options);
    char *rest = NULL;
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        patch_word(&patch, word);
    }
    struct kernel_command c = kit_command(verb);
    c.rights |= KERNEL_RIGHT_SUPERVISOR;
    c.pool = kit_text(name);
    c.policy = &patch;
    return kit_run(kit, &c);
}

enum tn_result kit_pool(struct kit *kit, const char *name, const char *options) {
    return pool_run(kit, KERNEL_VERB_POOL_CREATE, name, options);
}

enum tn_result kit_alter(struct kit *kit, const char *name, const char *options) {
    return pool_run(kit, KERNEL_VERB_POOL_ALTER, name, options);
}

enum tn_result kit_drop(struct kit *kit, const char *name) {
    struct kernel_command c = kit_command(KERNEL_VERB_POOL_DROP);
    c.pool = kit_text(name);
    return kit_run(kit, &c);
}

static enum tn_result names_run(struct kit *kit, enum kernel_verb verb, const char *pool,
                                const char *names) {
    static uint8_t bytes[65536];
    char copy[32768];
    snprintf(copy, sizeof copy, "%s", names);
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    struct kernel_command c = kit_command(verb);
    char *rest = NULL;
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        kernel_requested_write_text(&w, kit_text(word));
        c.value_count++;
    }
    c.pool = kit_text(pool);
    c.values = tn_bytes_of(bytes, w.len);
    return kit_run(kit, &c);
}

enum tn_result kit_add(struct kit *kit, const char *pool, const char *names) {
    return names_run(kit, KERNEL_VERB_POOL_ADD, pool, names);
}

enum tn_result kit_remove(struct kit *kit, const char *pool, const char *names) {
    return names_run(kit, KERNEL_VERB_POOL_REMOVE, pool, names);
}

static void claim_word(struct tn_writer *w, char *word) {
    char *sign = strpbrk(word, ":=");
    if (sign == NULL) {
        kernel_claim_write(w, kit_text(word), true, 0);
        return;
    }
    bool any = *sign == ':';
    *sign++ = '\0';
    if (any) {
        kernel_claim_write(w, kit_text(word), true, (uint32_t)strtoul(sign, NULL, 10));
        return;
    }
    uint32_t count = 1;
    for (const char *p = sign; *p != '\0'; p++) {
        count += *p == ',';
    }
    kernel_claim_write(w, kit_text(word), false, count);
    char *rest = NULL;
    for (char *v = strtok_r(sign, ",", &rest); v != NULL; v = strtok_r(NULL, ",", &rest)) {
        kernel_requested_write_text(w, kit_text(v));
    }
}

struct grant_more {
    uint32_t wait_s; /* 0: it does not wait */
    const char *opid;
};

static enum tn_result grant_run(struct kit *kit, enum kernel_verb verb, const char *holder,
                                const char *claims, uint32_t ttl_s, struct grant_more more) {
    static uint8_t bytes[65536];
    char copy[32768];
    snprintf(copy, sizeof copy, "%s", claims);
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    struct kernel_command c = kit_command(verb);
    char *rest = NULL;
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        claim_word(&w, word);
        c.claim_count++;
    }
    c.claims = tn_bytes_of(bytes, w.len);
    c.holder = kit_text(holder);
    if (ttl_s != 0) {
        c.fields |= KERNEL_F_TTL;
        c.ttl_s = ttl_s;
    }
    if (more.wait_s != 0) {
        c.fields |= KERNEL_F_WAIT;
        c.wait_s = more.wait_s;
    }
    if (more.opid != NULL) {
        c.opid = kit_text(more.opid);
    }
    return kit_run(kit, &c);
}

enum tn_result kit_alloc(struct kit *kit, const char *holder, const char *claims, uint32_t ttl_s) {
    return grant_run(kit, KERNEL_VERB_ALLOC, holder, claims, ttl_s, (struct grant_more){0});
}

enum tn_result kit_wait(struct kit *kit, const char *holder, const char *claims, uint32_t wait_s,
                        const char *opid) {
    struct grant_more more = {.wait_s = wait_s, .opid = opid};
    return grant_run(kit, KERNEL_VERB_ALLOC, holder, claims, 0, more);
}

enum tn_result kit_unattend(struct kit *kit, struct kit_token t) {
    struct kernel_command c = kit_command(KERNEL_VERB_UNATTEND);
    c.fields |= KERNEL_F_LEASE;
    c.lease = t.lease;
    return kit_run(kit, &c);
}

enum tn_result kit_reserve(struct kit *kit, const char *holder, const char *claims,
                           uint32_t ttl_s) {
    return grant_run(kit, KERNEL_VERB_RESERVE, holder, claims, ttl_s, (struct grant_more){0});
}

struct kit_token kit_token(const struct kit *kit) {
    return (struct kit_token){.lease = kit->result.lease, .epoch = kit->result.epoch};
}

static struct kernel_command token_command(enum kernel_verb verb, struct kit_token t,
                                           const char *holder) {
    struct kernel_command c = kit_command(verb);
    c.lease = t.lease;
    c.epoch = t.epoch;
    if (holder != NULL) {
        c.holder = kit_text(holder);
    }
    return c;
}

enum tn_result kit_activate(struct kit *kit, struct kit_token t, const char *holder) {
    struct kernel_command c = token_command(KERNEL_VERB_ACTIVATE, t, holder);
    return kit_run(kit, &c);
}

enum tn_result kit_touch(struct kit *kit, struct kit_token t, uint32_t ttl_s) {
    struct kernel_command c = token_command(KERNEL_VERB_TOUCH, t, NULL);
    if (ttl_s != 0) {
        c.fields |= KERNEL_F_TTL;
        c.ttl_s = ttl_s;
    }
    return kit_run(kit, &c);
}

enum tn_result kit_release(struct kit *kit, struct kit_token t, const char *holder,
                           bool immediate) {
    struct kernel_command c = token_command(KERNEL_VERB_RELEASE, t, holder);
    c.fields |= immediate ? KERNEL_F_IMMEDIATE : 0;
    return kit_run(kit, &c);
}

enum tn_result kit_revoke(struct kit *kit, struct kit_token t, int64_t after_s) {
    struct kernel_command c = token_command(KERNEL_VERB_REVOKE, t, NULL);
    if (after_s >= 0) {
        c.fields |= KERNEL_F_AFTER;
        c.after_s = (uint32_t)after_s;
    }
    return kit_run(kit, &c);
}

enum tn_result kit_ack(struct kit *kit, struct kit_token t, const char *holder) {
    struct kernel_command c = token_command(KERNEL_VERB_ACK, t, holder);
    return kit_run(kit, &c);
}

enum tn_result kit_reclaim(struct kit *kit, struct kit_token t) {
    struct kernel_command c = token_command(KERNEL_VERB_RECLAIM, t, NULL);
    return kit_run(kit, &c);
}

enum tn_result kit_rekey(struct kit *kit, struct kit_token t, const char *holder) {
    struct kernel_command c = token_command(KERNEL_VERB_REKEY, t, holder);
    return kit_run(kit, &c);
}

enum tn_result kit_disown(struct kit *kit, const char *holder, const char *pool) {
    struct kernel_command c = kit_command(KERNEL_VERB_DISOWN);
    c.holder = kit_text(holder);
    if (pool != NULL) {
        c.fields |= KERNEL_F_POOL;
        c.pool = kit_text(pool);
    }
    return kit_run(kit, &c);
}

enum tn_result kit_sweep(struct kit *kit, const char *pool) {
    struct kernel_command c = kit_command(KERNEL_VERB_SWEEP);
    if (pool != NULL) {
        c.fields |= KERNEL_F_POOL;
        c.pool = kit_text(pool);
    }
    return kit_run(kit, &c);
}

enum tn_result kit_tick(struct kit *kit) {
    struct kernel_command c = kit_command(KERNEL_VERB_TICK);
    return kit_run(kit, &c);
}

enum kernel_state kit_state(const struct kit *kit, struct kit_token t) {
    struct kernel_lease_view view;
    return kernel_lease_read(kit->kernel, t.lease, &view) == TN_R_OK ? view.state : KERNEL_NO_STATE;
}
