/* The order of the examinations, and how findings are printed. */
#include "doctor/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/doctor_parts.h"

#define USUAL_CONFIG "/etc/tenure/tenured.conf"
#define FLAGS_MAX (DOCTOR_WORDS_MAX + 64)

static const char *const level_names[DOCTOR_LEVELS] = {"ok", "unknown", "warning", "problem"};

/* ---- Findings ---- */

static void json_add(struct doctor *doctor, enum doctor_level level, const char *area,
                     const char *what, const char *advice) {
    struct cli_text *json = &doctor->json;
    cli_text_put(json, json->len > 0 ? "," : "{\"findings\":[");
    cli_text_printf(json, "{\"level\":\"%s\",\"area\":\"%s\",\"what\":", level_names[level], area);
    cli_text_json(json, tn_bytes_of(what, strlen(what)));
    if (advice != NULL) {
        cli_text_put(json, ",\"advice\":");
        cli_text_json(json, tn_bytes_of(advice, strlen(advice)));
    }
    cli_text_put(json, "}");
}

static void line_print(const struct doctor *doctor, enum doctor_level level, const char *area,
                       const char *what, const char *advice) {
    static const char *const colours[DOCTOR_LEVELS] = {"\033[32m", "\033[36m", "\033[33m",
                                                       "\033[31m"};
    struct cli_text text = {.at = NULL};
    cli_text_put(&text, doctor->screen.colour ? colours[level] : "");
    cli_text_printf(&text, "%-8s", level_names[level]);
    cli_text_put(&text, doctor->screen.colour ? "\033[0m" : "");
    cli_text_printf(&text, "%-10s", area);
    cli_text_clean(&text, tn_bytes_of(what, strlen(what)));
    if (advice != NULL) {
        cli_text_put(&text, "; ");
        cli_text_clean(&text, tn_bytes_of(advice, strlen(advice)));
    }
    (void)printf("%s\n", text.failed ? "" : text.at);
    (void)fflush(stdout);
    cli_text_free(&text);
}

void doctor_say(struct doctor *doctor, enum doctor_level level, const char *area,
                const char *advice, const char *format, ...) {
    char what[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    doctor->counts[level]++;
    if (doctor->settings->json) {
        json_add(doctor, level, area, what, advice);
    } else {
        line_print(doctor, level, area, what, advice);
    }
}

const char *doctor_advice(const char *format, ...) {
    static char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

const char *doctor_bytes(uint64_t bytes, char out[32]) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, 32, "%.*f %s", unit > 0 && value < 10 ? 1 : 0, value, units[unit]);
    return out;
}

bool doctor_line_read(const char *path, char *out, size_t room) {
    FILE *file = fopen(path, "re");
    bool good = file != NULL && fgets(out, (int)room, file) != NULL;
    if (good) {
        out[strcspn(out, "\n")] = '\0';
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return good;
}

/* ---- The configuration ---- */

static void mistake(void *ctx, const char *where, const char *what) {
    struct doctor *doctor = ctx;
    if (strncmp(where, "--", 2) == 0 || strncmp(what, "unknown flag", 12) == 0) {
        doctor->wrong_flag = true;
    }
    doctor_say(doctor, DOCTOR_PROBLEM, "config", "correct it; tenured refuses to start with it",
               "%s: %s", where, what);
}

static bool names_server(int argc, char **argv) {
    const char *config = getenv("TENURE_CONFIG");
    const char *data = getenv("TENURE_DATA");
    bool named = (config != NULL && *config != '\0') || (data != NULL && *data != '\0');
    for (int i = 0; i < argc; i++) {
        named = named || strncmp(argv[i], "--config", 8) == 0 || strncmp(argv[i], "--data", 6) == 0;
    }
    return named;
}

/* The flags that tenured would get: those of the unit, or the usual file, followed by the user's.
 * If the user names a configuration or a directory, only the user's. */
static int flags_collect(struct doctor *doctor, int argc, char **argv, char *out[FLAGS_MAX]) {
    static char program[] = "tenured", flag[] = "--config", usual[] = USUAL_CONFIG;
    int count = 0;
    out[count++] = program;
    doctor->named = names_server(argc, argv);
    if (!doctor->named) {
        for (int i = 0; i < doctor->unit.count; i++) {
            out[count++] = doctor->unit.words[i];
        }
        if (doctor->unit.count == 0 && access(usual, F_OK) == 0) {
            out[count++] = flag;
            out[count++] = usual;
        }
    }
    for (int i = 0; i < argc && count < (int)FLAGS_MAX - 1; i++) {
        if (strcmp(argv[i], "--strict") != 0) {
            out[count++] = argv[i];
        }
    }
    out[count] = NULL;
    return count;
}

/* A file that may not be read is not an error in the file. False: the examination cannot
 * continue. */
static bool config_read(struct doctor *doctor, int argc, char **argv) {
    char *flags[FLAGS_MAX];
    int count = flags_collect(doctor, argc, argv, flags);
    for (int i = 1; i + 1 < count; i++) {
        if (strcmp(flags[i], "--config") == 0 && access(flags[i + 1], R_OK) != 0 &&
            errno == EACCES) {
            doctor_say(doctor, DOCTOR_UNKNOWN, "config",
                       "run this as root, or as the user of the server: sudo tenure doctor",
                       "cannot look: %s: %s", flags[i + 1], strerror(errno));
            memmove(flags + i, flags + i + 2, (size_t)(count - i - 1) * sizeof flags[0]);
            count -= 2;
            break;
        }
    }
    bool good = config_load(&doctor->config, doctor->os, count, flags, mistake, doctor);
    if (doctor->wrong_flag || doctor->config.action != CONFIG_SERVE) {
        return false;
    }
    const char *file = config_text(&doctor->config, CONFIG_CONFIG);
    if (good && *file != '\0') {
        doctor_say(doctor, DOCTOR_OK, "config", NULL, "%s has no mistakes", file);
    } else if (good) {
        doctor_say(doctor, DOCTOR_OK, "config", NULL,
                   "no file: settings come from defaults, the environment and flags");
    }
    return true;
}

/* ---- The whole ---- */

static void summary_print(struct doctor *doctor) {
    const uint32_t *counts = doctor->counts;
    if (!doctor->settings->json) {
        (void)printf("%u ok, %u unknown, %u warnings, %u problems\n", counts[DOCTOR_OK],
                     counts[DOCTOR_UNKNOWN], counts[DOCTOR_WARNING], counts[DOCTOR_PROBLEM]);
        return;
    }
    cli_text_printf(&doctor->json, "],\"ok\":%u,\"unknown\":%u,\"warnings\":%u,\"problems\":%u}",
                    counts[DOCTOR_OK], counts[DOCTOR_UNKNOWN], counts[DOCTOR_WARNING],
                    counts[DOCTOR_PROBLEM]);
    (void)printf("%s\n", doctor->json.failed ? "" : doctor->json.at);
}

static int examine(struct doctor *doctor, int argc, char **argv) {
    bool strict = false;
    for (int i = 0; i < argc; i++) {
        strict = strict || strcmp(argv[i], "--strict") == 0;
    }
    doctor_unit_find(&doctor->unit, doctor->os);
    if (!config_read(doctor, argc, argv)) {
        (void)fprintf(stderr,
                      "usage: tenure doctor [--strict] [--config FILE] [--data DIR] [FLAG OF "
                      "tenured...]\n");
        return CLI_USAGE;
    }
    doctor_files(doctor);
    doctor_dir(doctor);
    doctor_clock(doctor);
    doctor_disk(doctor);
    doctor_limits(doctor);
    doctor_ports(doctor);
    doctor_tls(doctor);
    doctor_unit(doctor);
    summary_print(doctor);
    bool bad = doctor->counts[DOCTOR_PROBLEM] > 0 || (strict && doctor->counts[DOCTOR_WARNING] > 0);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "tenure: cannot write to standard output\n");
        bad = true;
    }
    return bad ? CLI_FAILED : CLI_OK;
}

int doctor_run(const struct cli_settings *settings, int argc, char **argv) {
    struct doctor *doctor = calloc(1, sizeof *doctor);
    if (doctor == NULL || argc > (int)DOCTOR_WORDS_MAX) {
        (void)fprintf(stderr, "tenure doctor: %s\n",
                      doctor == NULL ? "out of memory" : "too many arguments");
        free(doctor);
        return doctor == NULL ? CLI_FAILED : CLI_USAGE;
    }
    doctor->os = settings->os;
    doctor->settings = settings;
    doctor->screen = cli_screen_of(stdout);
    int code = examine(doctor, argc, argv);
    config_free(&doctor->config);
    cli_text_free(&doctor->json);
    free(doctor);
    return code;
}
