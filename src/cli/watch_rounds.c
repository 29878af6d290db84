/* `--watch`: a command that shows something, again and again.
 *
 * On a terminal the table is redrawn in place; elsewhere each round is a block of lines, with a line that begins with
 * # before it and an empty line after it. A round that fails keeps what was shown last and says why; only the first one
 * ends the program. SIGINT, SIGTERM and q end it, with exit code 0. */
#include "cli/watch_rounds.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/columns.h"
#include "cli/resp_client.h"
#include "cli/terminal.h"

static void end_at_once(int number) {
    (void)number;
    _exit(CLI_OK); /* each block was written whole, and there is nothing else to end */
}

static void on_signal(int number) {
    struct sigaction action = {.sa_handler = end_at_once};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

/* The first line of a message, without "tenure: ". */
static void reason_put(struct cli_text *text, const struct cli_text *error) {
    static const char program[] = "tenure: ";
    const char *at = error->len > 0 ? error->at : "";
    at += strncmp(at, program, sizeof program - 1) == 0 ? sizeof program - 1 : 0;
    cli_text_add(text, at, strcspn(at, "\n"));
}

/* "2 new, 1 changed, 0 gone", or why the round failed. */
static void news_make(struct cli_watch *watch, const struct cli_round *round) {
    watch->news.len = 0;
    cli_text_put(&watch->news, "");
    if (round->code != CLI_OK) {
        reason_put(&watch->news, &round->error);
        cli_text_put(&watch->news, "; retrying");
    } else {
        cli_changes_say(&watch->changes, &watch->news);
    }
}

/* ---- On a terminal ---- */

static void frame_draw(const struct cli_watch *watch) {
    struct cli_text frame = {.at = NULL}, head = {.at = NULL};
    struct cli_screen screen = cli_screen_of(stdout);
    const struct os *os = watch->settings->os;
    cli_text_printf(&head, "every %.1f s: tenure", (double)watch->settings->watch_ms / 1000);
    for (int i = 0; i < watch->argc; i++) {
        cli_text_put(&head, " ");
        cli_text_clean(&head, tn_bytes_of(watch->argv[i], strlen(watch->argv[i])));
    }
    cli_text_put(&head, "  ");
    cli_text_clock(&head, os->clock_wall_ms(os->ctx));
    cli_text_put(&head, "  ");
    cli_text_add(&head, watch->news.at, watch->news.len);
    cli_text_put(&frame, screen.colour ? "\033[7m" : "");
    cli_text_fit(&frame, head.failed ? "" : head.at, head.len, screen.width, false);
    cli_text_put(&frame, screen.colour ? "\033[0m\n" : "\n");
    cli_text_add(&frame, watch->shown.at, watch->shown.len);
    if (!frame.failed) {
        cli_terminal_show(&frame, screen.height);
    }
    cli_text_free(&frame);
    cli_text_free(&head);
}

/* True: the user wants no more. */
static bool frame_wait(const struct cli_watch *watch) {
    const struct os *os = watch->settings->os;
    uint64_t until = os->clock_boot_ms(os->ctx) + watch->settings->watch_ms;
    uint64_t now = os->clock_boot_ms(os->ctx);
    while (now < until) {
        if (cli_terminal_key(until - now) == CLI_KEY_QUIT) {
            return true;
        }
        frame_draw(watch); /* the window may have another size */
        now = os->clock_boot_ms(os->ctx);
    }
    return false;
}

/* ---- Elsewhere ---- */

static void failure_tell(struct cli_watch *watch, const struct cli_round *round) {
    const char *why = watch->news.failed ? "" : watch->news.at;
    if (strcmp(why, watch->told) != 0) { /* once for each reason */
        (void)snprintf(watch->told, sizeof watch->told, "%s", why);
        (void)fprintf(stderr, "tenure: %s\n", why);
    }
    (void)fwrite(round->out.at, 1, round->out.len, stdout); /* a refusal as JSON */
    (void)fflush(stdout);
}

static void block_print(struct cli_watch *watch) {
    struct cli_text text = {.at = NULL};
    const struct os *os = watch->settings->os;
    if (!watch->settings->json) {
        cli_text_put(&text, "# ");
        cli_text_clock(&text, os->clock_wall_ms(os->ctx));
        cli_text_put(&text, watch->news.len > 0 ? "  " : "");
        cli_text_add(&text, watch->news.at, watch->news.len);
        cli_text_put(&text, "\n");
    }
    cli_text_add(&text, watch->shown.at, watch->shown.len);
    cli_text_put(&text, watch->settings->json ? "" : "\n");
    watch->told[0] = '\0';
    (void)fwrite(text.at, 1, text.len, stdout);
    (void)fflush(stdout);
    cli_text_free(&text);
}

/* ---- Rounds ---- */

static void round_make(struct cli_watch *watch, struct cli_round *round) {
    cli_text_free(&round->out);
    cli_text_free(&round->error);
    round->out = round->error = (struct cli_text){.at = NULL};
    watch->round(watch->ctx, round);
    if (round->code == CLI_OK) {
        struct cli_text old = watch->shown;
        watch->shown = round->out;
        round->out = old;
    }
    news_make(watch, round);
    cli_changes_turn(&watch->changes, round->code == CLI_OK);
}

static int first_failed(const struct cli_round *round) {
    (void)fwrite(round->out.at, 1, round->out.len, stdout);
    (void)fwrite(round->error.at, 1, round->error.len, stderr);
    return round->code;
}

/* The terminal shows the last round after it was given back. */
static void last_print(const struct cli_watch *watch) {
    (void)fwrite(watch->shown.at, 1, watch->shown.len, stdout);
    (void)fflush(stdout);
}

int cli_watch_run(struct cli_watch *watch) {
    struct cli_round round = {.code = CLI_OK};
    bool over = false;
    round_make(watch, &round);
    int code = round.code == CLI_OK ? CLI_OK : first_failed(&round);
    bool live = code == CLI_OK && !watch->settings->json && cli_terminal_take();
    if (!live) {
        on_signal(SIGINT);
        on_signal(SIGTERM);
    }
    while (code == CLI_OK && !over) {
        if (live) {
            frame_draw(watch);
        } else if (round.code == CLI_OK) {
            block_print(watch);
        } else {
            failure_tell(watch, &round);
        }
        if (live) {
            over = frame_wait(watch);
        } else {
            cli_wait_ms(watch->settings->watch_ms);
            over = ferror(stdout) != 0;
        }
        if (!over) {
            round_make(watch, &round);
        }
    }
    if (live) {
        cli_terminal_give_back();
        last_print(watch);
    }
    cli_text_free(&round.out);
    cli_text_free(&round.error);
    cli_text_free(&watch->shown);
    cli_text_free(&watch->news);
    cli_changes_free(&watch->changes);
    return code;
}
