/* Commands made of any bytes, for the kernel: each byte chooses, so what is made is nearly always
 * whole, and gets deep. Names, values and leases come from small sets, so that they meet again. */
#ifndef TENURE_FUZZ_COMMANDS_H
#define TENURE_FUZZ_COMMANDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "kernel/kernel.h"

struct commands {
    const uint8_t *at, *end;
    struct kernel *kernel;
    uint64_t lsn, now_ms;
    uint8_t claims[2048], values[2048];
    char names[8][KERNEL_RULE_MAX + 1]; /* names in the command being made */
    struct kernel_policy_patch policy;
    struct kernel_value got[KERNEL_BUNDLE_MAX];
};

static uint8_t commands_byte(struct commands *c) {
    return c->at < c->end ? *c->at++ : 0;
}

static uint64_t commands_number(struct commands *c) {
    static const uint64_t edges[] = {0, 1, 2, 3, 7, 60, 3600, 86400, UINT32_MAX, UINT64_MAX - 1};
    uint8_t choice = commands_byte(c);
    return choice < 200 ? choice % 32 : edges[choice % (sizeof edges / sizeof edges[0])];
}

/* A name out of eight, or sometimes arbitrary bytes. */
static struct tn_bytes commands_name(struct commands *c, unsigned slot, const char *prefix) {
    uint8_t choice = commands_byte(c);
    if (choice >= 250) {
        size_t len =
            (size_t)(c->end - c->at) < choice - 240u ? (size_t)(c->end - c->at) : choice - 240u;
        struct tn_bytes raw = tn_bytes_of(c->at, len);
        c->at += len;
        return raw;
    }
    int len = snprintf(c->names[slot], sizeof c->names[slot], "%s%u", prefix, choice % 8u);
    return tn_bytes_of(c->names[slot], (size_t)len);
}

static void commands_requested(struct commands *c, struct tn_writer *w, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (commands_byte(c) & 1) {
            kernel_requested_write_text(w, commands_name(c, 7, "s"));
        } else {
            kernel_requested_write_number(w, commands_number(c));
        }
    }
}

static void commands_claims(struct commands *c, struct kernel_command *command) {
    struct tn_writer w = tn_writer_of(c->claims, sizeof c->claims);
    command->claim_count = 1 + commands_byte(c) % 3u;
    for (uint32_t i = 0; i < command->claim_count; i++) {
        uint8_t form = commands_byte(c);
        uint32_t count = form % 5u;
        bool any = (form & 0x80) != 0;
        kernel_claim_write(&w, commands_name(c, 6, "p"), any, count);
        if (!any) {
            commands_requested(c, &w, count);
        }
    }
    command->claims = tn_bytes_of(c->claims, w.overflow ? 0 : w.len);
}

static void commands_policy(struct commands *c, struct kernel_command *command) {
    c->policy = (struct kernel_policy_patch){.mask = 0};
    for (unsigned n = commands_byte(c) % 8u; n > 0; n--) {
        unsigned option = commands_byte(c) % KERNEL_OPTION_COUNT;
        c->policy.mask |= (uint32_t)1 << option;
        c->policy.values.of[option] = commands_number(c);
    }
    command->policy = &c->policy;
}

/* A lease of the last few positions: most of these commands made one. */
static struct kernel_lease_id commands_lease(struct commands *c) {
    uint8_t back = commands_byte(c) % 64u;
    return (struct kernel_lease_id){.shard = 0, .lsn = c->lsn > back ? c->lsn - back : 0};
}

static void commands_fields(struct commands *c, struct kernel_command *command) {
    uint32_t fields = command->fields;
    command->lease = (fields & KERNEL_F_LEASE) ? commands_lease(c) : command->lease;
    command->epoch = (fields & KERNEL_F_EPOCH) ? commands_number(c) % 5 : 0;
    command->holder = (fields & KERNEL_F_HOLDER) ? commands_name(c, 0, "h") : command->holder;
    command->ttl_s = (fields & KERNEL_F_TTL) ? (uint32_t)commands_number(c) : 0;
    command->after_s = (fields & KERNEL_F_AFTER) ? (uint32_t)commands_number(c) : 0;
    command->meta = (fields & KERNEL_F_META) ? commands_name(c, 1, "{}") : command->meta;
    command->pool = (fields & KERNEL_F_POOL) ? commands_name(c, 2, "p") : command->pool;
    command->name = (fields & KERNEL_F_NAME) ? commands_name(c, 3, "s") : command->name;
    command->trigger = (fields & KERNEL_F_TRIGGER) ? commands_name(c, 4, "t") : command->trigger;
    command->spec = (fields & KERNEL_F_SPEC) ? commands_name(c, 5, "{}") : command->spec;
    command->enabled = (commands_byte(c) & 1) != 0;
    command->deadline_ms = c->now_ms + commands_number(c) * 1000;
    command->created_ms = command->seen_ms = c->now_ms - commands_number(c) % 1000;
    command->given_values = command->reclaimed = commands_number(c);
    if (fields & KERNEL_F_CLAIMS) {
        commands_claims(c, command);
    }
    if (fields & KERNEL_F_VALUES) {
        struct tn_writer w = tn_writer_of(c->values, sizeof c->values);
        command->value_count = commands_byte(c) % 5u;
        commands_requested(c, &w, command->value_count);
        command->values = tn_bytes_of(c->values, w.len);
    }
    if (fields & KERNEL_F_POLICY) {
        commands_policy(c, command);
    }
}

/* Makes the next command and applies it. False: no more bytes. */
static bool commands_step(struct commands *c) {
    static uint8_t encoded[16384];
    struct kernel_command command = {.verb = commands_byte(c) % KERNEL_VERB_COUNT};
    struct kernel_command decoded;
    char opid[8];
    if (c->at == c->end) {
        return false;
    }
    const struct kernel_verb_row *row = &kernel_verb_rows[command.verb];
    if (row->required & KERNEL_F_LIMITS) {
        return true; /* the engine must prepare these commands first */
    }
    uint8_t choice = commands_byte(c);
    command.rights = choice % 4u;
    command.fields = row->required | (row->optional & (uint32_t)(commands_byte(c) * 0x010101u));
    if (choice & 0x10) {
        int len = snprintf(opid, sizeof opid, "o%u", commands_byte(c) % 16u);
        command.opid = tn_bytes_of(opid, (size_t)len);
    }
    commands_fields(c, &command);
    c->now_ms += choice & 0x20 ? commands_number(c) % 100000 * 100 : 1;
    uint32_t len = kernel_command_encode(&command, encoded, sizeof encoded);
    bool whole = kernel_command_whole(&command);
    if (len == 0) {
        TN_ASSERT(!whole || kernel_command_size(&command) == 0 ||
                  kernel_command_size(&command) > sizeof encoded);
        return true;
    }
    /* The check before the encoding foretells what decoding says. */
    TN_ASSERT(kernel_command_decode(tn_bytes_of(encoded, len), &decoded) == whole);
    if (!whole) {
        return true;
    }
    TN_ASSERT(kernel_command_size(&command) == len && kernel_command_size(&decoded) == len);
    struct kernel_entry entry = {.lsn = ++c->lsn,
                                 .now_ms = c->now_ms,
                                 .encoded = tn_bytes_of(encoded, len),
                                 .command = &decoded};
    struct kernel_result result = {.values = c->got, .value_capacity = KERNEL_BUNDLE_MAX};
    kernel_apply(c->kernel, &entry, &result);
    TN_ASSERT(result.code < TN_R_COUNT && result.lsn <= c->lsn);
    return true;
}

/* ---- The kernel that they are for ---- */

static enum tn_status commands_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    (void)ctx;
    (void)big;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *ret_memory = memory;
    return memory == MAP_FAILED ? TN_NOMEM : TN_OK;
}

static void commands_release(void *ctx, void *memory, size_t bytes) {
    (void)ctx;
    (void)munmap(memory, bytes);
}

static struct kernel *commands_kernel_of(const struct kernel_limits *limits) {
    struct kernel_env env = {
        .mem_reserve = commands_reserve, .mem_release = commands_release, .hash_seed = 1};
    struct kernel *kernel = NULL;
    enum tn_status status = kernel_create(&env, limits, 0, &kernel);
    TN_ASSERT(status == TN_OK);
    return kernel;
}

static struct kernel *commands_kernel(void) {
    struct kernel_limits limits = kernel_limits_default();
    for (unsigned i = 0; i < KERNEL_LIMIT_COUNT; i++) {
        limits.of[i] = limits.of[i] > 64 && i != KERNEL_LIMIT_TEXT_BYTES ? 64 : limits.of[i];
    }
    limits.of[KERNEL_LIMIT_TEXT_BYTES] = 65536;
    limits.of[KERNEL_LIMIT_BUNDLE] = 8;
    return commands_kernel_of(&limits);
}

static void commands_begin(struct commands *c, const uint8_t *data, size_t size) {
    *c = (struct commands){.at = data, .end = data + size, .now_ms = 1000000};
    c->kernel = commands_kernel();
}

#endif
