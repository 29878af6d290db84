/* The client of etcd over TLS: which certificates each side trusts. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/etcdkit.h"

static char dir[64];
static struct etcdkit kit;
static char arguments[512];

/* The certificates of this test, in `dir`. Only `openssl ca` can set a date in the past after which
 * a certificate is no longer valid. */
static const char *const certificates =
    "set -e; cd \"$1\"; exec >log 2>&1\n"
    "key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $1.key; }\n"
    "for ca in ca other; do key $ca\n"
    "  openssl req -x509 -new -key $ca.key -days 30 -subj /CN=$ca -out $ca.pem; done\n"
    "printf '[ca]\\ndefault_ca=d\\n[d]\\ndatabase=index\\nserial=serial\\nnew_certs_dir=.\\n"
    "default_md=sha256\\npolicy=p\\nunique_subject=no\\ncopy_extensions=copy\\n[p]\\n"
    "commonName=supplied\\n' >ca.conf\n"
    ": >index; echo 1000 >serial\n"
    "sign() { # NAME SAN CA END\n"
    "  key $1; openssl req -new -key $1.key -subj /CN=$1 -addext subjectAltName=$2 -out $1.csr\n"
    "  openssl ca -batch -config ca.conf -cert $3.pem -keyfile $3.key -in $1.csr -out $1.pem \\\n"
    "    -notext -startdate 20200101000000Z -enddate $4; }\n"
    "sign server IP:127.0.0.1,DNS:localhost ca 20991231000000Z\n"
    "sign elsewhere DNS:etcd.example ca 20991231000000Z\n"
    "sign late IP:127.0.0.1 ca 20200102000000Z\n"
    "sign client DNS:client ca 20991231000000Z\n"
    "sign stale DNS:client ca 20200102000000Z\n"
    "sign foreign DNS:client other 20991231000000Z\n"
    "openssl pkcs8 -topk8 -in client.key -passout pass:x -out locked.key\n";

static char *file(const char *name) {
    static char paths[8][128];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

/* A member with this certificate, which asks its clients for theirs. */
static void server_start(const char *name) {
    snprintf(arguments, sizeof arguments,
             "--cert-file %s/%s.pem --key-file %s/%s.key --trusted-ca-file %s/ca.pem "
             "--client-cert-auth",
             dir, name, dir, name, dir);
    etcdkit_start(&kit, 0);
}

static int group_setup(void **state) {
    char script[3000];
    char command[3200];
    (void)state;
    (void)signal(SIGPIPE, SIG_DFL);
    snprintf(dir, sizeof dir, "/tmp/tenure-etcd-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(script, sizeof script, "%s/make.sh", dir);
    FILE *out = fopen(script, "w");
    assert_non_null(out);
    fputs(certificates, out);
    assert_int_equal(fclose(out), 0);
    snprintf(command, sizeof command, "bash %s %s", script, dir);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): a script of this test
    snprintf(arguments, sizeof arguments,
             "--cert-file %s/server.pem --key-file %s/server.key --trusted-ca-file %s/ca.pem "
             "--client-cert-auth",
             dir, dir, dir);
    struct etcdkit_options options = {
        .members = 1, .client_host = "https://127.0.0.1", .arguments = arguments};
    etcdkit_open_in(&kit, &options, dir);
    return 0;
}

static int group_teardown(void **state) {
    (void)state;
    etcdkit_close(&kit);
    return 0;
}

static struct etcd *client(const char *ca, const char *name) {
    struct etcd_options options = etcdkit_client(&kit);
    struct etcd *etcd = NULL;
    char error[ETCD_MESSAGE_MAX];
    char key[32], pem[32];
    snprintf(pem, sizeof pem, "%s.pem", name);
    snprintf(key, sizeof key, "%s.key", name);
    options.ca_file = file(ca);
    if (name[0] != '\0') {
        options.certificate_file = file(pem);
        options.key_file = file(key);
    }
    if (etcd_open(&options, &etcd, error) != TN_OK) {
        fail_msg("%s", error);
    }
    return etcd;
}

static void works(const char *ca, const char *name) {
    struct etcdkit_reply reply = {0};
    struct etcd *etcd = client(ca, name);
    etcdkit_put(etcd, "/tls", name, &reply);
    etcd_close(etcd);
}

/* Nothing is sent, and the reason is named. */
static void fails(const char *ca, const char *name, const char *expected) {
    struct etcdkit_reply reply = {0};
    struct etcd *etcd = client(ca, name);
    struct etcd_info info;
    do { /* until the member listens */
        etcdkit_swap(etcd, "/tls-refused", NULL, "x", 300, &reply);
        etcd_info(etcd, &info);
        assert_int_equal(reply.outcome, ETCD_SURELY_NOT);
    } while (reply.reason == ETCD_UNREACHABLE);
    assert_int_equal(reply.reason, ETCD_UNTRUSTED);
    assert_int_equal(info.trouble, ETCD_UNTRUSTED);
    if (strstr(reply.message, expected) == NULL) {
        fail_msg("expected '%s' in '%s'", expected, reply.message);
    }
    etcd_close(etcd);
}

static void a_client_certificate_opens_the_door(void **state) {
    (void)state;
    works("ca.pem", "client");
}

static void a_client_without_a_good_certificate_is_told_so(void **state) {
    (void)state;
    fails("ca.pem", "", "alert");
    fails("ca.pem", "foreign", "alert");
    fails("ca.pem", "stale", "alert");
    works("ca.pem", "client");
}

static void a_server_of_another_authority_is_not_trusted(void **state) {
    (void)state;
    fails("other.pem", "client", "certificate");
}

static void a_server_whose_certificate_names_another_host_is_not_trusted(void **state) {
    (void)state;
    etcdkit_kill(&kit, 0);
    server_start("elsewhere");
    fails("ca.pem", "client", "IP address mismatch");
    etcdkit_kill(&kit, 0);
    server_start("server");
    works("ca.pem", "client");
}

static void a_server_whose_certificate_has_expired_is_not_trusted(void **state) {
    (void)state;
    etcdkit_kill(&kit, 0);
    server_start("late");
    fails("ca.pem", "client", "certificate has expired");
    etcdkit_kill(&kit, 0);
    server_start("server");
    works("ca.pem", "client");
}

static void large_messages_pass(void **state) {
    struct etcdkit_reply reply = {0};
    struct etcd *etcd = client("ca.pem", "client");
    uint32_t len = 1 << 20;
    char *value = malloc(len);
    (void)state;
    assert_non_null(value);
    memset(value, 'z', len);
    for (char key[] = "/large/a"; key[7] <= 'f'; key[7]++) {
        struct etcd_op put = {
            .kind = ETCD_PUT, .keys = {.key = etcdkit_text(key)}, .value = tn_bytes_of(value, len)};
        struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = &put, .then_count = 1}};
        etcdkit_call_surely(etcd, &request, &reply);
    }
    etcdkit_range(etcd, "/large/", &reply);
    assert_int_equal(reply.count, 6);
    assert_int_equal(reply.kvs[5].len, len);
    etcd_close(etcd);
    free(value);
}

static void a_renewed_certificate_is_used_without_a_restart(void **state) {
    struct etcdkit_reply reply = {0};
    char command[512];
    (void)state;
    snprintf(command, sizeof command, "cd %s && cp stale.pem mine.pem && cp stale.key mine.key",
             dir);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): a script of this test
    struct etcd *etcd = client("ca.pem", "mine");
    etcdkit_swap(etcd, "/renewed", NULL, "x", 300, &reply);
    assert_int_equal(reply.outcome, ETCD_SURELY_NOT);
    snprintf(command, sizeof command, "cd %s && cp client.key mine.key && cp client.pem mine.pem",
             dir);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): a script of this test
    etcdkit_put(etcd, "/renewed", "x", &reply);
    etcd_close(etcd);
}

static void files_that_cannot_be_used_are_refused_at_once(void **state) {
    struct etcd_options options = etcdkit_client(&kit);
    struct etcd *etcd = NULL;
    char error[ETCD_MESSAGE_MAX];
    (void)state;
    options.ca_file = file("nothing.pem");
    assert_int_equal(etcd_open(&options, &etcd, error), TN_INVALID);
    assert_non_null(strstr(error, "nothing.pem"));
    options.ca_file = file("ca.pem");
    options.certificate_file = file("client.pem");
    assert_int_equal(etcd_open(&options, &etcd, error), TN_INVALID);
    options.key_file = file("server.key"); /* of another certificate */
    assert_int_equal(etcd_open(&options, &etcd, error), TN_INVALID);
    assert_non_null(strstr(error, "server.key"));
    options.key_file = file("locked.key");
    assert_int_equal(etcd_open(&options, &etcd, error), TN_INVALID);
    assert_non_null(
        strstr(error, "locked.key: the key is encrypted; use one without a passphrase"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_certificate_opens_the_door),
        cmocka_unit_test(a_client_without_a_good_certificate_is_told_so),
        cmocka_unit_test(a_server_of_another_authority_is_not_trusted),
        cmocka_unit_test(a_server_whose_certificate_names_another_host_is_not_trusted),
        cmocka_unit_test(a_server_whose_certificate_has_expired_is_not_trusted),
        cmocka_unit_test(large_messages_pass),
        cmocka_unit_test(a_renewed_certificate_is_used_without_a_restart),
        cmocka_unit_test(files_that_cannot_be_used_are_refused_at_once),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
