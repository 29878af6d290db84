/* Parsing of the options of `tenure run`; the command follows --. */
#include "cli/run_options.h"

#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "cli/display.h"
#include "cli/run_times.h"
#include "cli/spell.h"

enum option { FROM, WAIT, HOLDER, TTL, KILL_AFTER, META, RENEW, CONTAINMENT, GUARDIAN, OPTIONS };

static const char *const names[OPTIONS] = {
    [FROM] = "--from",
    [WAIT] = "--wait",
    [HOLDER] = "--holder",
    [TTL] = "--ttl",
    [KILL_AFTER] = "--kill-after",
    [META] = "--meta",
    [RENEW] = "--renew-command",
    [CONTAINMENT] = "--containment",
    [GUARDIAN] = "--guardian",
};

const char *const *cli_run_code_row(unsigned row) {
    static const char *const rows[][2] = {
        {"121", "tenure run: no lease, so the command did not run"},
        {"122",
         "tenure run: the lease was revoked or could not be renewed in time, and the command "
         "was ended"},
        {"123",
         "tenure run: nothing proves that all processes of the command are dead; the lease is "
         "left to expire"},
        {"125", "tenure run: the command could not be started"},
        {"126", "tenure run: the command cannot be executed"},
        {"127", "tenure run: the command was not found"},
        {"128+N", "tenure run: signal N ended the command"},
    };
    return row < sizeof rows / sizeof rows[0] ? rows[row] : NULL;
}

static bool wrong(const char *what, const char *which) {
    (void)fprintf(stderr, "tenure run: %s%s\nusage: tenure run " CLI_RUN_USAGE "\n", what, which);
    return false;
}

/* gpus, gpus:2 or gpus/gpu-7. A pool's name may have colons: only digits behind the last are a count. */
static bool claim_add(struct cli_run_options *options, const char *text) {
    struct cli_run_claim *claim = &options->claims[options->claim_count];
    size_t len = strcspn(text, "/");
    const char *colon = memrchr(text, ':', len);
    uint64_t count = 1;
    if (options->claim_count == CLI_RUN_CLAIMS_MAX) {
        return wrong("too many --from", "");
    }
    claim->value = text[len] == '/' ? text + len + 1 : NULL;
    const char *digits = colon != NULL && claim->value == NULL ? colon + 1 : NULL;
    if (digits != NULL && cli_number_parse(tn_bytes_of(digits, strlen(digits)), &count)) {
        len = (size_t)(colon - text);
    }
    if (len == 0 || len > KERNEL_POOL_MAX || count == 0 ||
        (claim->value != NULL && claim->value[0] == '\0')) {
        return wrong("not POOL, POOL:COUNT or POOL/VALUE: ", text);
    }
    memcpy(claim->pool, text, len);
    claim->pool[len] = '\0';
    (void)snprintf(claim->count, sizeof claim->count, "%llu", (unsigned long long)count);
    options->claim_count++;
    return true;
}

static bool containment_set(struct cli_run_options *options, const char *word) {
    static const char *const words[] = {[CLI_RUN_CONTAIN_AUTO] = "auto",
                                        [CLI_RUN_CONTAIN_CGROUP] = "cgroup",
                                        [CLI_RUN_CONTAIN_PIDNS] = "pidns",
                                        [CLI_RUN_CONTAIN_NONE] = "none"};
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i]) == 0) {
            options->containment = (enum cli_run_containment)i;
            return true;
        }
    }
    return wrong("--containment is auto, cgroup, pidns or none, not ", word);
}

static bool option_set(struct cli_run_options *options, enum option option, const char *value) {
    struct tn_bytes text = tn_bytes_of(value, strlen(value));
    switch (option) {
    case FROM:
        return claim_add(options, value);
    case WAIT:
        return (tn_duration_parse(text, &options->wait_s) &&
                options->wait_s <= CLI_RUN_WAIT_MAX_S) ||
               wrong("--wait is " TN_DURATION_FORM ", at most a day, not ", value);
    case HOLDER:
        options->holder = value;
        return (value[0] != '\0' && strcmp(value, "*") != 0) ||
               wrong("not the name of a holder: ", value);
    case TTL:
        options->has_ttl = true;
        return tn_duration_parse(text, &options->ttl_s) ||
               wrong("--ttl is " TN_DURATION_FORM ", not ", value);
    case KILL_AFTER:
        options->has_kill_after = true;
        return tn_duration_parse_ms(text, &options->kill_after_ms) ||
               wrong("--kill-after is " TN_DURATION_FORM ", not ", value);
    case META:
        options->meta = value;
        return true;
    case RENEW:
        options->renew_command = value;
        return value[0] != '\0' || wrong("--renew-command is empty", "");
    case CONTAINMENT:
        return containment_set(options, value);
    default:
        options->guardian = value;
        return true;
    }
}

static bool unknown(const char *argument) {
    struct cli_guess guess = cli_guess_for(argument);
    for (unsigned i = 0; i < OPTIONS; i++) {
        cli_guess_try(&guess, names[i]);
    }
    if (argument[0] != '-') {
        return wrong("put -- before the command: ", argument);
    }
    return wrong(cli_guess_found(&guess) ? "did you mean " : "unknown option ",
                 cli_guess_found(&guess) ? guess.best : argument);
}

static bool option_take(struct cli_run_options *options, int argc, char **argv, int *inout_at) {
    const char *argument = argv[(*inout_at)++];
    size_t len = strcspn(argument, "=");
    const char *value = argument[len] == '=' ? argument + len + 1 : NULL;
    unsigned i = 0;
    while (i < OPTIONS && !cli_option_is(argument, len, names[i] + 2)) {
        i++;
    }
    if (i == OPTIONS || strncmp(argument, "--", 2) != 0) {
        return unknown(argument);
    }
    value = value == NULL && *inout_at < argc ? argv[(*inout_at)++] : value;
    return value != NULL ? option_set(options, (enum option)i, value)
                         : wrong("a value is missing after ", names[i]);
}

static bool times_check(struct cli_run_options *options) {
    options->ttl_s = options->has_ttl ? options->ttl_s : CLI_RUN_TTL_S;
    if (options->ttl_s < CLI_RUN_TTL_MIN_S || options->ttl_s > 1000000000) {
        return wrong("--ttl is at least 2 seconds", "");
    }
    return !options->has_kill_after ||
           options->kill_after_ms <= cli_run_kill_after_most(options->ttl_s * 1000) ||
           wrong("--kill-after is at most two fifths of --ttl", "");
}

bool cli_run_options_parse(struct cli_run_options *options, int argc, char **argv) {
    int at = 0;
    while (at < argc && strcmp(argv[at], "--") != 0) {
        if (!option_take(options, argc, argv, &at)) {
            return false;
        }
    }
    options->command = argv + at + 1;
    if (at + 1 >= argc) {
        return wrong("a command is missing after --", "");
    }
    if (options->claim_count == 0) {
        return wrong("--from is missing", "");
    }
    return times_check(options);
}
