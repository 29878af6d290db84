/* The real client of etcd: gRPC over HTTP/2 to the members themselves. See etcd/etcd.h for what it
 * promises.
 *
 * It keeps a connection to one endpoint and asks the member behind it for its status every probe_ms:
 * a member that is silent for silence_ms is left for the next endpoint. (Not by PINGs of HTTP/2: etcd
 * closes connections that send those more often than every 5 s.) With prefer_leader, a client that
 * learns from the status that another member leads connects to that one in the background and then
 * moves over, without dropping a call. After a round of endpoints without an answer it waits, 50 ms
 * at first, at most backoff_ms_max. */
#ifndef TN_ETCD_ETCD_CLIENT_H
#define TN_ETCD_ETCD_CLIENT_H

#include "etcd/etcd.h"

#define ETCD_ENDPOINTS_MAX 16u
#define ETCD_REQUEST_BYTES_MAX (16u << 20)
#define ETCD_ANSWER_BYTES_MAX (256u << 20)

/* Texts are copied. 0 stands for the value in brackets. */
struct etcd_options {
    const char *const *endpoints; /* as in etcd/address.h */
    unsigned endpoint_count;
    unsigned endpoint_first; /* index of the one to begin with */

    const char *ca_file;          /* PEM; NULL: the system's authorities */
    const char *certificate_file; /* NULL: none */
    const char *key_file;         /* with certificate_file */
    const char *user;             /* NULL: none */
    const char *password;

    bool prefer_leader; /* for a client that writes; one that watches stays where it is */

    uint32_t connect_ms;        /* until a connection must be ready (1000) */
    uint32_t probe_ms;          /* between two looks at the member's status (500) */
    uint32_t silence_ms;        /* until a silent member is left (1500) */
    uint32_t backoff_ms_max;    /* (250) */
    uint32_t request_bytes_max; /* (2 MiB); etcd itself takes 1.5 MiB by default */
    uint32_t answer_bytes_max;  /* (64 MiB) */
};

/* Connects nowhere yet: the first etcd_step does. TN_INVALID: the options, or the files of TLS; the
 * error says which. TN_NOMEM. */
enum tn_status etcd_open(const struct etcd_options *options, struct etcd **ret_etcd,
                         char ret_error[ETCD_MESSAGE_MAX]);

#endif
