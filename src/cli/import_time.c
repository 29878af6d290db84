/* Times as databases write them: seconds or milliseconds since 1970; 2026-11-15 13:04:05.123, with
 * a T between, with Z or an offset behind. Without an offset they are UTC, because the
 * time zone of the writer is unknown. */
#include "cli/import.h"

/* Larger numbers would be seconds after the year 5000, so they are milliseconds. */
#define MS_FROM 100000000000u

struct scan {
    const uint8_t *at, *end;
};

static bool is_digit(const struct scan *scan) {
    return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
}

/* Reads exactly this many digits. */
static bool digits(struct scan *scan, unsigned count, uint32_t *ret_number) {
    uint32_t number = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!is_digit(scan)) {
            return false;
        }
        number = number * 10 + (uint32_t)(*scan->at++ - '0');
    }
    *ret_number = number;
    return true;
}

static bool skip(struct scan *scan, char c) {
    if (scan->at < scan->end && *scan->at == (uint8_t)c) {
        scan->at++;
        return true;
    }
    return false;
}

/* Reads a fraction: .5 means 500 ms. Finer digits are dropped. */
static bool fraction(struct scan *scan, uint32_t *ret_ms) {
    uint32_t scale = 100;
    *ret_ms = 0;
    if (!skip(scan, '.')) {
        return true;
    }
    if (!is_digit(scan)) {
        return false;
    }
    while (is_digit(scan)) {
        *ret_ms += (uint32_t)(*scan->at++ - '0') * scale;
        scale /= 10;
    }
    return true;
}

/* Days since 1970 in the Gregorian calendar. */
static int64_t days_of(uint32_t year, uint32_t month, uint32_t day) {
    int64_t y = (int64_t)year - (month <= 2);
    int64_t era = y / 400;
    int64_t of_era = y - era * 400;
    int64_t of_year = (153 * ((int64_t)month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool is_date(uint32_t year, uint32_t month, uint32_t day) {
    static const uint8_t last[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return year >= 1970 && month >= 1 && month <= 12 && day >= 1 &&
           day <= last[month - 1] + (uint32_t)(month == 2 && leap);
}

/* Z, +02, +0200, +02:00 or nothing: seconds east of Greenwich. */
static bool offset(struct scan *scan, int64_t *ret_seconds) {
    uint32_t hours = 0, minutes = 0;
    bool west = scan->at < scan->end && *scan->at == '-';
    *ret_seconds = 0;
    if (skip(scan, 'Z') || skip(scan, 'z') || scan->at == scan->end) {
        return true;
    }
    if (!(skip(scan, '+') || skip(scan, '-')) || !digits(scan, 2, &hours)) {
        return false;
    }
    (void)skip(scan, ':');
    if (scan->at < scan->end && !digits(scan, 2, &minutes)) {
        return false;
    }
    *ret_seconds = ((int64_t)hours * 3600 + (int64_t)minutes * 60) * (west ? -1 : 1);
    return hours <= 15 && minutes < 60;
}

static bool date_parse(struct scan *scan, uint64_t *ret_ms) {
    uint32_t year, month, day, hour = 0, minute = 0, second = 0, ms = 0;
    int64_t east = 0;
    if (!digits(scan, 4, &year) || !skip(scan, '-') || !digits(scan, 2, &month) ||
        !skip(scan, '-') || !digits(scan, 2, &day) || !is_date(year, month, day)) {
        return false;
    }
    if (scan->at < scan->end) {
        if (!(skip(scan, ' ') || skip(scan, 'T')) || !digits(scan, 2, &hour) || !skip(scan, ':') ||
            !digits(scan, 2, &minute)) {
            return false;
        }
        if (skip(scan, ':') && !(digits(scan, 2, &second) && fraction(scan, &ms))) {
            return false;
        }
        (void)skip(scan, ' '); /* "+00" may be separated by a blank */
        if (!offset(scan, &east)) {
            return false;
        }
    }
    int64_t seconds = days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - east;
    *ret_ms = (uint64_t)seconds * 1000 + ms;
    return hour < 24 && minute < 60 && second < 60 && seconds >= 0 && scan->at == scan->end;
}

static bool epoch_parse(struct scan *scan, uint64_t *ret_ms) {
    uint64_t number = 0;
    uint32_t ms = 0;
    const uint8_t *first = scan->at;
    while (is_digit(scan) && number < KERNEL_TIME_MAX) {
        number = number * 10 + (uint64_t)(*scan->at++ - '0');
    }
    bool whole = scan->at == scan->end;
    if (scan->at == first || !fraction(scan, &ms) || scan->at != scan->end) {
        return false;
    }
    bool is_ms = whole && number >= MS_FROM;
    if (number >= (is_ms ? KERNEL_TIME_MAX : KERNEL_TIME_MAX / 1000)) {
        return false;
    }
    *ret_ms = is_ms ? number : number * 1000 + ms;
    return true;
}

bool import_time_parse(struct tn_bytes text, uint64_t *ret_ms) {
    struct scan scan = {.at = text.at, .end = text.at + text.len};
    struct scan date = scan;
    return date_parse(&date, ret_ms) || epoch_parse(&scan, ret_ms);
}
