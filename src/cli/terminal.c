/* Raw mode and the alternate screen, with plain ANSI sequences. Signal handlers only note what came:
 * whoever waits for a key finds out and leaves the ordinary way. */
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

/* Arrows are an escape, a bracket or an O, and a letter; they arrive together. */
static enum cli_key key_of(const char *bytes, ssize_t len) {
    if (len >= 3 && bytes[0] == '\033' && (bytes[1] == '[' || bytes[1] == 'O')) {
        return bytes[2] == 'A' ? CLI_KEY_UP : (bytes[2] == 'B' ? CLI_KEY_DOWN : CLI_KEY_NONE);
    }
    switch (len > 0 ? bytes[0] : '\0') {
    case 'q':
    case 'Q':
        return CLI_KEY_QUIT;
    case 'k':
        return CLI_KEY_UP;
    case 'j':
        return CLI_KEY_DOWN;
    case 's':
        return CLI_KEY_SORT;
    default:
        return CLI_KEY_NONE;
    }
}

enum cli_key cli_terminal_key(uint64_t timeout_ms) {
    struct pollfd one = {.fd = STDIN_FILENO, .events = POLLIN};
    char bytes[16];
    int ready = ended != 0 ? 0 : poll(&one, 1, (int)timeout_ms);
    if (ended != 0) {
        return CLI_KEY_QUIT;
    }
    if (ready <= 0) {
        return CLI_KEY_NONE;
    }
    ssize_t len = read(STDIN_FILENO, bytes, sizeof bytes);
    return len <= 0 ? CLI_KEY_QUIT : key_of(bytes, len); /* a terminal that is gone ends it too */
}
