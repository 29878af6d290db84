/* The messages are those of sd_notify(3). */
#include "main/notify.h"

#include <inttypes.h>
#include <systemd/sd-daemon.h>
#include <uv.h>

void notify_status(const char *text) {
    (void)sd_notifyf(0, "STATUS=%s", text);
}

void notify_ready(const char *text) {
    (void)sd_notifyf(0, "READY=1\nSTATUS=%s", text);
}

/* The time of the monotonic clock tells reloads apart, for Type=notify-reload. */
void notify_reloading(void) {
    (void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=Reloading.",
                     uv_hrtime() / 1000);
}

void notify_stopping(void) {
    (void)sd_notify(0, "STOPPING=1\nSTATUS=Answering pending requests, then stopping.");
}

void notify_alive(void) {
    (void)sd_notify(0, "WATCHDOG=1");
}

uint32_t notify_alive_ms(void) {
    uint64_t us = 0;
    if (sd_watchdog_enabled(0, &us) <= 0 || us == 0) {
        return 0;
    }
    uint64_t ms = us / 2000;
    return ms == 0 ? 1 : ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}
