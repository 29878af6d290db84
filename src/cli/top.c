/* `tenure top`: a live view, with one sample and one frame a second. Without a terminal, or with
 * --once, one frame as plain text. */
#include "cli/top.h"

#include <stdlib.h>

#include "cli/cli.h"
#include "cli/terminal.h"

#define REFRESH_MS 1000u

/* Home, each line cleared behind its end, the rest of the screen cleared: no flicker. What does not
 * fit is left out, or the screen would scroll. */
static void show_frame(const struct cli_text *frame, size_t height) {
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

static enum cli_link look(struct top *top, const struct cli_settings *settings) {
    enum cli_link link = CLI_LINK_OK;
    if (top->client.socket < 0) {
        link = cli_client_open(&top->client, settings);
        if (link == CLI_LINK_OK) {
            cli_top_forget(top);
        }
    }
    if (link == CLI_LINK_OK) {
        link = cli_top_look(top, settings->timeout_ms);
        if (link != CLI_LINK_OK) {
            char why[sizeof top->client.error];
            memcpy(why, top->client.error, sizeof why);
            cli_client_close(&top->client);
            memcpy(top->client.error, why, sizeof why);
        }
    }
    return link;
}

static bool draw(struct top *top, const struct cli_settings *settings, enum cli_link link,
                 bool live) {
    struct cli_text frame = {.at = NULL};
    struct cli_screen screen = cli_screen_of(stdout);
    if (!live) {
        screen.height = 0;
    }
    cli_top_draw(top, &screen, link == CLI_LINK_OK ? NULL : "disconnected, retrying",
                 settings->os->clock_wall_ms(settings->os->ctx), &frame);
    bool good = !frame.failed;
    if (good && live) {
        show_frame(&frame, screen.height);
    } else if (good) {
        (void)fwrite(frame.at, 1, frame.len, stdout);
    }
    cli_text_free(&frame);
    return good;
}

/* Keys are answered at once, with what is known; the next look waits for its time. */
static int live_view(struct top *top, const struct cli_settings *settings, enum cli_link link) {
    const struct os *os = settings->os;
    bool good = true;
    for (;;) {
        uint64_t next = os->clock_boot_ms(os->ctx) + REFRESH_MS;
        uint64_t now = next - REFRESH_MS;
        while (now < next) {
            good = good && draw(top, settings, link, true);
            switch (cli_terminal_key(next - now)) {
            case CLI_KEY_QUIT:
                return good ? CLI_OK : CLI_FAILED;
            case CLI_KEY_UP:
                top->first -= top->first > 0;
                break;
            case CLI_KEY_DOWN:
                top->first++;
                break;
            case CLI_KEY_SORT:
                top->sort = (top->sort + 1) % TOP_SORTS;
                break;
            case CLI_KEY_NONE:
                break;
            }
            now = os->clock_boot_ms(os->ctx);
        }
        link = look(top, settings);
    }
}

static int view(struct top *top, const struct cli_settings *settings, bool once) {
    if (settings->socket[0] != '\0') {
        (void)snprintf(top->where, sizeof top->where, "%s", settings->socket);
    } else {
        (void)snprintf(top->where, sizeof top->where, "%s:%s", settings->host, settings->port);
    }
    enum cli_link link = look(top, settings);
    if (link != CLI_LINK_OK) {
        return cli_client_unreachable(&top->client);
    }
    if (once || !cli_terminal_take()) {
        return draw(top, settings, link, false) && fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
    }
    int code = live_view(top, settings, link);
    cli_terminal_give_back();
    return code;
}

int cli_top(const struct cli_settings *settings, int argc, char **argv) {
    bool once = argc == 1 && strcmp(argv[0], "--once") == 0;
    if (argc > 0 && !once) {
        (void)fprintf(stderr, "usage: tenure top [--once]\n");
        return CLI_USAGE;
    }
    struct top *top = calloc(1, sizeof *top);
    struct top_sample *samples = calloc(2, sizeof *samples);
    int code = CLI_FAILED;
    if (top != NULL && samples != NULL) {
        top->client.socket = -1;
        top->now = &samples[0];
        top->before = &samples[1];
        code = view(top, settings, once);
        cli_client_close(&top->client);
        cli_top_forget(top);
    }
    free(top);
    free(samples);
    return code;
}
