/* `tenure user add` and `tenure user set`: the secret comes from a terminal, which does not show it, from
 * a file, or from standard input, or it is a random one that is written to a new file; so it need not be
 * in a command line, where others can see it. The rest is the command of the server. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/cli.h"
#include "kernel/result.h"
#include "protocol/table.h"

#define SECRET_MAX 256u
#define SECRET_BYTES 16u              /* of a random one, which is written in hexadecimal */
#define SECRET_ROOM (SECRET_MAX + 2u) /* with the end of the line */
#define OPTION "--secret="

static int complain(const char *why) {
    (void)fprintf(stderr, "tenure: %s\n", why);
    return CLI_USAGE;
}

/* One line without its end; 0: there is none, or it is too long. */
static size_t line_read(FILE *in, char out[SECRET_ROOM]) {
    size_t len = fgets(out, SECRET_ROOM, in) != NULL ? strlen(out) : 0;
    if (len > 0 && out[len - 1] == '\n') {
        out[--len] = '\0';
    }
    return len <= SECRET_MAX ? len : 0;
}

/* A signal that would end or stop the program waits until the terminal shows what is typed again. */
static size_t line_ask(const char *prompt, char out[SECRET_ROOM]) {
    struct termios shown, hidden;
    sigset_t ending, before;
    (void)sigemptyset(&ending);
    (void)sigaddset(&ending, SIGINT);
    (void)sigaddset(&ending, SIGTERM);
    (void)sigaddset(&ending, SIGTSTP);
    (void)sigaddset(&ending, SIGQUIT);
    if (tcgetattr(STDIN_FILENO, &shown) != 0) {
        return 0;
    }
    hidden = shown;
    hidden.c_lflag &= ~(tcflag_t)ECHO;
    (void)sigprocmask(SIG_BLOCK, &ending, &before);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH,
                    &hidden); /* before the prompt: it drops what was typed */
    (void)fputs(prompt, stderr);
    size_t len = line_read(stdin, out);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
    (void)fputc('\n', stderr);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return len;
}

/* On a terminal twice, so that nobody locks a user out by a slip; else one line. */
static int secret_ask(char secret[SECRET_ROOM]) {
    char again[SECRET_ROOM];
    if (isatty(STDIN_FILENO) == 0) {
        return line_read(stdin, secret) > 0
                   ? CLI_OK
                   : complain(
                         "standard input must begin with the secret: one line of 1 to 256 bytes");
    }
    if (line_ask("Secret: ", secret) == 0) {
        return complain("the secret is one line of 1 to 256 bytes");
    }
    bool same = line_ask("Again: ", again) > 0 && strcmp(secret, again) == 0;
    explicit_bzero(again, sizeof again);
    return same ? CLI_OK : complain("the two secrets differ");
}

static int secret_of_file(const char *path, char secret[SECRET_ROOM]) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    size_t len = file != NULL ? line_read(file, secret) : 0;
    if (file != NULL && file != stdin) {
        (void)fclose(file);
    }
    return len > 0 ? CLI_OK
                   : complain("--secret-file: no secret there, one line of 1 to 256 bytes");
}

/* A random secret, in a new file that only its owner reads. */
static int secret_make(const struct os *os, const char *path, char secret[SECRET_ROOM]) {
    static const char digits[] = "0123456789abcdef";
    uint8_t random[SECRET_BYTES];
    int file;
    enum tn_status status = os->random(os->ctx, random, sizeof random);
    for (uint32_t i = 0; i < SECRET_BYTES; i++) {
        secret[2 * i] = digits[random[i] >> 4];
        secret[2 * i + 1] = digits[random[i] & 15];
    }
    explicit_bzero(random, sizeof random);
    if (status == TN_OK) {
        status = os->open(os->ctx, path, OS_WRITE | OS_CREATE | OS_EXCLUSIVE | OS_PRIVATE, &file);
    }
    if (status == TN_OK) {
        secret[2 * SECRET_BYTES] = '\n';
        status = os->write_at(os->ctx, file, secret, 2 * SECRET_BYTES + 1, 0);
        (void)os->close(os->ctx, file);
    }
    secret[2 * SECRET_BYTES] = '\0';
    if (status != TN_OK) {
        (void)fprintf(stderr, "tenure: --new-secret-file: %s: %s\n", path,
                      status == TN_INVALID ? "there is such a file already"
                                           : tn_status_text(status));
    }
    return status == TN_OK ? CLI_OK : CLI_USAGE;
}

/* Where the secret is, taken out of the arguments. */
struct wanted {
    const char *file;
    const char *new_file; /* to be written */
    bool ask, given;
};

/* Whether the argument is this option: its value comes after a '=' or is the next argument. */
static bool value_take(int argc, char **argv, int *at, const char *name, const char **ret_value) {
    size_t len = strlen(name);
    if (strncmp(argv[*at], name, len) != 0) {
        return false;
    }
    if (argv[*at][len] == '=') {
        *ret_value = argv[*at] + len + 1;
        return true;
    }
    if (argv[*at][len] != '\0' || *at + 1 >= argc) {
        return false;
    }
    *ret_value = argv[++*at];
    return true;
}

static struct wanted wanted_take(int *argc, char **argv) {
    struct wanted wanted = {.ask = strcmp(argv[1], "add") == 0};
    int count = 0;
    for (int i = 0; i < *argc; i++) {
        if (value_take(*argc, argv, &i, "--secret-file", &wanted.file) ||
            value_take(*argc, argv, &i, "--new-secret-file", &wanted.new_file)) {
            continue;
        }
        if (strcmp(argv[i], "--ask-secret") == 0) {
            wanted.ask = true;
        } else {
            wanted.given = wanted.given || strcmp(argv[i], "--secret") == 0 ||
                           strncmp(argv[i], OPTION, sizeof OPTION - 1) == 0;
            argv[count++] = argv[i];
        }
    }
    *argc = count;
    return wanted;
}

bool cli_takes_secret(const struct protocol_command *row) {
    for (uint32_t i = 0; i < row->form.count; i++) {
        if (row->form.arguments[i].bind == PROTOCOL_B_SECRET) {
            return true;
        }
    }
    return false;
}

bool cli_is_user(int argc, char **argv) {
    return argc > 2 && strcmp(argv[0], "user") == 0 &&
           (strcmp(argv[1], "add") == 0 || strcmp(argv[1], "set") == 0);
}

static int secret_take(const struct os *os, const struct wanted *wanted, char secret[SECRET_ROOM]) {
    if (wanted->file != NULL && wanted->new_file != NULL) {
        return complain("--secret-file and --new-secret-file exclude each other");
    }
    if (wanted->new_file != NULL) {
        return secret_make(os, wanted->new_file, secret);
    }
    return wanted->file != NULL ? secret_of_file(wanted->file, secret) : secret_ask(secret);
}

/* A new file stays unless it is certain that no user has its secret. */
static void new_file_settle(const struct os *os, const char *path, int code) {
    if (code == CLI_UNKNOWN || code == CLI_FAILED || code == tn_result_exit(TN_R_HALTED) ||
        code == tn_result_exit(TN_R_LOST)) {
        (void)fprintf(stderr, "tenure: %s was kept: the user may have its secret\n", path);
    } else if (code != CLI_OK) {
        (void)os->remove(os->ctx, path);
    }
}

int cli_user(const struct cli_settings *settings, int argc, char **argv) {
    char option[sizeof OPTION + SECRET_ROOM] = OPTION;
    char *secret = option + sizeof OPTION - 1;
    struct wanted wanted = wanted_take(&argc, argv);
    if (wanted.given || (wanted.file == NULL && wanted.new_file == NULL && !wanted.ask)) {
        return cli_call(settings, argc, argv);
    }
    char **words = calloc((size_t)argc + 2, sizeof *words);
    if (words == NULL) {
        return complain("no memory");
    }
    int code = secret_take(settings->os, &wanted, secret);
    if (code == CLI_OK) {
        memcpy(words, argv, (size_t)argc * sizeof *words);
        words[argc] = option;
        struct cli_settings own = *settings;
        own.secret_file = wanted.new_file != NULL ? wanted.new_file : wanted.file;
        code = cli_call(&own, argc + 1, words);
        if (wanted.new_file != NULL) {
            new_file_settle(settings->os, wanted.new_file, code);
        }
    }
    explicit_bzero(option, sizeof option);
    free(words);
    return code;
}
