/* Makes the tables of settings in docs/operations.md from the table of settings.
 *
 *   gen-settings             prints them
 *   gen-settings FILE        exits 1 if the file does not have them, as they would be printed */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "generate.h"

static void print_bounds(FILE *out, const struct config_row *row) {
    if (row->type == CONFIG_NUMBER || row->type == CONFIG_BYTES || row->type == CONFIG_DURATION) {
        (void)fprintf(out, "%" PRIu64 " – %" PRIu64, row->low, row->high);
    } else if (row->type == CONFIG_SECONDS) {
        (void)fprintf(out, "%" PRIu64 " – %" PRIu64, row->low / 1000, row->high / 1000);
    } else if (row->type == CONFIG_SWITCH) {
        (void)fprintf(out, "`on`, `off`");
    } else if (row->type == CONFIG_CONSENT) {
        (void)fprintf(out, "`yes`, `no`");
    } else if (row->type == CONFIG_CLIENTS) {
        (void)fprintf(out, "`no`, `optional`, `required`");
    } else if (row->type == CONFIG_DEFINER) {
        (void)fprintf(out, "`file`, `admin`");
    } else if (row->type == CONFIG_FENCING) {
        (void)fprintf(out, "`timed`, `proven`");
    } else if (row->type == CONFIG_CURRENCY) {
        (void)fprintf(out, "`local`, `quorum`");
    } else if (row->type == CONFIG_FORM) {
        (void)fprintf(out, "`logfmt`, `json`");
    } else if (row->type == CONFIG_CONTAINMENT) {
        (void)fprintf(out, "`auto`, `pidns`, `cgroup`, `none`");
    } else if (row->type == CONFIG_ADDRESS) {
        (void)fprintf(out, "HOST:PORT%s", row->high == 1 ? ", `off`" : "");
    }
}

static void print_row(FILE *out, const struct config_row *row) {
    char flag[CONFIG_NAME_MAX];
    char variable[CONFIG_NAME_MAX];
    config_flag_name(row, flag);
    config_environment_name(row, variable);
    (void)fprintf(out, "| `%s` | ", row->name);
    if (row->type == CONFIG_FLAG) {
        (void)fprintf(out, "`%s` only | | |", flag);
    } else {
        (void)fprintf(out, "`%s`, `%s` | ", flag, variable);
        if (row->standard == NULL) {
            (void)fprintf(out, "%" PRIu64 " | ", row->number);
        } else {
            (void)fprintf(out, "%s | ", *row->standard != '\0' ? row->standard : "none");
        }
        print_bounds(out, row);
        (void)fprintf(out, " |");
    }
    (void)fprintf(out, " %s | %s |\n", row->live ? "yes" : "", row->text);
}

static void print_all(FILE *out) {
    static const char *const sections[][2] = {{"server", "`[server]`"}, {"tls", "`[tls]`"},
                                              {"udp", "`[udp]`"},       {"engine", "`[engine]`"},
                                              {"tokens", "`[tokens]`"}, {"sensors", "`[sensors]`"},
                                              {"amqp", "`[amqp]`"},     {"cluster", "`[cluster]`"},
                                              {"limits", "`[limits]`"}, {"", "Not in the file"}};
    for (size_t s = 0; s < sizeof sections / sizeof sections[0]; s++) {
        (void)fprintf(out,
                      "%s\n\n| setting | flag, variable | default | values | reload | |\n"
                      "|---|---|---|---|---|---|\n",
                      sections[s][1]);
        for (unsigned i = 0; i < CONFIG_COUNT; i++) {
            struct config_row row = config_row(i);
            if (strcmp(row.section, sections[s][0]) == 0) {
                print_row(out, &row);
            }
        }
        (void)fputs("\n", out);
    }
}

int main(int argc, char **argv) {
    return generate(print_all, argc > 1 ? argv[1] : NULL, GENERATE_SECTION,
                    "replace its tables of settings with the output of build/gen-settings");
}
