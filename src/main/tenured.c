/* `tenured`: the server. Opens the engine on a data directory and serves it until told to stop.
 *
 * Exit codes: 0 stopped by SIGTERM or SIGINT, 1 the engine halted or the last snapshot failed, 2 it
 * could not start. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "kernel/types.h"
#include "server/server.h"
#include "tenure.h"

static const char usage[] =
    "usage: tenured [--data DIR] [--listen HOST:PORT] [--http HOST:PORT] [--port-file FILE] ...\n"
    "\n"
    "  --data DIR               where everything is kept (./data)\n"
    "  --listen HOST:PORT       a loopback address (127.0.0.1:7411); port 0 picks a free one\n"
    "  --http HOST:PORT         the same for HTTP (127.0.0.1:7412); off: none\n"
    "  --port-file FILE         gets the ports' numbers, a line each, when the server is ready\n"
    "  --max-connections N      at most so many clients (10000)\n"
    "  --slow-seconds N         drop a client that takes none of its replies for so long (30)\n"
    "  --idle-seconds N         drop a client that asks for nothing for so long (0: never)\n"
    "  --confirm-time-jump      start though the clock is more than 30 days ahead of the log\n"
    "  --version, --help\n";

struct settings {
    const char *data;
    struct server_options server;
    bool confirm_time_jump;
};

static bool number(const char *text, uint32_t least, uint32_t *ret_number) {
    uint64_t value;
    if (!kernel_value_parse(KERNEL_DEC, tn_bytes_of(text, strlen(text)), &value) || value < least ||
        value > 1000000) {
        return false;
    }
    *ret_number = (uint32_t)value;
    return true;
}

/* One flag and its value. */
static bool set(struct settings *settings, const char *flag, const char *value) {
    struct server_options *server = &settings->server;
    if (strcmp(flag, "--data") == 0) {
        settings->data = value;
    } else if (strcmp(flag, "--listen") == 0) {
        server->listen = value;
    } else if (strcmp(flag, "--http") == 0) {
        server->http = value;
    } else if (strcmp(flag, "--port-file") == 0) {
        server->port_file = value;
    } else if (strcmp(flag, "--max-connections") == 0) {
        return number(value, 1, &server->connections_max);
    } else if (strcmp(flag, "--slow-seconds") == 0) {
        return number(value, 1, &server->slow_seconds);
    } else if (strcmp(flag, "--idle-seconds") == 0) {
        return number(value, 0, &server->idle_seconds);
    } else {
        return false;
    }
    return true;
}

/* -1: go on; else the exit code. */
static int arguments_parse(int argc, char **argv, struct settings *settings) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            (void)fputs(usage, stdout);
            return 0;
        }
        if (strcmp(argv[i], "--version") == 0) {
            (void)printf("tenured %s\n", tenure_version());
            return 0;
        }
        if (strcmp(argv[i], "--confirm-time-jump") == 0) {
            settings->confirm_time_jump = true;
            continue;
        }
        if (i + 1 == argc || !set(settings, argv[i], argv[i + 1])) {
            (void)fprintf(stderr, "tenured: what is '%s%s%s'?\n\n%s", argv[i],
                          i + 1 < argc ? " " : "", i + 1 < argc ? argv[i + 1] : "", usage);
            return 2;
        }
        i++;
    }
    return -1;
}

/* A descriptor a client: as many as we are allowed. */
static void descriptors_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void notice(void *ctx, const char *line) {
    (void)ctx;
    server_log_line(line);
}

int main(int argc, char **argv) {
    struct log_error error;
    struct settings settings = {.data = "./data",
                                .server = {.listen = "127.0.0.1:7411",
                                           .http = "127.0.0.1:7412",
                                           .connections_max = SERVER_CONNECTIONS_MAX,
                                           .slow_seconds = SERVER_SLOW_SECONDS,
                                           .os = os_posix()}};
    int code = arguments_parse(argc, argv, &settings);
    if (code >= 0) {
        return code;
    }
    server_log_setup(os_posix(), false);
    descriptors_raise();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a failed write, not our death */
    struct engine_options options = {.local = {.dir = settings.data},
                                     .confirm_time_jump = settings.confirm_time_jump,
                                     .notice = notice};
    enum tn_status status = engine_open(&options, &settings.server.engine, &error);
    if (status != TN_OK) {
        server_log("refused", "data=%s reason=\"%s\"", settings.data, error.text);
        return 2;
    }
    settings.server.data = settings.data;
    settings.server.version = tenure_version();
    code = server_run(&settings.server);
    if (!engine_close(settings.server.engine) && code == 0) {
        server_log("close_failed", "data=%s", settings.data);
        code = 1;
    }
    return code;
}
