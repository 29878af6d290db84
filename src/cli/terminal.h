/* The terminal, taken over for a live view and given back: on the way out, and on signals. */
#ifndef TN_CLI_TERMINAL_H
#define TN_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/display.h"

enum cli_key {
    CLI_KEY_NONE, /* the time is up, or the window has another size */
    CLI_KEY_QUIT, /* q, or a signal that ends us */
    CLI_KEY_UP,
    CLI_KEY_DOWN,
    CLI_KEY_LEFT,
    CLI_KEY_RIGHT,
    CLI_KEY_PAGE_UP,
    CLI_KEY_PAGE_DOWN,
    CLI_KEY_ENTER,
    CLI_KEY_BACK, /* escape or backspace */
    CLI_KEY_CHAR, /* another one: cli_terminal_char */
};

/* False: standard input or output is no terminal. */
bool cli_terminal_take(void);
void cli_terminal_give_back(void);

/* Draws a frame in place, without flicker. Lines that do not fit into `height` are left out, or the screen would
 * scroll; 0: all fit. */
void cli_terminal_show(const struct cli_text *frame, size_t height);

/* Waits at most this long for a key. */
enum cli_key cli_terminal_key(uint64_t timeout_ms);
/* The character of the last CLI_KEY_CHAR. */
char cli_terminal_char(void);

#endif
