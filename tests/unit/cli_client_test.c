/* The command line's client against a malicious server: no bytes that a terminal would obey are
 * printed; and when the server disconnects, the exit code shows the outcome. */
#include "unit/unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

#include "cli/opensynaptic.h"
#include "cli/resp_client.h"
#include "kernel/result.h"

#define REPLIES 8u
#define HELLO "%1\r\n+server\r\n+tenure\r\n"
#define HANG_UP ""
#define UNKNOWN "\xef\xbf\xbd" /* the replacement for bytes that are no character */

/* Takes one connection, answers its requests with these, and waits for its end, or hangs up if the last
 * is HANG_UP. */
struct rogue {
    int listener;
    pthread_t thread;
    const char *replies[REPLIES];
    struct cli_settings settings;
};

static void *rogue_run(void *ctx) {
    struct rogue *rogue = ctx;
    char request[4096];
    bool hangs_up = false;
    int socket = accept(rogue->listener, NULL, NULL);
    for (unsigned i = 0; i < REPLIES && rogue->replies[i] != NULL; i++) {
        const char *reply = rogue->replies[i];
        if (recv(socket, request, sizeof request, 0) <= 0 ||
            send(socket, reply, strlen(reply), MSG_NOSIGNAL) < 0) {
            break;
        }
        hangs_up = reply[0] == '\0';
    }
    while (!hangs_up && recv(socket, request, sizeof request, 0) > 0) {
    }
    close(socket);
    return NULL;
}

static void rogue_begin(struct rogue *rogue) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    rogue->settings = (struct cli_settings){.os = os_posix(), .host = "127.0.0.1"};
    rogue->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(rogue->listener >= 0);
    assert_int_equal(bind(rogue->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(rogue->listener, 1), 0);
    assert_int_equal(getsockname(rogue->listener, (struct sockaddr *)&address, &len), 0);
    snprintf(rogue->settings.port, sizeof rogue->settings.port, "%u", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&rogue->thread, NULL, rogue_run, rogue), 0);
}

static void rogue_end(struct rogue *rogue) {
    assert_int_equal(pthread_join(rogue->thread, NULL), 0);
    close(rogue->listener);
}

/* Captures what is written to one of our descriptors, from here to said_end. */
struct said {
    int fd, before;
    FILE *file;
    char text[4096];
};

static void said_begin(struct said *said, int fd) {
    fflush(NULL);
    *said = (struct said){.fd = fd, .before = dup(fd), .file = tmpfile()};
    assert_non_null(said->file);
    assert_true(dup2(fileno(said->file), fd) >= 0);
}

static void said_end(struct said *said) {
    fflush(NULL);
    assert_true(dup2(said->before, said->fd) >= 0);
    close(said->before);
    rewind(said->file);
    assert_true(fread(said->text, 1, sizeof said->text - 1, said->file) > 0);
    fclose(said->file);
}

static void why_it_refuses_a_connection_is_told_clean(void **state) {
    struct rogue rogue = {.replies = {"-ERR \033[2J\233gone\r\n"}};
    struct cli_client client;
    (void)state;
    rogue_begin(&rogue);
    assert_int_equal(cli_client_open(&client, &rogue.settings), CLI_LINK_UNREACHABLE);
    assert_string_equal(client.error, "the server refuses: ERR " UNKNOWN "[2J" UNKNOWN "gone");
    rogue_end(&rogue);
}

static void why_it_refuses_a_request_is_told_clean(void **state) {
    struct rogue rogue = {.replies = {HELLO, "-BAD\033 \033]0;x\007 lsn=7\r\n"}};
    const struct tn_bytes words[] = {tn_bytes_of("TIME", 4)};
    struct cli_client client;
    struct said said;
    (void)state;
    rogue_begin(&rogue);
    assert_int_equal(cli_client_open(&client, &rogue.settings), CLI_LINK_OK);
    said_begin(&said, STDERR_FILENO);
    int code = opensynaptic_call(&client, &rogue.settings, words, 1);
    said_end(&said);
    assert_int_equal(code, CLI_FAILED);
    assert_string_equal(said.text,
                        "tenure opensynaptic: BAD" UNKNOWN ": " UNKNOWN "]0;x" UNKNOWN "\n");
    cli_client_close(&client);
    rogue_end(&rogue);
}

static void import_is_refused(const char *reply, const char *want) {
    struct rogue rogue = {.replies = {HELLO, reply}};
    char *arguments[] = {"import", "ports", "/dev/null"};
    struct said said;
    rogue_begin(&rogue);
    said_begin(&said, STDERR_FILENO);
    int code = cli_import(&rogue.settings, 2, arguments + 1);
    said_end(&said);
    assert_int_equal(code, tn_result_exit(TN_R_POOL_NOTFOUND));
    assert_string_equal(said.text, want);
    rogue_end(&rogue);
}

static void why_there_is_no_such_pool_is_told_clean(void **state) {
    (void)state;
    import_is_refused("-POOL_NOTFOUND \033[2J\r\n", "tenure import: ports: " UNKNOWN "[2J\n");
    import_is_refused("-POOL_NOTFOUND\r\n", "tenure import: ports: \n");
}

static const char sensors_reply[] = "%1\r\n+sensors\r\n*1\r\n%3\r\n+ref\r\n+s\033[2J\r\n"
                                    "+state\r\n+error\r\n+last_error\r\n+w\033]0;x\007\r\n";

static void what_the_live_view_shows_is_clean(void **state) {
    struct rogue rogue = {.replies = {HELLO, "$20\r\ntenure_version:\033[2J\n\r\n",
                                      "%1\r\n+pools\r\n*1\r\n%1\r\n+pool\r\n+a\033[2J\r\n",
                                      sensors_reply, "%1\r\n+peak\r\n*1\r\n+\033[2J\r\n",
                                      "-ERR none\r\n"}};
    char *arguments[] = {"--once"};
    struct said said;
    (void)state;
    rogue_begin(&rogue);
    said_begin(&said, STDOUT_FILENO);
    int code = cli_top(&rogue.settings, 1, arguments);
    said_end(&said);
    assert_int_equal(code, CLI_OK);
    assert_non_null(strstr(said.text, "tenure " UNKNOWN "[2J at 127.0.0.1:"));
    assert_non_null(strstr(said.text, "a" UNKNOWN "[2J "));
    assert_non_null(strstr(said.text, "s" UNKNOWN "[2J w" UNKNOWN "]0;x" UNKNOWN));
    assert_null(strchr(said.text, '\033'));
    rogue_end(&rogue);
}

/* It was a read: nothing can have happened. */
static void an_export_without_an_answer_is_no_doubt(void **state) {
    struct rogue rogue = {
        .replies = {HELLO, "*2\r\n:1\r\n:1\r\n",
                    "%1\r\n+options\r\n%3\r\n+sticky\r\n+yes\r\n+kind\r\n+range\r\n"
                    "+format\r\n+dec\r\n",
                    HANG_UP}};
    char *arguments[] = {"--pool", "ids"};
    struct said said;
    (void)state;
    rogue_begin(&rogue);
    said_begin(&said, STDERR_FILENO);
    int code = opensynaptic_export(&rogue.settings, 2, arguments);
    said_end(&said);
    assert_int_equal(code, CLI_UNREACHABLE);
    rogue_end(&rogue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(why_it_refuses_a_connection_is_told_clean),
        cmocka_unit_test(why_it_refuses_a_request_is_told_clean),
        cmocka_unit_test(why_there_is_no_such_pool_is_told_clean),
        cmocka_unit_test(what_the_live_view_shows_is_clean),
        cmocka_unit_test(an_export_without_an_answer_is_no_doubt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
