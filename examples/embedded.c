/* Tenure inside a program: opens ./demo-data, leases a port, releases it. Run it twice: the pool
 * still exists, and so does everything else that was answered. */
#include <stdio.h>
#include <tenure.h>

int main(void) {
    struct tenure *t;
    struct tenure_error error;
    struct tenure_options options;
    tenure_options_init(&options, "./demo-data");
    if (tenure_open(&options, &t, &error) != TENURE_STATUS_OK) {
        fprintf(stderr, "cannot open: %s\n", error.text);
        return 1;
    }
    const struct tenure_option ports[] = {
        {"lo", "30000"}, {"hi", "30009"}, {"strategy", "next"}, {"lease", "60"}};
    enum tenure_result result = tenure_pool_create(t, "ports", ports, 4, NULL, NULL);
    printf("create ports: %s\n", tenure_result_name(result));

    struct tenure_reply lease;
    result = tenure_alloc_any(t, "ports", "job/42", 1, NULL, &lease);
    if (result != TENURE_OK) {
        printf("no port: %s\n", tenure_result_text(result));
        tenure_close(t);
        return 1;
    }
    char id[TENURE_LEASE_ID_TEXT];
    tenure_lease_id_format(lease.lease, id);
    printf("job/42 has port %s: lease %s, epoch %llu, for 60 s unless touched\n",
           lease.values[0].text, id, (unsigned long long)lease.epoch);

    result = tenure_touch(t, lease.lease, lease.epoch, NULL, NULL, NULL);
    printf("touch: %s\n", tenure_result_name(result));
    result = tenure_release(t, lease.lease, "job/42", lease.epoch, false, NULL, NULL);
    printf("release: %s\n", tenure_result_name(result));
    result = tenure_touch(t, lease.lease, lease.epoch, NULL, NULL, NULL);
    printf("touch with the old token: %s\n", tenure_result_name(result));
    return tenure_close(t) == TENURE_STATUS_OK ? 0 : 1;
}
