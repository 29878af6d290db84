/* What certificate.h promises. An authority signs a certificate for the server, for the names and
 * addresses of this machine, and one for a client, whose common name can be the name of a user. Keys are
 * on the curve P-256. The key of the authority is written too: it signs more clients, and the next
 * certificate of the server, so that clients need not be told of a new authority every year.
 *
 * If root makes them, they belong to the owner of the directory, who may be the user of the server. */
#include "config/certificate.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define YEAR_SECONDS (365L * 86400)
#define AUTHORITY_YEARS 10
#define EARLIER_SECONDS (-3600L) /* validity begins earlier than now, for slow clocks */
#define PATH_ROOM 4200u

struct made {
    EVP_PKEY *key;
    X509 *certificate;
};

struct subject {
    const char *file; /* the certificate is FILE.pem, the key FILE-key.pem */
    const char *common_name;
    const char *constraints; /* in the form of OpenSSL's configuration */
    const char *usage, *extended_usage;
    const char *names; /* subjectAltName; NULL: none */
    long years;
};

struct target {
    const struct os *os;
    const char *dir;
    struct stat owner; /* of the directory */
};

static bool extension_add(X509 *certificate, X509 *issuer, int id, const char *value) {
    X509V3_CTX context;
    if (value == NULL) {
        return true;
    }
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, id, value);
    bool added = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return added;
}

static bool serial_set(const struct os *os, X509 *certificate) {
    uint64_t number;
    return os->random(os->ctx, &number, sizeof number) == TN_OK &&
           ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), number >> 1) == 1;
}

static bool certificate_fill(const struct os *os, const struct subject *subject,
                             const struct made *made, const struct made *issuer) {
    X509 *certificate = made->certificate;
    X509_NAME *name = X509_get_subject_name(certificate);
    const unsigned char *text = (const unsigned char *)subject->common_name;
    return X509_set_version(certificate, X509_VERSION_3) == 1 && serial_set(os, certificate) &&
           X509_gmtime_adj(X509_getm_notBefore(certificate), EARLIER_SECONDS) != NULL &&
           X509_gmtime_adj(X509_getm_notAfter(certificate), subject->years * YEAR_SECONDS) !=
               NULL &&
           X509_set_pubkey(certificate, made->key) == 1 &&
           X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, text, -1, -1, 0) == 1 &&
           X509_set_issuer_name(certificate, X509_get_subject_name(issuer->certificate)) == 1 &&
           extension_add(certificate, issuer->certificate, NID_basic_constraints,
                         subject->constraints) &&
           extension_add(certificate, issuer->certificate, NID_key_usage, subject->usage) &&
           extension_add(certificate, issuer->certificate, NID_ext_key_usage,
                         subject->extended_usage) &&
           extension_add(certificate, issuer->certificate, NID_subject_key_identifier, "hash") &&
           extension_add(certificate, issuer->certificate, NID_authority_key_identifier, "keyid") &&
           extension_add(certificate, issuer->certificate, NID_subject_alt_name, subject->names) &&
           X509_sign(certificate, issuer->key, EVP_sha256()) > 0;
}

/* ---- Files ---- */

static bool file_write(const struct target *target, const char *path, BIO *text, mode_t mode) {
    const struct os *os = target->os;
    char *bytes = NULL;
    int file;
    long len = BIO_get_mem_data(text, &bytes);
    enum tn_status status =
        os->open(os->ctx, path, OS_WRITE | OS_CREATE | OS_EXCLUSIVE | OS_PRIVATE, &file);
    if (status == TN_OK) {
        status = os->write_at(os->ctx, file, bytes, (size_t)len, 0);
        if (fchmod(file, mode) != 0 ||
            (geteuid() == 0 && fchown(file, target->owner.st_uid, target->owner.st_gid) != 0)) {
            status = TN_IO;
        }
        (void)os->close(os->ctx, file);
    }
    if (status != TN_OK) {
        (void)fprintf(stderr, "tenured: %s: %s\n", path,
                      status == TN_INVALID ? "there is such a file already"
                                           : tn_status_text(status));
        return false;
    }
    (void)printf("%s\n", path);
    return true;
}

static bool pem_write(const struct target *target, const struct subject *subject,
                      const struct made *made) {
    char path[PATH_ROOM];
    BIO *text = BIO_new(BIO_s_mem());
    BIO *key = BIO_new(BIO_s_mem());
    bool good = text != NULL && key != NULL && PEM_write_bio_X509(text, made->certificate) == 1 &&
                PEM_write_bio_PrivateKey(key, made->key, NULL, NULL, 0, NULL, NULL) == 1;
    if (!good) {
        (void)fprintf(stderr, "tenured: out of memory\n");
    }
    (void)snprintf(path, sizeof path, "%s/%s-key.pem", target->dir, subject->file);
    good = good && file_write(target, path, key, S_IRUSR | S_IWUSR);
    (void)snprintf(path, sizeof path, "%s/%s.pem", target->dir, subject->file);
    good = good && file_write(target, path, text, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
    BIO_free(text);
    BIO_free(key);
    return good;
}

/* ---- The set ---- */

static void made_free(struct made *made) {
    EVP_PKEY_free(made->key);
    X509_free(made->certificate);
}

/* The issuer may be the certificate itself. */
static bool make(const struct target *target, const struct subject *subject, struct made *made,
                 const struct made *issuer) {
    made->key = EVP_EC_gen("P-256");
    made->certificate = X509_new();
    if (made->key == NULL || made->certificate == NULL ||
        !certificate_fill(target->os, subject, made, issuer)) {
        (void)fprintf(stderr, "tenured: cannot make a certificate: %s\n",
                      ERR_reason_error_string(ERR_get_error()));
        return false;
    }
    return pem_write(target, subject, made);
}

/* The names for the certificate, with the host's name if a certificate can have it. */
static const char *names_make(char out[512]) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
    char host[256] = "";
    bool named = gethostname(host, sizeof host - 1) == 0 && host[0] != '\0' &&
                 host[strspn(host, letters)] == '\0' && strcmp(host, "localhost") != 0;
    (void)snprintf(out, 512, "DNS:localhost,IP:127.0.0.1,IP:::1%s%s", named ? ",DNS:" : "",
                   named ? host : "");
    return out;
}

static bool exists(const char *dir, const char *file) {
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof path, "%s/%s.pem", dir, file);
    return access(path, F_OK) == 0;
}

static BIO *pem_open(const char *dir, const char *file) {
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof path, "%s/%s.pem", dir, file);
    return BIO_new_file(path, "r");
}

/* Reads the authority that an earlier call has made. */
static bool authority_read(const char *dir, struct made *made) {
    static char no_passphrase[] = ""; /* OpenSSL must not ask the terminal for one */
    BIO *text = pem_open(dir, "ca");
    BIO *key = pem_open(dir, "ca-key");
    made->certificate = text != NULL ? PEM_read_bio_X509(text, NULL, NULL, NULL) : NULL;
    made->key = key != NULL ? PEM_read_bio_PrivateKey(key, NULL, NULL, no_passphrase) : NULL;
    BIO_free(text);
    BIO_free(key);
    bool good = made->certificate != NULL && made->key != NULL &&
                X509_check_private_key(made->certificate, made->key) == 1;
    if (!good) {
        (void)fprintf(stderr,
                      "tenured: %s: ca.pem and ca-key.pem are not an authority and its key\n", dir);
        return false;
    }
    if (X509_cmp_current_time(X509_get0_notAfter(made->certificate)) < 0) {
        (void)fprintf(stderr,
                      "tenured: %s: the authority in ca.pem has expired: remove ca.pem and "
                      "ca-key.pem to make a new one\n",
                      dir);
        return false;
    }
    return true;
}

static bool authority_find(const struct target *target, struct made *made) {
    static const struct subject authority = {.file = "ca",
                                             .common_name = "Tenure trial authority",
                                             .constraints = "critical,CA:TRUE,pathlen:0",
                                             .usage = "critical,keyCertSign,cRLSign",
                                             .years = AUTHORITY_YEARS};
    return exists(target->dir, "ca") ? authority_read(target->dir, made)
                                     : make(target, &authority, made, made);
}

/* Makes the certificates that are missing. */
static bool set_make(const struct target *target) {
    char names[512];
    const struct subject subjects[] = {{.file = "server",
                                        .common_name = "localhost",
                                        .constraints = "critical,CA:FALSE",
                                        .usage = "critical,digitalSignature",
                                        .extended_usage = "serverAuth",
                                        .names = names_make(names),
                                        .years = 1},
                                       {.file = "client",
                                        .common_name = "client",
                                        .constraints = "critical,CA:FALSE",
                                        .usage = "critical,digitalSignature",
                                        .extended_usage = "clientAuth",
                                        .years = 1}};
    struct made authority = {.key = NULL}, made[2] = {{.key = NULL}};
    bool missing[2];
    for (unsigned i = 0; i < 2; i++) {
        missing[i] = !exists(target->dir, subjects[i].file);
    }
    bool good = missing[0] || missing[1];
    if (!good) {
        (void)fprintf(stderr,
                      "tenured: %s: there is such a file already: server.pem; to replace the "
                      "certificate of the server, remove server.pem and server-key.pem first\n",
                      target->dir);
    }
    good = good && authority_find(target, &authority);
    for (unsigned i = 0; i < 2; i++) {
        good = good && (!missing[i] || make(target, &subjects[i], &made[i], &authority));
        made_free(&made[i]);
    }
    made_free(&authority);
    return good;
}

int config_certificate_make(const struct os *os, const char *dir) {
    struct target target = {.os = os, .dir = dir};
    enum tn_status status = os->make_dir(os->ctx, dir);
    if (status == TN_OK && (strlen(dir) > PATH_ROOM - 32 || stat(dir, &target.owner) != 0)) {
        status = TN_INVALID;
    }
    if (status != TN_OK) {
        (void)fprintf(stderr, "tenured: %s: %s\n", dir, tn_status_text(status));
        return 2;
    }
    return set_make(&target) ? 0 : 2;
}
