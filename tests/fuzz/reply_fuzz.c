/* Any bytes as the answer of a server, in pieces of the size that the first byte gives: whatever
 * the command line's reader makes of them is printed in every format, and every way of splitting
 * them must have the same result. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cli/event_row.h"
#include "cli/reply_reader.h"
#include "cli/show.h"
#include "cli/show_json.h"
#include "protocol/table.h"

static FILE *nowhere;

/* Shown once, and in two rounds of --watch: in the second, nothing is new. */
static void look_again(const struct cli_reader *reader, enum protocol_id id) {
    struct cli_changes changes = {.rounds = 0};
    struct cli_view view = {.screen = {.width = 40}, .now_ms = 1000};
    bool shown = cli_reply_show(&protocol_table[id], reader, &view, nowhere);
    TN_ASSERT(shown);
    view.changes = &changes;
    for (unsigned round = 0; round < 2; round++) {
        shown = cli_reply_show(&protocol_table[id], reader, &view, nowhere);
        TN_ASSERT(shown && changes.fresh == 0 && changes.found <= changes.now.count);
        cli_changes_turn(&changes, true);
    }
    cli_changes_free(&changes);
}

static void look(const struct cli_reader *reader) {
    struct cli_text text = {.at = NULL};
    struct cli_list list = {.table = {.screen = {.width = 40}}};
    struct cli_event event;
    TN_ASSERT(reader->nodes[0].end == reader->node_count);
    cli_json_node(&text, reader, 0);
    TN_ASSERT(text.len > 0 && memchr(text.at, '\n', text.len) == NULL);
    if (cli_event_parse(tn_bytes_of(text.at, text.len), &event)) {
        cli_event_free(&event);
    }
    text.len = 0;
    struct cli_refusal refusal = cli_refusal_of(cli_node_text(reader, 0));
    cli_json_refusal(&text, &refusal);
    cli_text_free(&text);
    TN_ASSERT(cli_list_show(&list, reader, 10, nowhere));
    cli_table_free(&list.table);
    look_again(reader, PROTOCOL_INFO);
    look_again(reader, PROTOCOL_CLIENT_LIST);
}

/* How many replies there were, and whether it ended badly. */
static uint64_t read_all(const uint8_t *data, size_t size, size_t piece, bool shown) {
    struct cli_reader reader = {.bytes = NULL};
    enum cli_parse parse = CLI_MORE;
    uint64_t count = 0;
    for (size_t at = 0; parse != CLI_BAD; at += piece) {
        while ((parse = cli_reader_next(&reader)) == CLI_READY) {
            count += 2;
            if (shown) {
                look(&reader);
            }
        }
        if (at >= size || parse == CLI_BAD) {
            break;
        }
        size_t len = size - at < piece ? size - at : piece;
        size_t capacity;
        uint8_t *room = cli_reader_room(&reader, &capacity);
        TN_ASSERT(room != NULL && capacity >= len);
        memcpy(room, data + at, len);
        cli_reader_fill(&reader, len);
    }
    count += parse == CLI_BAD;
    cli_reader_free(&reader);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (nowhere == NULL) {
        nowhere = fopen("/dev/null", "w");
    }
    if (size < 2 || size > 8192 || nowhere == NULL) {
        return 0;
    }
    size_t piece = data[0] > 0 ? data[0] : 1;
    uint64_t cut = read_all(data + 1, size - 1, piece, true);
    TN_ASSERT(cut == read_all(data + 1, size - 1, size - 1, false));
    return 0;
}
