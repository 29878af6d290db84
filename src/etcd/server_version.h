/* Whether a version of etcd does what the client and the replicated log rely on. */
#ifndef TN_ETCD_SERVER_VERSION_H
#define TN_ETCD_SERVER_VERSION_H

enum etcd_fitness {
    ETCD_FIT,
    ETCD_TOO_OLD, /* before 3.4: it neither splits large news of a watch nor reports its progress */
    ETCD_FAULTY,  /* 3.5.0 to 3.5.2: a member that crashes can come back with other data */
    ETCD_UNKNOWN, /* newer than any version that this program was made for, or not a version */
};

/* `version`: as a member states it, "3.4.23". */
enum etcd_fitness etcd_version_judge(const char *version);

#endif
