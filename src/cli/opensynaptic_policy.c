/* `tenure opensynaptic policy`: security_settings.id_lease of Config.json as a pool's options.
 *
 * The keys are the names of pool options, so the values are sent to the server unchanged, and the
 * server validates them. Nothing is replaced, rounded or skipped: unknown keys are refused. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/opensynaptic.h"
#include "cli/options.h"
#include "kernel/option.h"
#include "protocol/walk.h"

#define DAY 86400u
#define MICRO 1000000u
#define WORDS_MAX 64u

static const char *const keys[] = {
    "offline_hold_days",          "base_lease_seconds",           "min_lease_seconds",
    "rate_window_seconds",        "high_rate_threshold_per_hour", "ultra_rate_threshold_per_hour",
    "ultra_rate_sustain_seconds", "high_rate_min_factor",         "adaptive_enabled",
    "ultra_force_release",        "metrics_emit_interval_seconds"};

#define KEYS (sizeof keys / sizeof keys[0])

struct policy {
    char texts[KEYS][64]; /* of each key; empty: not given */
    struct tn_bytes words[WORDS_MAX];
    uint32_t count;
};

static bool refused(const char *path, const char *key, const char *why) {
    (void)fprintf(stderr, "tenure opensynaptic: %s: id_lease.%s %s\n", path, key, why);
    return false;
}

static void add(struct policy *policy, const char *word) {
    policy->words[policy->count++] = tn_bytes_of(word, strlen(word));
}

/* ---- Reading ---- */

static bool is_flag(const char *key) {
    return strcmp(key, "adaptive_enabled") == 0 || strcmp(key, "ultra_force_release") == 0;
}

static bool value_read(const char *path, const char *key, struct tn_bytes value, char text[64]) {
    enum protocol_json_kind kind = protocol_json_kind(value);
    if (is_flag(key)) {
        if (kind != PROTOCOL_JSON_TRUE && kind != PROTOCOL_JSON_FALSE) {
            return refused(path, key, "must be true or false");
        }
        (void)snprintf(text, 64, "%s", kind == PROTOCOL_JSON_TRUE ? "yes" : "no");
        return true;
    }
    if (kind != PROTOCOL_JSON_NUMBER) {
        return refused(path, key, "is not a number");
    }
    if (value.at[0] == '-') {
        return refused(path, key, "is negative");
    }
    if (value.len >= 64) {
        return refused(path, key, "has too many digits");
    }
    memcpy(text, value.at, value.len);
    text[value.len] = '\0';
    return true;
}

static bool policy_read(struct policy *policy, const char *path, struct tn_bytes lease) {
    struct protocol_walk walk = protocol_walk_of(lease);
    struct tn_bytes key;
    struct tn_bytes value;
    while (protocol_walk_next(&walk, &key, &value)) {
        size_t i = 0;
        while (i < KEYS &&
               !(key.len == strlen(keys[i]) + 2 && memcmp(key.at + 1, keys[i], key.len - 2) == 0)) {
            i++;
        }
        if (i == KEYS) {
            char name[64];
            (void)snprintf(name, sizeof name, "%.*s", (int)(key.len < 60 ? key.len : 60),
                           (const char *)key.at);
            return refused(path, name, "is an unknown key");
        }
        if (!value_read(path, keys[i], value, policy->texts[i])) {
            return false;
        }
    }
    return true;
}

/* Days with up to six decimals, in seconds if that is a whole number of them. */
static bool days_seconds(const char *text, uint64_t *ret_seconds) {
    uint64_t micro;
    if (!kernel_micro_parse(text, &micro) || micro > UINT64_MAX / DAY) {
        return false;
    }
    *ret_seconds = micro * DAY / MICRO;
    return micro * DAY % MICRO == 0;
}

/* The two names of the base must not contradict each other: which one would count? */
static bool base_choose(struct policy *policy, const char *path) {
    const char *days = policy->texts[0];
    char *base = policy->texts[1];
    uint64_t seconds = 0;
    char text[24];
    if (days[0] == '\0') {
        return true;
    }
    if (!days_seconds(days, &seconds)) {
        return refused(path, keys[0], "is not a whole number of seconds");
    }
    (void)snprintf(text, sizeof text, "%" PRIu64, seconds);
    if (base[0] != '\0' && strcmp(base, text) != 0) {
        (void)fprintf(
            stderr,
            "tenure opensynaptic: %s: offline_hold_days %s is %s seconds, but base_lease_seconds "
            "is %s; remove one of them\n",
            path, days, text, base);
        return false;
    }
    (void)snprintf(base, sizeof policy->texts[1], "%s", text);
    return true;
}

/* ---- The command ---- */

/* "1-65535". */
static bool range_add(struct policy *policy, const char *range, char lo[32]) {
    size_t len = strcspn(range, "-");
    if (range[len] != '-' || len == 0 || len >= 32) {
        return false;
    }
    memcpy(lo, range, len);
    lo[len] = '\0';
    add(policy, "RANGE");
    add(policy, lo);
    add(policy, range + len + 1);
    return true;
}

static void options_add(struct policy *policy) {
    for (size_t i = 1; i < KEYS; i++) {
        if (policy->texts[i][0] != '\0') {
            add(policy, keys[i]);
            add(policy, policy->texts[i]);
        }
    }
}

/* ---- Judging ---- */

static bool option_judge(struct kernel_policy_patch *patch, struct tn_bytes name,
                         struct tn_bytes value) {
    char key[64];
    char text[KERNEL_OPTION_TEXT_MAX];
    char detail[KERNEL_OPTION_DETAIL];
    if (name.len >= sizeof key || value.len >= sizeof text) {
        return false;
    }
    memcpy(key, name.at, name.len);
    key[name.len] = '\0';
    memcpy(text, value.at, value.len);
    text[value.len] = '\0';
    if (!kernel_option_set(key, text, patch, detail)) {
        (void)fprintf(stderr, "tenure opensynaptic: %s\n", detail);
        return false;
    }
    return true;
}

/* In place of the range that the pool has. */
static bool range_judge(struct kernel_policy_patch *patch, struct tn_bytes lo, struct tn_bytes hi) {
    char text[KERNEL_OPTION_DETAIL];
    int len = snprintf(text, sizeof text, "%.*s-%.*s", (int)lo.len, (const char *)lo.at,
                       (int)hi.len, (const char *)hi.at);
    return len > 0 && (size_t)len < sizeof text &&
           option_judge(patch, tn_bytes_of("range", 5), tn_bytes_of(text, (size_t)len));
}

/* The options as they will be, those of the pool included, by the rules of the server: it would
 * only say that they contradict each other. */
static bool policy_judge(const struct policy *policy, const struct cli_reader *reader,
                         bool exists) {
    struct kernel_policy_patch patch = {.mask = 0};
    uint32_t options = exists ? cli_node_find(reader, 0, "options") : 0;
    uint32_t end = options != 0 ? reader->nodes[options].end : 0;
    for (uint32_t node = options + 1; node + 1 < end; node += 2) {
        if (!option_judge(&patch, cli_node_text(reader, node), cli_node_text(reader, node + 1))) {
            return false;
        }
    }
    for (uint32_t i = 3; i + 1 < policy->count; i += 2) {
        const struct tn_bytes *word = &policy->words[i];
        bool range = tn_bytes_equal(word[0], tn_bytes_of("RANGE", 5));
        bool sticky = tn_bytes_equal(word[0], tn_bytes_of("STICKY", 6));
        bool good =
            range ? range_judge(&patch, word[1], word[2])
                  : option_judge(&patch, sticky ? tn_bytes_of("sticky", 6) : word[0], word[1]);
        if (!good) {
            return false;
        }
        i += range;
    }
    struct kernel_policy whole = kernel_policy_new(&patch);
    enum kernel_fault fault = kernel_policy_fault(&whole, UINT64_MAX);
    if (fault != KERNEL_FAULT_NONE) {
        (void)fprintf(stderr, "tenure opensynaptic: options contradict each other: %s\n",
                      kernel_fault_text(fault));
    }
    return fault == KERNEL_FAULT_NONE;
}

/* ---- Applying ---- */

/* The words, for a pool that is there or not. The exit code. */
static int policy_spell(struct policy *policy, const struct opensynaptic_pool *pool,
                        const char *range, char lo[32]) {
    int code = CLI_OK;
    if (pool->exists && !opensynaptic_pool_serves(pool, &code)) {
        return code;
    }
    add(policy, "POOL");
    add(policy, pool->exists ? "ALTER" : "CREATE");
    add(policy, pool->name);
    range = range == NULL && !pool->exists ? "1-4294967294" : range;
    if (range != NULL && !range_add(policy, range, lo)) {
        (void)fprintf(stderr, "tenure opensynaptic: --range is LO-HI, not %s\n", range);
        return CLI_USAGE;
    }
    if (!pool->exists) {
        add(policy, "STICKY");
        add(policy, "yes");
    }
    options_add(policy);
    return CLI_OK;
}

static int policy_apply(const struct cli_settings *settings, struct policy *policy,
                        const char *name, const char *range, bool dry_run) {
    struct cli_client client = {.socket = -1};
    struct opensynaptic_pool pool;
    char lo[32];
    int code = opensynaptic_connect(&client, settings, name, &pool);
    code = code == CLI_OK ? policy_spell(policy, &pool, range, lo) : code;
    if (code == CLI_OK && !policy_judge(policy, &client.reader, pool.exists)) {
        code = tn_result_exit(TN_R_BAD_POLICY);
    }
    if (code == CLI_OK && !dry_run) {
        code = opensynaptic_call(&client, settings, policy->words, policy->count);
    }
    for (uint32_t i = 0; code == CLI_OK && i < policy->count; i++) {
        (void)printf("%.*s%c", (int)policy->words[i].len, (const char *)policy->words[i].at,
                     i + 1 < policy->count ? ' ' : '\n');
    }
    cli_client_close(&client);
    return code;
}

int opensynaptic_policy(const struct cli_settings *settings, int argc, char **argv) {
    const char *pool = NULL;
    const char *path = NULL;
    const char *range = NULL;
    bool dry_run = false;
    uint8_t *bytes = NULL;
    struct tn_bytes text;
    struct policy policy = {.count = 0};
    const struct cli_option rows[] = {
        {"--pool", &pool, NULL}, {"--range", &range, NULL}, {"--dry-run", NULL, &dry_run}};
    const struct cli_options options = {"opensynaptic policy",
                                        "FILE --pool POOL [--range LO-HI] [--dry-run]",
                                        rows,
                                        sizeof rows / sizeof rows[0],
                                        &path,
                                        1};
    if (!cli_options_parse(&options, argc, argv)) {
        return CLI_USAGE;
    }
    if (path == NULL || pool == NULL) {
        (void)cli_options_wrong(&options, path == NULL ? "which file?" : "specify a pool", "");
        return CLI_USAGE;
    }
    if (!opensynaptic_read(path, &bytes, &text)) {
        return CLI_FAILED;
    }
    struct tn_bytes lease =
        opensynaptic_member(opensynaptic_member(text, "security_settings"), "id_lease");
    int code = CLI_FAILED;
    if (lease.len == 0 || protocol_json_kind(lease) != PROTOCOL_JSON_OBJECT) {
        (void)fprintf(stderr,
                      "tenure opensynaptic: %s: the object security_settings.id_lease is missing\n",
                      path);
    } else if (policy_read(&policy, path, lease) && base_choose(&policy, path)) {
        code = policy_apply(settings, &policy, pool, range, dry_run);
    }
    free(bytes);
    return code;
}
