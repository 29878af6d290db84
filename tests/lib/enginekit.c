#include "lib/enginekit.h"

#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/hash.h"

void ekit_limits_small(struct engine_options *options) {
    static const struct {
        enum kernel_limit limit;
        uint64_t value;
    } small[] = {
        {KERNEL_LIMIT_LEASES, 8192},
        {KERNEL_LIMIT_MEMBERS, 16384},
        {KERNEL_LIMIT_HISTORY, 4096},
        {KERNEL_LIMIT_POOLS, 64},
        {KERNEL_LIMIT_RESOURCES, 256},
        {KERNEL_LIMIT_NAMES, 16384},
        {KERNEL_LIMIT_TEXT_BYTES, 4194304},
        {KERNEL_LIMIT_OPS, 8192},
        {KERNEL_LIMIT_RATES, 4},
        {KERNEL_LIMIT_RATE_WINDOW, 3600},
        {KERNEL_LIMIT_COLD, 1024},
        {KERNEL_LIMIT_RULES, 64},
        {KERNEL_LIMIT_SENSORS, 64},
    };
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        options->limits.of[small[i].limit] = small[i].value;
        options->limits_mask |= (uint32_t)1 << small[i].limit;
    }
}

static struct tn_bytes text(const char *s) {
    return s != NULL ? tn_bytes_of(s, strlen(s)) : tn_bytes_of(NULL, 0);
}

void ekit_command_copy(struct ekit_command *out, const struct kernel_command *command) {
    uint32_t len = kernel_command_encode(command, out->at, sizeof out->at);
    assert_true(kernel_command_decode(tn_bytes_of(out->at, len), &out->decoded));
}

static const struct ekit_command *encode(struct ekit_command *out, struct kernel_command command) {
    command.rights = KERNEL_RIGHT_OPERATOR;
    ekit_command_copy(out, &command);
    return out;
}

static const struct ekit_command *pool(struct ekit_command *out, const char *name, uint64_t lo,
                                       uint64_t hi, uint64_t lease_s, bool sticky) {
    struct kernel_policy_patch patch = {.mask = 0};
    patch.values.of[KERNEL_OPTION_LO] = lo;
    patch.values.of[KERNEL_OPTION_HI] = hi;
    patch.values.of[KERNEL_OPTION_LEASE] = lease_s;
    patch.values.of[KERNEL_OPTION_STICKY] = sticky;
    patch.mask = 1u << KERNEL_OPTION_LO | 1u << KERNEL_OPTION_HI | 1u << KERNEL_OPTION_LEASE |
                 1u << KERNEL_OPTION_STICKY;
    return encode(out, (struct kernel_command){.verb = KERNEL_VERB_POOL_CREATE,
                                               .fields = KERNEL_F_POOL | KERNEL_F_POLICY,
                                               .pool = text(name),
                                               .policy = &patch});
}

const struct ekit_command *ekit_pool(struct ekit_command *out, const char *name, uint64_t lo,
                                     uint64_t hi, uint64_t lease_s) {
    return pool(out, name, lo, hi, lease_s, false);
}

const struct ekit_command *ekit_pool_sticky(struct ekit_command *out, const char *name, uint64_t lo,
                                            uint64_t hi, uint64_t lease_s) {
    return pool(out, name, lo, hi, lease_s, true);
}

const struct ekit_command *ekit_alloc_large(struct ekit_command *out, const char *name,
                                            const char *holder, uint32_t count, const char *opid,
                                            uint32_t meta_len) {
    uint8_t claims[256];
    uint8_t meta[KERNEL_META_MAX];
    struct tn_writer w = tn_writer_of(claims, sizeof claims);
    kernel_claim_write(&w, text(name), true, count);
    assert_true(meta_len <= sizeof meta);
    memset(meta, 'm', sizeof meta);
    return encode(out, (struct kernel_command){.verb = KERNEL_VERB_ALLOC,
                                               .fields = KERNEL_F_HOLDER | KERNEL_F_CLAIMS |
                                                         (meta_len > 0 ? KERNEL_F_META : 0u),
                                               .opid = text(opid),
                                               .holder = text(holder),
                                               .meta = tn_bytes_of(meta, meta_len),
                                               .claims = tn_bytes_of(claims, w.len),
                                               .claim_count = 1});
}

const struct ekit_command *ekit_alloc(struct ekit_command *out, const char *name,
                                      const char *holder, uint32_t count, const char *opid) {
    return ekit_alloc_large(out, name, holder, count, opid, 0);
}

const struct ekit_command *ekit_release(struct ekit_command *out, const struct kernel_result *lease,
                                        const char *holder) {
    return encode(out, (struct kernel_command){.verb = KERNEL_VERB_RELEASE,
                                               .fields = KERNEL_F_LEASE | KERNEL_F_EPOCH |
                                                         KERNEL_F_HOLDER | KERNEL_F_IMMEDIATE,
                                               .lease = lease->lease,
                                               .epoch = lease->epoch,
                                               .holder = text(holder)});
}

const struct ekit_command *ekit_touch(struct ekit_command *out, const struct kernel_result *lease,
                                      const char *meta) {
    uint32_t fields = KERNEL_F_LEASE | KERNEL_F_EPOCH;
    return encode(out, (struct kernel_command){.verb = KERNEL_VERB_TOUCH,
                                               .fields = meta ? fields | KERNEL_F_META : fields,
                                               .lease = lease->lease,
                                               .epoch = lease->epoch,
                                               .meta = text(meta)});
}

enum tn_result ekit_run(struct engine *engine, const struct ekit_command *command,
                        struct ekit_answer *answer) {
    answer->result =
        (struct kernel_result){.values = answer->values, .value_capacity = EKIT_VALUES};
    engine_execute(engine, &command->decoded, &answer->result);
    return answer->result.code;
}

void ekit_run_ok(struct engine *engine, const struct ekit_command *command,
                 struct ekit_answer *answer) {
    enum tn_result code = ekit_run(engine, command, answer);
    if (code != TN_R_OK) {
        fail_msg("expected OK, got %s", tn_result_name(code));
    }
}

uint64_t ekit_hash(struct engine *engine) {
    uint64_t hash = 0;
    uint64_t lsn = 0;
    assert_int_equal(engine_hash(engine, &hash, &lsn), TN_R_OK);
    return hash;
}

static uint64_t digest_bytes(uint64_t digest, struct tn_bytes bytes) {
    TN_ASSERT(bytes.at[bytes.len] == 0);
    return tn_hash64(bytes.at, bytes.len, digest);
}

uint64_t ekit_event_digest(const struct engine_event *event) {
    const struct kernel_event *fact = &event->fact;
    uint64_t numbers[] = {fact->now_ms,    (uint64_t)fact->kind, (uint64_t)fact->reason,
                          fact->lease.lsn, fact->epoch,          fact->deadline_ms,
                          fact->number,    fact->value_count,    fact->lease.shard};
    uint64_t digest = tn_hash64(numbers, sizeof numbers, 1);
    digest = digest_bytes(digest, fact->holder);
    digest = digest_bytes(digest, fact->user);
    digest = digest_bytes(digest, fact->name);
    for (uint32_t i = 0; i < fact->value_count; i++) {
        digest = tn_hash64(&event->values[i].number, sizeof(uint64_t), digest);
        digest = digest_bytes(digest, event->values[i].pool);
    }
    return digest;
}

void ekit_check(struct engine *engine) {
    char why[256] = "";
    bool sound = false;
    assert_int_equal(engine_check(engine, &sound, why, sizeof why), TN_R_OK);
    if (!sound) {
        fail_msg("an invariant is broken: %s", why);
    }
}

void ekit_dir_make(char out[128]) {
    const char *base = getenv("TMPDIR");
    int len = snprintf(out, 128, "%s/tenure-test-XXXXXX", base != NULL ? base : "/tmp");
    assert_true(len > 0 && len < 128);
    assert_non_null(mkdtemp(out));
}

void ekit_dir_remove(const char *dir) {
    DIR *entries = opendir(dir);
    assert_non_null(entries);
    struct dirent *entry;
    while ((entry = readdir(entries)) != NULL) {
        char path[512];
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            (void)snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
            assert_int_equal(unlink(path), 0);
        }
    }
    closedir(entries);
    assert_int_equal(rmdir(dir), 0);
}

enum tn_status ekit_try(const struct engine_options *options, struct engine **ret_engine,
                        struct log_error *error) {
    struct engine *engine = NULL;
    enum tn_status status = engine_open(options, &engine, error);
    if (status != TN_OK) {
        return status;
    }
    status = engine_lead(engine, error);
    if (status != TN_OK) {
        (void)engine_close(engine);
        return status;
    }
    *ret_engine = engine;
    return TN_OK;
}

enum tn_status ekit_try_local(const struct engine_options *options,
                              const struct log_local_options *local, struct engine **ret_engine,
                              struct log_error *error) {
    struct engine_options engine = *options;
    struct log_local_options log = *local;
    log.os = options->os != NULL ? options->os : os_posix();
    log.no_background = log.no_background || options->no_threads;
    enum tn_status status = log_local_open(&log, NULL, NULL, &engine.log, error);
    if (status != TN_OK) {
        return status;
    }
    engine.store = log_local_store(engine.log);
    engine.events_dir = options->events_dir != NULL ? options->events_dir : local->dir;
    engine.events_reserve_bytes = local->space_reserve_bytes;
    return ekit_try(&engine, ret_engine, error);
}

struct engine *ekit_open_local(const struct engine_options *options,
                               const struct log_local_options *local) {
    struct engine *engine = NULL;
    struct log_error error;
    enum tn_status status = ekit_try_local(options, local, &engine, &error);
    if (status != TN_OK) {
        fail_msg("%s: %s", tn_status_name(status), error.text);
    }
    return engine;
}

struct engine *ekit_open(const struct engine_options *options) {
    struct engine *engine = NULL;
    struct log_error error;
    enum tn_status status = ekit_try(options, &engine, &error);
    if (status != TN_OK) {
        fail_msg("%s: %s", tn_status_name(status), error.text);
    }
    return engine;
}

void ekit_wait(bool (*met)(void *ctx), void *ctx) {
    const struct os *os = os_posix();
    uint64_t begin_ms = os->clock_boot_ms(os->ctx);
    while (!met(ctx)) {
        if (os->clock_boot_ms(os->ctx) - begin_ms > EKIT_PATIENCE_MS) {
            fail_msg("what was waited for does not happen");
        }
        sched_yield();
    }
}
