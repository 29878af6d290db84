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

/* What was typed and is not answered yet: keys that come together are as good as keys one by one.
 * */
static char typed[64];
static size_t typed_len;

/* The first of them. Arrows are an escape, a bracket or an O, and a letter; they arrive together.
 * */
static enum cli_key typed_take(void) {
    bool arrow = typed_len >= 3 && typed[0] == '\033' && (typed[1] == '[' || typed[1] == 'O');
    char letter = arrow ? typed[2] : typed[0];
    size_t len = arrow ? 3 : 1;
    typed_len -= len;
    memmove(typed, typed + len, typed_len);
    switch (letter) {
    case 'q':
    case 'Q':
        return arrow ? CLI_KEY_NONE : CLI_KEY_QUIT;
    case 'k':
    case 'A':
        return CLI_KEY_UP;
    case 'j':
    case 'B':
        return CLI_KEY_DOWN;
    case 's':
        return CLI_KEY_SORT;
    default:
        return CLI_KEY_NONE;
    }
}

enum cli_key cli_terminal_key(uint64_t timeout_ms) {
    struct pollfd one = {.fd = STDIN_FILENO, .events = POLLIN};
    if (typed_len == 0 && ended == 0 && poll(&one, 1, (int)timeout_ms) > 0) {
        ssize_t len = read(STDIN_FILENO, typed, sizeof typed);
        if (len <= 0) {
            return CLI_KEY_QUIT; /* a terminal that is gone ends it too */
        }
        typed_len = (size_t)len;
    }
    if (ended != 0) {
        return CLI_KEY_QUIT;
    }
    return typed_len > 0 ? typed_take() : CLI_KEY_NONE;
}
