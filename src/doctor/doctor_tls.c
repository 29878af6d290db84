/* The files of TLS: whether the server can use them, whose certificate it is and until when it is valid. */
#include <errno.h>
#include <inttypes.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/doctor_parts.h"

#define SOON_DAYS 30
#define CHAIN_MAX 16

static const char area[] = "tls";

/* Writes names such as "DNS:localhost, IP Address:127.0.0.1"; empty: there are none. */
static void names_read(X509 *certificate, char *out, size_t room) {
    BIO *memory = BIO_new(BIO_s_mem());
    int at = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1);
    out[0] = '\0';
    if (memory != NULL && at >= 0 &&
        X509V3_EXT_print(memory, X509_get_ext(certificate, at), 0, 0) == 1) {
        int len = BIO_read(memory, out, (int)room - 1);
        out[len > 0 ? len : 0] = '\0';
    }
    (void)BIO_free(memory);
}

/* The whole days between now and a time in the certificate, and whether that time has passed. */
static bool days_until(const struct doctor *doctor, const ASN1_TIME *when, int *ret_days,
                       bool *ret_past) {
    int days = 0, seconds = 0;
    time_t now = (time_t)(doctor->os->clock_wall_ms(doctor->os->ctx) / 1000);
    ASN1_TIME *at = ASN1_TIME_set(NULL, now);
    bool good = at != NULL && ASN1_TIME_diff(&days, &seconds, at, when) == 1;
    ASN1_TIME_free(at);
    *ret_past = days < 0 || seconds < 0;
    *ret_days = days < 0 ? -days : days;
    return good;
}

static void dates_judge(struct doctor *doctor, const char *file, int index, X509 *certificate) {
    char subject[256] = "", names[512];
    int from = 0, until = 0;
    bool begun = false, ended = false;
    (void)X509_NAME_oneline(X509_get_subject_name(certificate), subject, sizeof subject);
    names_read(certificate, names, sizeof names);
    if (!days_until(doctor, X509_get0_notBefore(certificate), &from, &begun) ||
        !days_until(doctor, X509_get0_notAfter(certificate), &until, &ended)) {
        doctor_say(doctor, DOCTOR_PROBLEM, area, "renew the certificate",
                   "%s: certificate %d (%s) has no valid dates", file, index, subject);
    } else if (ended) {
        doctor_say(doctor, DOCTOR_PROBLEM, area,
                   "renew the certificate, then: systemctl reload tenured",
                   "%s: certificate %d (%s) expired %d days ago: clients refuse it", file, index,
                   subject, until);
    } else if (!begun && from > 0) {
        doctor_say(doctor, DOCTOR_PROBLEM, area, "correct the clock, or use another certificate",
                   "%s: certificate %d (%s) is valid only in %d days", file, index, subject, from);
    } else if (until < SOON_DAYS) {
        doctor_say(doctor, DOCTOR_WARNING, area,
                   "renew the certificate, then: systemctl reload tenured",
                   "%s: certificate %d (%s) expires in %d days", file, index, subject, until);
    } else {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "%s: certificate %d (%s) is valid for %d days",
                   file, index, subject, until);
    }
    if (index == 1 && names[0] == '\0') {
        doctor_say(doctor, DOCTOR_WARNING, area, "renew the certificate with subjectAltName",
                   "%s has no names: clients that verify names refuse it", file);
    } else if (index == 1) {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "clients can use the names %s", names);
    }
}

static void certificates_judge(struct doctor *doctor, const char *path) {
    FILE *file = fopen(path, "re");
    X509 *certificate;
    for (int i = 1; file != NULL && i <= CHAIN_MAX &&
                    (certificate = PEM_read_X509(file, NULL, NULL, NULL)) != NULL;
         i++) {
        dates_judge(doctor, path, i, certificate);
        X509_free(certificate);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* The path, if something else than a file has it, such as a pipe, which would have to be waited for. */
static const char *not_regular(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) ? path : NULL;
}

void doctor_tls(struct doctor *doctor) {
    struct server_tls_files files = config_tls_files(&doctor->config);
    char reason[SERVER_TLS_REASON_MAX];
    if (*files.certificate == '\0' || *files.key == '\0') {
        return; /* TLS is off, or the error in the configuration has been reported */
    }
    const char *wrong = not_regular(files.certificate);
    wrong = wrong == NULL ? not_regular(files.key) : wrong;
    wrong = wrong == NULL ? not_regular(files.ca) : wrong;
    if (wrong != NULL) {
        doctor_say(doctor, DOCTOR_PROBLEM, area, "correct the path", "%s is not a regular file",
                   wrong);
        return;
    }
    const char *closed = access(files.certificate, R_OK) != 0 ? files.certificate : files.key;
    if (access(closed, R_OK) != 0 && errno == EACCES) {
        doctor_say(doctor, DOCTOR_UNKNOWN, area, "run this as root, or as the user of the server",
                   "cannot look: %s: %s", closed, strerror(errno));
    } else if (access(closed, R_OK) != 0) {
        doctor_say(doctor, DOCTOR_PROBLEM, area,
                   "correct the path; tenured --make-certificate DIR makes a set for trying",
                   "%s: %s", closed, strerror(errno));
    } else if (!server_tls_check(&files, reason)) {
        doctor_say(doctor, DOCTOR_PROBLEM, area,
                   "correct tls_cert_file, tls_key_file or tls_ca_file", "%s", reason);
    } else {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "the key %s belongs to the certificate",
                   files.key);
    }
    certificates_judge(doctor, files.certificate);
    if (files.clients != SERVER_TLS_CLIENTS_NO && *files.ca != '\0') {
        certificates_judge(doctor, files.ca);
    }
}
