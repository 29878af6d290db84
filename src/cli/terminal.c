/* Raw mode and the alternate screen, with plain ANSI sequences. Signal handlers only set a
 * flag; the function that waits for a key sees it and exits normally. */
#include "cli/terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static volatile sig_atomic_t ended;

static void note_end(int number) {
    ended = number;
}

static void note_size(int number) {
    (void)number; /* it interrupts the wait, and that is all it is for */
}

static void on_signal(int number, void (*handler)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

bool cli_terminal_take(void) {
    if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1 ||
        tcgetattr(STDIN_FILENO, &before) != 0) {
        return false;
    }
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    on_signal(SIGINT, note_end);
    on_signal(SIGTERM, note_end);
    on_signal(SIGHUP, note_end);
    on_signal(SIGWINCH, note_size);
    on_signal(SIGTSTP, SIG_IGN);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    (void)fputs("\033[?1049h\033[?25l", stdout);
    (void)fflush(stdout);
    return true;
}

void cli_terminal_give_back(void) {
    (void)fputs("\033[?25h\033[?1049l", stdout);
    (void)fflush(stdout);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

/* Home, each line cleared behind its end, the rest of the screen cleared. */
void cli_terminal_show(const struct cli_text *frame, size_t height) {
    (void)fputs("\033[H", stdout);
    size_t len = frame->len > 0 && frame->at[frame->len - 1] == '\n' ? frame->len - 1 : frame->len;
    for (size_t at = 0, lines = 0; at < len && (height == 0 || lines < height); lines++) {
        const char *end = memchr(frame->at + at, '\n', len - at);
        size_t line = end != NULL ? (size_t)(end - (frame->at + at)) : len - at;
        (void)fputs(at > 0 ? "\n" : "", stdout);
        (void)fwrite(frame->at + at, 1, line, stdout);
        (void)fputs("\033[K", stdout);
        at += line + 1;
    }
    (void)fputs("\033[J", stdout);
    (void)fflush(stdout);
}

/* What was typed and is not answered yet: keys that come together are as good as keys one by one.
 * */
static char typed[64];
static size_t typed_len;
static char last_char;

#define ESCAPE_MS 25 /* the rest of a key's sequence follows its escape within this time */

static void typed_drop(size_t len) {
    typed_len -= len;
    memmove(typed, typed + len, typed_len);
}

/* Reads more; false: the terminal is gone. */
static bool typed_read(void) {
    ssize_t len = read(STDIN_FILENO, typed + typed_len, sizeof typed - typed_len);
    typed_len += len > 0 ? (size_t)len : 0;
    return len > 0;
}

/* An escape, a bracket or an O, parameters, and a letter or a tilde. */
static enum cli_key sequence_take(void) {
    size_t len = 2;
    while (len < typed_len && (typed[len] == ';' || (typed[len] >= '0' && typed[len] <= '9'))) {
        len++;
    }
    char end = len < typed_len ? typed[len] : '\0';
    char number = typed[2];
    typed_drop(len < typed_len ? len + 1 : len);
    switch (end) {
    case 'A':
        return CLI_KEY_UP;
    case 'B':
        return CLI_KEY_DOWN;
    case 'C':
        return CLI_KEY_RIGHT;
    case 'D':
        return CLI_KEY_LEFT;
    case '~':
        return number == '5' ? CLI_KEY_PAGE_UP : number == '6' ? CLI_KEY_PAGE_DOWN : CLI_KEY_NONE;
    default:
        return CLI_KEY_NONE;
    }
}

/* The first of what was typed. */
static enum cli_key typed_take(void) {
    struct pollfd one = {.fd = STDIN_FILENO, .events = POLLIN};
    if (typed[0] == '\033' && typed_len < 3 && poll(&one, 1, ESCAPE_MS) > 0) {
        (void)typed_read();
    }
    if (typed[0] == '\033' && typed_len >= 3 && (typed[1] == '[' || typed[1] == 'O')) {
        return sequence_take();
    }
    last_char = typed[0];
    typed_drop(1);
    switch (last_char) {
    case 'q':
    case 'Q':
        return CLI_KEY_QUIT;
    case 'k':
        return CLI_KEY_UP;
    case 'j':
        return CLI_KEY_DOWN;
    case '\r':
    case '\n':
        return CLI_KEY_ENTER;
    case '\t':
        return CLI_KEY_RIGHT;
    case '\033':
    case '\b':
    case 0x7f:
        return CLI_KEY_BACK;
    default:
        return CLI_KEY_CHAR;
    }
}

char cli_terminal_char(void) {
    return last_char;
}

enum cli_key cli_terminal_key(uint64_t timeout_ms) {
    struct pollfd one = {.fd = STDIN_FILENO, .events = POLLIN};
    if (typed_len == 0 && ended == 0 && poll(&one, 1, (int)timeout_ms) > 0 && !typed_read()) {
        return CLI_KEY_QUIT; /* a terminal that is gone ends it too */
    }
    if (ended != 0) {
        return CLI_KEY_QUIT;
    }
    return typed_len > 0 ? typed_take() : CLI_KEY_NONE;
}
