/* `tenure`: the command line. The subcommands that are not commands of the server are in one table;
 * every other is looked up in the table of commands. Each lives in src/cli. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/spell.h"
#include "config/config.h"
#include "doctor/doctor.h"
#include "process/proc.h"
#include "tenure.h"

static int run_help(const struct cli_settings *settings, int argc, char **argv) {
    (void)settings;
    return cli_help(argc, argv);
}

static int run_check(const struct cli_settings *settings, int argc, char **argv) {
    (void)settings;
    return cli_check(argc, argv);
}

static int run_completion(const struct cli_settings *settings, int argc, char **argv) {
    (void)settings;
    return cli_completion(argc, argv);
}

static int run_restore(const struct cli_settings *settings, int argc, char **argv) {
    (void)settings;
    return cli_restore(argc, argv);
}

static int run_dump(const struct cli_settings *settings, int argc, char **argv) {
    return cli_dump(settings->json, argc, argv);
}

static const struct {
    const char *name;
    int (*run)(const struct cli_settings *settings, int argc, char **argv);
} locals[] = {
    {"backup", cli_backup},
    {"check", run_check},
    {"cluster", cli_cluster},
    {"complete", cli_complete},
    {"completion", run_completion},
    {"doctor", doctor_run},
    {"dump", run_dump},
    {"events", cli_events},
    {"export", cli_export},
    {"help", run_help},
    {"history", cli_history},
    {"import", cli_import},
    {"opensynaptic", cli_opensynaptic},
    {"restore", run_restore},
    {"run", cli_run},
    {"top", cli_top},
};

/* --watch repeats only commands of the server. */
static bool may_watch(int argc, char **argv) {
    const struct protocol_command *row = cli_command_find(argc, argv);
    bool local = strcmp(argv[0], "cluster") != 0 && cli_is_local(argv[0]);
    return !local && (row == NULL || !protocol_command_has(row, PROTOCOL_FOLLOW)) &&
           !cli_is_demand(argc, argv);
}

static int dispatch(const struct cli_settings *settings, int argc, char **argv) {
    if (argc == 0) {
        cli_help_short(stderr);
        (void)fprintf(stderr, "\n`tenure help` lists the subcommands\n");
        return CLI_USAGE;
    }
    if (settings->watch_ms > 0 && !may_watch(argc, argv)) {
        (void)fprintf(stderr, "tenure %s: --watch is only for commands that read%s\n", argv[0],
                      strcmp(argv[0], "events") == 0 ? "; use --follow" : "");
        return CLI_USAGE;
    }
    for (size_t i = 0; i < sizeof locals / sizeof locals[0]; i++) {
        if (strcmp(argv[0], locals[i].name) == 0) {
            return locals[i].run(settings, argc - 1, argv + 1);
        }
    }
    if (cli_is_demand(argc, argv)) {
        return cli_demand(settings, argc, argv);
    }
    if (cli_is_user(argc, argv)) {
        return cli_user(settings, argc, argv);
    }
    const struct protocol_command *row = cli_command_find(argc, argv);
    if (row != NULL && protocol_command_has(row, PROTOCOL_FOLLOW)) {
        return cli_logs(settings, argc, argv);
    }
    return row != NULL ? cli_call(settings, argc, argv) : cli_unknown(argc, argv);
}

/* Handles arguments before the subcommand that are not settings. Returns -1, or the exit code. */
static int early(const char *argument, bool last) {
    if (strcmp(argument, "--version") == 0) {
        (void)printf("tenure %s\n", tenure_version());
        return CLI_OK;
    }
    if (strcmp(argument, "--help") == 0 || (last && strcmp(argument, "-h") == 0)) {
        return cli_help(0, NULL);
    }
    return -1;
}

/* Removes the settings from the arguments; after -- nothing is removed. */
static int settings_take(struct cli_settings *settings, int argc, char **argv, int *ret_count) {
    bool leading = true;
    int count = 0;
    for (int at = 0; at < argc;) {
        if (strcmp(argv[at], "--") == 0) {
            while (at < argc) {
                argv[count++] = argv[at++];
            }
            break;
        }
        int code = leading ? early(argv[at], at + 1 == argc) : -1;
        if (code >= 0) {
            *ret_count = -1;
            return code;
        }
        if (strcmp(argv[at], "--help") == 0) {
            *ret_count = -1;
            return cli_help(count, argv);
        }
        int taken = cli_settings_take(settings, argc, argv, &at, leading);
        if (taken < 0) {
            return CLI_USAGE;
        }
        if (taken == 0) {
            if (leading && argv[at][0] == '-') {
                (void)fprintf(stderr, "tenure: unknown option %s\n", argv[at]);
                cli_help_short(stderr);
                return CLI_USAGE;
            }
            leading = false;
            argv[count++] = argv[at++];
        }
    }
    argv[count] = NULL; /* `tenure run` passes the remaining arguments on unchanged */
    *ret_count = count;
    return CLI_OK;
}

static int start(int argc, char **argv) {
    struct cli_settings settings;
    int count = 0;
    /* Columns are counted in characters, whatever the locale is. */
    if (setlocale(LC_ALL, "") == NULL || MB_CUR_MAX == 1) {
        (void)setlocale(LC_CTYPE, "C.UTF-8");
    }
    /* These commands need no server, so they run even if the connection settings are wrong. With
     * settings before them, they are found like all others. */
    if (argc > 1 && strcmp(argv[1], "check") == 0) {
        return cli_check(argc - 2, argv + 2);
    }
    if (argc > 1 && strcmp(argv[1], "restore") == 0) {
        return cli_restore(argc - 2, argv + 2);
    }
    if (argc > 1 && strcmp(argv[1], "dump") == 0) {
        return cli_dump(false, argc - 2, argv + 2);
    }
    if (!cli_settings_init(&settings, os_posix())) {
        return CLI_USAGE;
    }
    settings.is_server_variable = config_is_variable;
    int code = settings_take(&settings, argc - 1, argv + 1, &count);
    if (code != CLI_OK || count < 0) {
        return code;
    }
    return dispatch(&settings, count, argv + 1);
}

int main(int argc, char **argv) {
    if (!process_streams_open()) {
        return CLI_FAILED;
    }
    int code = start(argc, argv);
    if (code == CLI_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        (void)fprintf(stderr, "tenure: cannot write to standard output\n");
        code = CLI_FAILED;
    }
    return code;
}
