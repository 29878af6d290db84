/* `tenure top`: a live view, with one sample and one frame a second. Without a terminal, or with
 * --once, one frame as plain text. */
#include "cli/top.h"

#include <stdlib.h>

#include "cli/cli.h"
#include "cli/terminal.h"

#define REFRESH_MS 1000u
#define ANSWER_MS 5000u /* for an answer, if the timeout is longer: a key should not wait for it */

static enum cli_link look(struct top *top, const struct cli_settings *settings) {
    enum cli_link link = CLI_LINK_OK;
    if (top->client.socket < 0) {
        link = cli_client_open(&top->client, settings);
        if (link == CLI_LINK_OK) {
            cli_top_forget(top);
        }
    }
    if (link == CLI_LINK_OK) {
        link = cli_top_look(top, cli_screen_of(stdout).width,
                            settings->os->clock_wall_ms(settings->os->ctx), settings->timeout_ms);
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
        cli_terminal_show(&frame, screen.height);
    } else if (good) {
        (void)fwrite(frame.at, 1, frame.len, stdout);
    }
    cli_text_free(&frame);
    return good;
}

/* ---- Keys ---- */

static void move(struct top *top, int by) {
    if (top->view == TOP_VIEW_POOLS) {
        int64_t at = (int64_t)top->at + by;
        int64_t last = (int64_t)top->now->pool_count - 1;
        at = at < 0 ? 0 : at > last ? last : at;
        if (last >= 0) {
            top->at = (uint32_t)at;
            top->moved = true;
            memcpy(top->chosen, top->now->pools[top->at].name, sizeof top->chosen);
        }
    } else {
        int64_t first = (int64_t)top->body_first + by;
        top->body_first = first < 0 ? 0 : (uint32_t)first;
    }
}

/* The functions below return whether the server has to be asked at once. */

static bool go(struct top *top, enum top_view view) {
    top->view = view;
    top->body.len = 0;
    top->body_first = 0;
    return true;
}

static bool enter(struct top *top) {
    if (top->view != TOP_VIEW_POOLS || top->now->pool_count == 0) {
        return false;
    }
    top->pool = top->now->pools[top->at];
    top->pool_gone = false;
    top->tab = TOP_TAB_LEASES;
    top->moved = true;
    memcpy(top->chosen, top->pool.name, sizeof top->chosen);
    return go(top, TOP_VIEW_POOL);
}

static bool turn(struct top *top, unsigned by) {
    if (top->view != TOP_VIEW_POOL) {
        return false;
    }
    top->tab = (top->tab + by) % TOP_TABS;
    return go(top, TOP_VIEW_POOL);
}

static bool sort_by(struct top *top, enum top_sort sort) {
    top->sort = sort;
    top->at = top->first = 0;
    top->moved = false;
    cli_top_arrange(top);
    return true;
}

static bool typed(struct top *top, char letter) {
    static const char orders[TOP_SORTS + 1] = "ufwrn"; /* of enum top_sort */
    const char *order = letter != '\0' ? strchr(orders, letter) : NULL;
    if (top->view == TOP_VIEW_HELP) {
        return go(top, top->back);
    }
    if (order != NULL && top->view == TOP_VIEW_POOLS) {
        return sort_by(top, (enum top_sort)(order - orders));
    }
    switch (letter) {
    case 's':
        return top->view == TOP_VIEW_POOLS && sort_by(top, (top->sort + 1) % TOP_SORTS);
    case '@':
        top->scopes = !top->scopes;
        return true;
    case '1':
        return go(top, TOP_VIEW_POOLS);
    case '2':
        return go(top, TOP_VIEW_SENSORS);
    case '?':
        top->back = top->view;
        return go(top, TOP_VIEW_HELP);
    default:
        return false;
    }
}

static bool press(struct top *top, enum cli_key key) {
    const int page = 10;
    switch (key) {
    case CLI_KEY_UP:
        move(top, -1);
        return false;
    case CLI_KEY_DOWN:
        move(top, 1);
        return false;
    case CLI_KEY_PAGE_UP:
        move(top, -page);
        return false;
    case CLI_KEY_PAGE_DOWN:
        move(top, page);
        return false;
    case CLI_KEY_LEFT:
        return turn(top, TOP_TABS - 1);
    case CLI_KEY_RIGHT:
        return turn(top, 1);
    case CLI_KEY_ENTER:
        return enter(top);
    case CLI_KEY_BACK:
        return go(top, top->view == TOP_VIEW_HELP ? top->back : TOP_VIEW_POOLS);
    case CLI_KEY_CHAR:
        return typed(top, cli_terminal_char());
    default:
        return false;
    }
}

/* Keys are answered at once; the next look waits for its time, unless a key shows something new. */
static int live_view(struct top *top, const struct cli_settings *settings, enum cli_link link) {
    const struct os *os = settings->os;
    struct cli_settings own = *settings;
    bool good = true;
    own.timeout_ms = own.timeout_ms == 0 || own.timeout_ms > ANSWER_MS ? ANSWER_MS : own.timeout_ms;
    for (;;) {
        uint64_t next = os->clock_boot_ms(os->ctx) + REFRESH_MS;
        uint64_t now = next - REFRESH_MS;
        while (now < next) {
            good = good && draw(top, settings, link, true);
            enum cli_key key = cli_terminal_key(next - now);
            if (key == CLI_KEY_QUIT) {
                return good ? CLI_OK : CLI_FAILED;
            }
            if (press(top, key)) {
                break;
            }
            now = os->clock_boot_ms(os->ctx);
        }
        link = look(top, &own);
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
